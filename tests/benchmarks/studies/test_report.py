import re
from pathlib import Path
from unittest import mock

import pytest
from botorch.exceptions import InputDataError

from benchmarks.__main__ import main
from benchmarks.studies import figures, store
from benchmarks.studies.analysis import analyze
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.report import write_report
from benchmarks.tables import format_table
from tests.benchmarks.studies.small_studies import fake_results, make_task

SCORES = {"ucb-ald": 2.0, "cjes": 1.0, "random": 0.0}


class TestReport:
    @pytest.fixture(autouse=True)
    def empty_folder(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def add(self, study: str, function: str, rule: str, score: float, seeds=20) -> None:
        task = make_task(study, function, rule, seeds=seeds, iterations=4)
        path = store.result_path(self.root / study, function, rule)
        store.save(fake_results(task, score), path)

    def add_binary(self) -> None:
        for rule, score in SCORES.items():
            for function in ("Ackley", "Levy"):
                self.add("binary", function, rule, score)
        self.add("binary", "Trid", "random", 0.0)

    def test_analysis_ranks_rules_and_gives_relative_regrets(self) -> None:
        self.add_binary()
        analysis = analyze(STUDIES["binary"], self.root)
        assert analysis.rules == tuple(SCORES)
        assert analysis.functions == ("Ackley", "Levy")
        assert (analysis.seeds, analysis.iterations) == (20, 4)
        assert analysis.scores(["random", "cjes"]).shape == (2, 2, 20, 4)
        assert analysis.scores(["cjes"])[0, 1, 3, 2] == pytest.approx(
            1.03, rel=0, abs=0.5e-6
        )
        ranking = analysis.rank(analysis.rules)
        assert ranking is not None
        assert ranking.borda == [4, 2, 0]
        regret = analysis.relative_regret()
        assert set(regret) == set(SCORES)
        assert regret["random"] == pytest.approx(1.0, rel=0, abs=0.5e-7)
        of_random = [analysis.study.optimum(x) - 0.095 for x in ("Ackley", "Levy")]
        expected = sum((x - SCORES["ucb-ald"]) / x for x in of_random) / 2
        assert regret["ucb-ald"] == pytest.approx(expected, rel=0, abs=0.5e-5)
        assert analysis.relative_regret("cbkg") == {}
        assert len(analysis.missing["cbkg"]) == 34
        assert "Trid" not in analysis.missing["random"]

    def test_incomplete_study(self) -> None:
        self.add_binary()
        store.log_run(self.root / "binary", 90, "2")
        with mock.patch("builtins.print"):
            main(["report", "binary", "--output", str(self.root)])
        text = (self.root / "binary" / "report.md").read_text(encoding="utf-8")
        for part in (
            "7 of 374 tasks",
            "`python -m benchmarks run binary` computes",
            "`python -m benchmarks report binary` writes",
            "- `cbkg`: all functions\n",
            "- `cjes`: all functions but `Ackley`, `Levy`\n",
            "20 seeds, 4 iterations",
            "| `ucb-ald` | 1 | 4 |",
            "| 1 | 2 | 1 | 144 |",
            "| `cjes` | 2 | 2 |",
            "| `random` | 100.0 | 0.50 |",
            "Wall time in all: 0:01:30",
            "| Levy | SE-ARD | SE-ARD |",
            "The chosen kernel is the paper's on 12 of 34 functions.",
        ):
            assert part in text
        for name in ("wins", "regret"):
            assert (self.root / "binary" / f"{name}.png").stat().st_size > 0

    def test_many_functions_take_several_figures(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.add_binary()  # three functions
        monkeypatch.setattr(figures, "PANELS", 2)
        text = write_report("binary", self.root).read_text(encoding="utf-8")
        pages = ["regret.png", "regret-2.png"]
        assert re.findall(r"\((regret.*?)\)", text) == pages
        assert all((self.root / "binary" / page).is_file() for page in pages)

    def test_contexts_and_conclusions(self) -> None:
        scores = {"ucb-ald": 2.0, "ucb-random": 1.0, "ucb-fixed": 3.0, "bald": 0.0}
        for rule, score in scores.items():
            for function in ("Ackley", "Levy"):
                self.add("binary", function, rule, score)
        text = "## What it means\n\nNothing."
        (self.root / "binary" / "conclusions.md").write_text(text, encoding="utf-8")
        report = write_report("binary", self.root).read_text(encoding="utf-8")
        assert f"\n\n{text}\n\n" in report
        assert "| `ucb-ald` against `ucb-random` | 2 | 2 | 0 | 2 | 0 |" in report
        assert "| `ucb-ald` against `ucb-fixed` | 0 | 0 | 2 | 0 | 2 |" in report

    def test_rules_of_another_study_are_shown_beside(self) -> None:
        self.add("duels-kg", "Levy", "kg", 1.0)
        for rule in ("muc-ald", "random"):
            self.add("duels", "Levy", rule, 0.0, seeds=40)
            self.add("duels", "Trid", rule, 0.0, seeds=40)  # not of this study
        analysis = analyze(STUDIES["duels-kg"], self.root)
        assert analysis.rules == ("muc-ald", "random", "kg")
        assert analysis.functions == ("Levy",)
        assert analysis.seeds == 20
        text = write_report("duels-kg", self.root).read_text(encoding="utf-8")
        assert "3 of 80 tasks" in text
        assert "in the paper" not in text

    def test_no_common_function(self) -> None:
        self.add("binary", "Levy", "random", 0.0, seeds=1)
        self.add("binary", "Trid", "cbkg", 0.0, seeds=1)
        text = write_report("binary", self.root).read_text(encoding="utf-8")
        assert "## Ranking" not in text
        assert "## Regret" in text

    def test_refuses_to_report_without_results(self) -> None:
        with pytest.raises(InputDataError, match="``output``"):
            write_report("binary", self.root)

    def test_table_is_formatted_as_markdown(self) -> None:
        table = format_table(["a", "b"], [("x", 1), ("y", None)])
        assert table == "| a | b |\n|---|---:|\n| x | 1 |\n| y |  |"
