r"""The programs on the pages of the documentation run as printed."""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import botorch_binary_context
from botorch_binary_context import BINARY_RULES, DUEL_RULES, BinaryGP, PreferenceGP
from botorch_binary_context.experiment.cli.program import _make_parser

DOCS = Path(__file__).parents[1] / "docs"
#: The API pages whose examples run as they are; the others have a test of their own.
API_PAGES = sorted(
    path.stem
    for path in DOCS.glob("api/*.md")
    if path.stem not in ("index", "ax", "experiment", "web")
)


def run_page(name: str) -> dict[str, Any]:
    """What is left after the programs of a page, which follow on each other."""
    text = (DOCS / name).read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, name, "exec"), names)
    return names


@pytest.mark.slow
def test_eye_examination() -> None:
    names = run_page("howto/eye.md")
    assert abs(names["best"].parameters["sphere"] + 1.5) < 1.0
    assert names["acuity"].low < 0.2


@pytest.mark.slow
def test_audiogram() -> None:
    names = run_page("howto/audiogram.md")
    truth = names["threshold_of_listener"](names["octaves"]).squeeze(-1)
    error = (names["curve"].center - truth).abs()[1:-1]
    assert float(error.mean()) < 1.0  # 10 dB


@pytest.mark.slow
def test_hearing_aid() -> None:
    assert run_page("howto/hearing_aid.md")["best"].parameters["microphone"] != "omni"


@pytest.mark.slow
def test_robot() -> None:
    names = run_page("howto/robot.md")
    assert names["batch"].shape == (3, 3)
    assert abs(float(names["gait"][0]) - 0.6) < 0.3


@pytest.mark.slow
def test_prompts() -> None:
    assert abs(float(run_page("howto/prompts.md")["prompt"][1]) - 0.8) < 0.4


@pytest.mark.slow
def test_several_subjects() -> None:
    names = run_page("howto/subjects.md")
    spread = [
        names[model].posterior(names["X"]).variance.mean()
        for model in ("informed", "alone")
    ]
    assert spread[0] < spread[1]
    assert float(names["trial"][0, 2]) == 2.0
    assert abs(float(names["best_of_first"]) - 0.4) < 0.2
    assert float(names["best_now"]) > 0.6
    assert (names["low"] <= names["threshold"]).all()


@pytest.mark.slow
def test_goals() -> None:
    names = run_page("howto/goals.md")
    order = [names[name] for name in ("on_average", "in_the_worst", "at_reference")]
    gaps = torch.cat(order).diff()
    assert (gaps > 0.05).all()  # in truth 0.08 and 0.3
    assert float(names["allowed"]) in (0.25, 0.5, 0.75)
    assert names["four"].shape == (4, 2)


def test_notes_for_botorch_users() -> None:
    run_page("botorch.md")


class TestReference:
    """The examples at the beginning of the API pages."""

    @pytest.fixture(autouse=True)
    def clean(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """A folder for the files of an example, and the random state as before."""
        monkeypatch.chdir(tmp_path)
        with torch.random.fork_rng():
            yield

    @pytest.mark.parametrize("name", API_PAGES)
    def test_example_runs(self, name: str) -> None:
        run_page(f"api/{name}.md")

    @pytest.mark.filterwarnings("ignore:TypeDecorator .* will not produce a cache key")
    def test_ax(self) -> None:
        pytest.importorskip("ax")
        names = run_page("api/ax.md")
        assert set(names["trial"]) == {"size", "gain"}

    def test_server(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """All but the last line, which does not end; it gets what it needs."""
        pytest.importorskip("starlette")
        web = importlib.import_module("botorch_binary_context.web")
        served = []
        monkeypatch.setattr(web, "serve", lambda *given: served.append(given))
        run_page("api/experiment.md")
        names = run_page("api/web.md")
        names["place"].socket.close()
        assert served == [(names["lab"], names["place"])]
        assert "http://127.0.0.1:" in capsys.readouterr().out

    def test_comments_are_true(self, capsys: pytest.CaptureFixture[str]) -> None:
        trial = run_page("api/context.md")["trial"]
        assert trial.tolist() == [[0.5, -1.5, -0.75]]
        chances = run_page("api/likelihoods.md")["chances"]
        assert 0.5 < chances.min() < chances.max() < 0.98
        assert run_page("api/sampling.md")["values"].shape == (3, 100)
        names = run_page("api/functionals.md")
        assert names["DIFFERENCE"](names["values"]).tolist() == [-2.0, 1.0]
        assert names["average"](names["values"]).tolist() == [2.0, 4.5]
        run_page("api/diagnostics.md")
        printed = capsys.readouterr().out
        assert "ExpectationPropagation on 20 trials: mean off by " in printed

    def test_recommendation_from_a_simulated_system_is_good(self) -> None:
        names = run_page("api/problems.md")
        problem = names["problem"]
        assert problem.score(names["best"]) > 0.8 * problem.optimal_score


def test_cheat_sheet_names_what_exists() -> None:
    text = (DOCS / "cheat_sheet.md").read_text(encoding="utf-8")
    rules = text.split("## Which rule")[1].split("## Which goal")[0]
    assert set(re.findall(r"`([a-z\d-]+)`", rules)) <= {*BINARY_RULES, *DUEL_RULES}
    classes = set(re.findall(r"`([A-Z][a-z]+[A-Z]\w+)", text))
    assert classes <= set(botorch_binary_context.__all__)
    commands = set(re.findall(r"^binary-context (\w+)", text, flags=re.MULTILINE))
    assert commands <= set(re.findall(r"[a-z]+", _make_parser().format_help()))


@pytest.mark.parametrize("name", ["cheat_sheet.md", "llms.txt"])
def test_functions_and_classes_that_are_named_exist(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    called = set(re.findall(r"\b([A-Za-z_]\w+)\(", text))
    known = {*botorch_binary_context.__all__, *dir(BinaryGP)}
    assert {"suggest", "recommend", "psychometric_gp"} <= called
    assert called <= known


def test_attributes_of_models_that_pages_name_exist() -> None:
    duels = torch.tensor([[[0.0], [1.0]]], dtype=torch.double)
    model = PreferenceGP(duels, torch.ones(1, 1, dtype=torch.double))
    pages = [path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")]
    named = set(re.findall(r"`model\.([a-z_][\w.]*)", "\n".join(pages)))
    assert {"functional.num_rows", "posterior"} <= named
    for name in named:
        operator.attrgetter(name)(model)
    assert model.functional.num_rows == 2  # as the table of notation says


def test_every_link_of_llms_txt_leads_to_a_page() -> None:
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([\w/]+)\.html\)", text)
    assert len(links) > 10
    guides = {f"howto/{path.stem}" for path in DOCS.glob("howto/*.md")}
    assert {"tutorials/index", *guides} <= set(links)
    for link in links:
        assert (DOCS / f"{link}.md").is_file(), link
