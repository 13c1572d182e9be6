r"""The README's examples run as printed, and find what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


def run_block(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(block, str(README), "exec"), names)
    return names


def test_examples_run_and_find_what_the_readme_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    *blocks, last = python_blocks()
    loop = run_block("".join(blocks))  # which go on with the model of the first
    found = float(re.findall(r"tensor\(\[([\d.]+)", capsys.readouterr().out)[0])
    assert abs(found - 0.7) < 0.1
    said = float(
        re.findall(r"at difficulty 0\.5: about ([\d.]+)", README.read_text())[0]
    )
    assert abs(found - said) < 0.01
    assert abs(float(loop["robust"]) - 0.7) < 0.1
    assert loop["batch"].shape == (4, 2)
    assert loop["gentle"].shape == (1, 2)
    best = run_block(last)["best"]
    assert set(best.parameters) == set(best.uncertainty) == {"sphere", "cylinder"}
    assert 0 < best.success_probability({"size": 0.2}).mean < 1


def test_the_first_example_has_ten_lines() -> None:
    assert "## Ten lines" in README.read_text()
    assert len([line for line in python_blocks()[0].splitlines() if line]) == 10


def test_names_in_the_table_exist() -> None:
    import botorch_binary_context

    table = README.read_text().split("## What else it can do")[1].split("```")[0]
    names = set(re.findall(r"\b[A-Z][a-z]+[A-Z]\w+", table))
    assert len(names) > 5
    assert names <= set(botorch_binary_context.__all__) | {"PsychoPy"}


def ranking(study: str) -> dict[str, list[str]]:
    """The cells of a report's ranking, by rule."""
    report = README.parent / "benchmarks" / "results" / study / "report.md"
    table = report.read_text(encoding="utf-8").split("## Ranking")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {row[0].strip("`"): row for row in rows if row[0].startswith("`")}


@pytest.mark.parametrize(
    ("study", "num_rules"),
    [("fresh-binary", 7), ("fresh-duels", 5), ("fresh-refraction", 6)],
)
def test_scores_beside_the_paper_are_those_of_reports(
    study: str, num_rules: int
) -> None:
    text = (README.parent / "docs" / "studies.md").read_text(encoding="utf-8")
    table = text.split("## The paper's scores and ours")[1].split("\n## ")[0]
    (line,) = (x for x in table.splitlines() if f"(`{study}`)" in x)
    for cell, column in zip(line.strip("| ").split(" | ")[1:], (-1, 5), strict=True):
        scores = dict(re.findall(r"`([\w-]+)` (\d+)", cell))
        assert len(scores) == num_rules
        assert scores == {rule: ranking(study)[rule][column] for rule in scores}
        assert list(scores) == sorted(scores, key=lambda r: -int(scores[r]))


@pytest.mark.parametrize(
    ("study", "column"),
    [("fresh-binary", 2), ("fresh-duels", 2), ("fresh-threshold", 2)],
)
def test_scores_are_those_of_the_reports(study: str, column: int) -> None:
    (line,) = (x for x in README.read_text().splitlines() if f"results/{study}/" in x)
    scores = dict(re.findall(r"`([\w-]+)` (\d+)", line))
    ranked = ranking(study).items()
    rows = {rule: row for rule, row in ranked if len(row) > column and row[column]}
    assert len(scores) >= 4
    first = sorted(rows, key=lambda rule: -int(rows[rule][column]))
    assert list(scores) == first[: len(scores)]
    assert scores == {rule: rows[rule][column] for rule in scores}


def acuities(study: str, case: str, rule: str) -> dict[str, str]:
    """The mean acuities and that of the worst seed, as a report has them."""
    report = README.parent / "benchmarks" / "results" / study / "report.md"
    text = report.read_text(encoding="utf-8")
    table = text.split(f"## Acuity: {case}\n")[1].split("\n## ")[0]
    header, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in table.splitlines()
        if line.startswith("|")
    )
    (row,) = (row for row in rows if row[0] == f"`{rule}`")
    return {key: cell.split()[0] for key, cell in zip(header, row, strict=True)}


def test_acuities_are_those_of_the_reports() -> None:
    fresh = "fresh-refraction-anywhere-ep"
    lines = README.read_text().splitlines()
    (center,) = (line for line in lines if "results/fresh-refraction/" in line)
    (anywhere,) = (line for line in lines if f"results/{fresh}/" in line)
    in_center = acuities("fresh-refraction", "slope 5", "ucb-ald")["VA after 260"]
    assert re.findall(r"0\.\d+", center) == [in_center, "0.0248"]
    plain = acuities(fresh, "slope 5, power", "ucb99-ald")
    blur = acuities(fresh, "slope 5, blur", "gradient")
    columns = [f"VA after {trials}" for trials in (30, 60, 100, 150)]
    expected = [*(plain[column] for column in columns), plain["worst seed"]]
    expected += [blur[column] for column in columns]
    assert re.findall(r"0\.\d+", anywhere) == expected


def test_letters_that_a_peak_saves_are_those_of_the_report() -> None:
    """The claim of the how-to page of eye examinations."""
    study = "fresh-refraction-anywhere-ep"
    text = (README.parent / "docs" / "howto" / "eye.md").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if f"`{study}`" in line)
    report = README.parent / "benchmarks" / "results" / study / "report.md"
    letters, means = [], []
    for rule in ("ucb99-ald", "mkg"):
        for case in ("peak", "power"):
            found = acuities(study, f"slope 5, {case}", rule)["trials to 0.1"]
            letters.append(found)
        start = f"| slope 5, power → peak, `{rule}` |"
        (row,) = (x for x in report.read_text().splitlines() if x.startswith(start))
        means += row.split(" | ")[3].split(" → ")
    pattern = r"after (\d+) (?:letters )?instead of (\d+)"
    assert [x for pair in re.findall(pattern, line) for x in pair] == letters
    pairs = re.findall(r"from (0\.\d+) to (0\.\d+)", line)
    assert [x for pair in pairs for x in pair] == means


def test_times_of_rules_are_those_of_the_speed_table() -> None:
    """The page of rules says how much longer than ``ucb-ald`` some rules take."""
    page = (README.parent / "docs" / "api" / "rules.md").read_text(encoding="utf-8")
    measured = (README.parent / "benchmarks/results/speed.md").read_text()
    times = {
        rule: float(re.findall(rf"\| pass/fail \| `{rule}` \| (\d+) ms", measured)[0])
        for rule in ("ucb-ald", "cjes")
    }
    assert "`cjes`, much better there, but takes about three times as long" in page
    assert round(times["cjes"] / times["ucb-ald"]) == 3
    row = r"suggest by mkg after (?:60|260) trials.*\| ([\d.]+) \| ≥"
    shares = re.findall(row, measured)
    assert "`mkg`, in closed form, takes two to four times as long" in page
    assert [round(1 / float(share)) for share in shares] == [2, 4]


def test_ratios_are_those_of_the_speed_table() -> None:
    text = README.read_text()
    measured = (README.parent / "benchmarks/results/speed.md").read_text()
    ratios = [float(x) for x in re.findall(r"\| ([\d.]+) \| [^|]*\|$", measured, re.M)]
    claims = text.split("## Speed")[1].split("## Cite")[0]
    shown = re.findall(r"\| ([\d.]+) \|$", claims, re.M)
    assert len(shown) == 5
    assert set(shown) <= {f"{x:.{digits}f}" for x in ratios for digits in (0, 1)}
