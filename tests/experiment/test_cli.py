r"""Tests of the command line."""

from __future__ import annotations

import csv
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import (
    Categorical,
    Experiment,
    NamedSpace,
    Real,
)
from botorch_binary_context.experiment.cli import main
from tests.experiment.simulation import answer, duels, run, unmodeled
from tests.experiment.test_settings import TOML


def run_random(path: Path, space: NamedSpace) -> None:
    """Ten answers without a model."""
    with Experiment.create(path, unmodeled(space=space)) as experiment:
        for _ in range(10):
            experiment.tell(experiment.ask().id, "pass")


@pytest.fixture
def journal(tmp_path: Path) -> str:
    path = tmp_path / "journal"
    run(path, unmodeled(), 6)
    return str(path)


def call(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """The output of a command that succeeds."""
    assert main([str(a) for a in arguments]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    return output.out


def call_json(capsys: pytest.CaptureFixture[str], *arguments: Any) -> Any:
    return json.loads(call(capsys, *arguments, "--json"))


def test_from_start_to_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, journal = tmp_path / "experiment.toml", tmp_path / "journal"
    config.write_text(TOML)
    assert call(capsys, "new", config, journal) == f"Made {journal}.\n"
    for i in range(1, 4):
        trial = call_json(capsys, "ask", journal)
        assert trial["id"] == i
        assert set(trial["values"]) == {"noise", "gain", "taps", "window"}
        assert call(capsys, "tell", journal, i, "pass") == f"trial {i}: pass\n"
    text = call(capsys, "ask", journal)
    assert text.startswith("trial 4\n  noise = ")
    assert call(capsys, "withdraw", journal, 4) == "trial 4: withdrawn\n"
    assert "window = " in call(capsys, "ask", journal)
    status = call(capsys, "status", journal)
    assert "3 answered (3 pass, 0 fail), 1 pending, 1 withdrawn" in status
    assert "trial 5" in status


class TestStatus:
    def test_json_counts_asked_answered_and_pending_trials(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        call(capsys, "ask", journal)
        status = call_json(capsys, "status", journal)
        assert (status["asked"], status["answered"], status["withdrawn"]) == (7, 6, 0)
        assert sum(status["outcomes"].values()) == 6
        assert [trial["id"] for trial in status["pending"]] == [7]
        assert status["feedback"] == "pass/fail"


class TestTell:
    def test_json_says_what_was_told_or_withdrawn(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        call(capsys, "ask", journal)
        told = call_json(capsys, "tell", journal, 7, "0")
        assert told == {"id": 7, "outcome": "fail"}
        call(capsys, "ask", journal)
        assert call_json(capsys, "withdraw", journal, 8)["status"] == "withdrawn"


class TestRecommend:
    def test_text_gives_success_and_threshold(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        text = call(capsys, "recommend", journal, "--context", "noise=3")
        assert text.startswith("after 6 answers\n  gain = ")
        assert "success probability at noise = 3.0: 0." in text
        assert "threshold of noise: " in text

    def test_json_gives_ranges_of_success_and_threshold(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        best = call_json(capsys, "recommend", journal)
        assert set(best["parameters"]) == set(best["uncertainty"]) == {"gain", "shift"}
        assert best["context"] == {"noise": 2.0}
        probability = best["success_probability"]
        assert 0.0 <= probability["low"] <= probability["high"] <= 1.0
        assert set(best["thresholds"]["noise"]) == {"median", "low", "high"}

    def test_out_of_range(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """Whoever always fails may have none: words say so, and valid JSON."""
        with Experiment.create(tmp_path / "failed", unmodeled()) as experiment:
            for _ in range(6):
                experiment.tell(experiment.ask().id, "fail")
        text = call(capsys, "recommend", tmp_path / "failed")
        assert " (out of range to " in text
        found = call_json(capsys, "recommend", tmp_path / "failed")
        assert found["thresholds"]["noise"]["low"] is None

    def test_duels_give_no_success_and_no_threshold(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        run(tmp_path / "duels", duels(initial_trials=100), 4)
        best = call_json(capsys, "recommend", tmp_path / "duels")
        assert best["success_probability"] is None
        assert best["thresholds"] == {}
        text = call(capsys, "recommend", tmp_path / "duels")
        assert "success" not in text
        assert "threshold" not in text


NOTES = {
    "number": 3,
    "half": 0.5,
    "code": "007",
    "flag": True,
    "flag text": "True",
    "empty": "",
    "nothing": None,
    "null": "null",
    "minus": "-5",
    "formula": "=1+1",
    "quoted": '"so"',
    "list": [1, "2"],
    "table": {"a": None},
}


class TestExport:
    def test_csv_holds_every_value_to_the_last_digit(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        call(capsys, "ask", journal)
        path = tmp_path / "trials.csv"
        assert call(capsys, "export", journal, path) == ""
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        with Experiment.open(journal) as experiment:
            trials = experiment.trials
        assert len(rows) == len(trials) == 7
        for row, trial in zip(rows, trials, strict=True):
            assert int(row["id"]) == trial.id
            for name, value in trial.values.items():
                assert float(row[name]) == value  # to the last digit
            expected = "" if trial.id == 7 else str(int(answer(trial)))
            assert row["outcome"] == expected
        text = call(capsys, "export", journal)
        assert text.splitlines() == path.read_text().splitlines()

    def test_header_without_trials(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        for name, make, shown in (
            ("empty", unmodeled, "noise,gain,shift"),
            ("duels", duels, "noise,first.gain,first.shift,second.gain,second.shift"),
        ):
            Experiment.create(tmp_path / name, make()).close()
            about = "id,status,outcome,chosen_by,asked_at,closed_at,used,rater"
            about += ",reaction_time"
            assert call(capsys, "export", tmp_path / name) == f"{about},{shown}\r\n"

    def test_no_column_twice_and_no_formula(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        space = NamedSpace(
            [
                Real("id", -1.0, -0.5),
                Real("@x", 0.0, 1.0),
                Categorical("shown.id", ["=1+1", "-2", "+3", "@A1", "\t=1"]),
            ]
        )
        run_random(tmp_path / "journal", space)
        table = list(
            csv.reader(call(capsys, "export", tmp_path / "journal").splitlines())
        )
        header = table[0]
        assert len(set(header)) == len(header)
        assert header[-3:] == ["shown.shown.id", "'@x", "shown.id"]
        for row in table[1:]:
            assert float(row[-3]) < 0  # a number stays one
            assert row[-1].startswith("'")

    def test_what_was_noted(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        with Experiment.open(journal) as experiment:
            trial = experiment.ask()
            details = {"shown": {"gain": 2.0}, "rater": "=R", "reaction_time": 0.5}
            extra = {"glare": True, "lamps": [1, 2], "asked.noise": "mine"}
            experiment.tell(trial.id, 1, extra=extra, **details)
        rows = list(csv.DictReader(call(capsys, "export", journal).splitlines()))
        row = rows[-1]
        assert float(row["gain"]) == 2.0
        assert float(row["asked.gain"]) == trial.values["gain"]
        assert (row["rater"], row["reaction_time"]) == ("'=R", "0.5")
        assert (row["glare"], row["lamps"]) == ("True", "[1, 2]")
        assert row["extra.asked.noise"] == "mine"
        assert rows[0]["glare"] == ""

    def test_private_and_never_over_a_journal(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        content = Path(journal).read_bytes()
        picture = tmp_path / "journal.png"
        picture.write_bytes(content)
        for command in (
            ("export", journal, journal),
            ("export", journal, f"{journal}-wal"),
            ("plot", str(picture), str(picture)),
        ):
            assert main(command) == 2
            assert "the journal of an experiment" in capsys.readouterr().err
        assert Path(journal).read_bytes() == picture.read_bytes() == content
        old = tmp_path / "old.csv"
        old.write_text("old")
        old.chmod(0o644)
        for path in (old, tmp_path / "new.csv"):
            call(capsys, "export", journal, path)
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.read_text().startswith("id,")


class TestImport:
    def test_exported_table(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        """What was exported comes back, with names and texts as they were."""
        space = NamedSpace(
            [
                Real("id", -1.0, -0.5),
                Real("@x", 0.0, 1.0),
                Categorical("word", ["=1+1", "-2", "'+3", "'plain"]),
            ]
        )
        run_random(tmp_path / "old", space)
        Experiment.create(tmp_path / "new", unmodeled(space=space)).close()
        with Experiment.open(tmp_path / "old") as experiment:
            shown = experiment.ask()
            changed = {"@x": 0.25 if float(shown.values["@x"]) > 0.5 else 0.75}
            experiment.tell(shown.id, 1, shown=changed, extra=NOTES)
            experiment.ask()  # pending trials are left out
            experiment.exclude(2)
            former = experiment.trials
        call(capsys, "export", tmp_path / "old", tmp_path / "table.csv")
        added = call_json(capsys, "import", tmp_path / "new", tmp_path / "table.csv")
        assert added == {"added": list(range(1, 12))}
        with Experiment.open(tmp_path / "new") as experiment:
            assert experiment.trials == former[:-1]
            assert repr(experiment.trials[-1].extra) == repr(NOTES)  # with their types
            assert experiment.trials[-1].asked == shown.values
            assert experiment.undo().status == "withdrawn"  # it was not asked here

    def test_wrong_row_is_refused_and_nothing_is_imported(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "table.csv"
        start = b"noise,gain,shift,outcome\n1,1,0,pass\n"
        for row, message in (
            (b"1,1,5,pass", "In row 2: Expected ``value`` of 'shift'"),
            (b"1,1,0,maybe", "In row 2: Expected ``outcome``"),
            (b"1,1,0,pass,7", "In row 2: Expected a name for each cell"),
            (b'1,1,0,"pass', "to be a CSV file"),
            (b"1,1,0,\xff", "to be a CSV file"),
        ):
            path.write_bytes(start + row)
            assert main(["import", journal, str(path)]) == 2
            assert message in capsys.readouterr().err
        assert "6 answered" in call(capsys, "status", journal)  # all or none


class TestChanges:
    def test_correct_undo_exclude_and_include_change_the_journal(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        with Experiment.open(journal) as experiment:
            before = experiment.trials
        other = "fail" if before[0].outcome else "pass"
        assert call(capsys, "correct", journal, 1, other) == f"trial 1: {other}\n"
        assert call(capsys, "undo", journal) == "trial 6: pending again\n"
        assert call(capsys, "exclude", journal, 2) == "trial 2: excluded\n"
        assert "5 answered" in (text := call(capsys, "status", journal))
        assert "1 pending, 0 withdrawn, 1 excluded" in text
        with Experiment.open(journal) as experiment:
            after = experiment.trials
        assert after[0].outcome == 1 - int(before[0].outcome or 0)
        assert (after[1].used, after[5].status) == (False, "pending")
        assert call(capsys, "include", journal, 2) == "trial 2: included\n"
        assert call_json(capsys, "status", journal)["excluded"] == 0


def test_plot_makes_an_svg_file(
    capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
) -> None:
    figure = tmp_path / "figure.svg"
    assert call(capsys, "plot", journal, figure) == f"Made {figure}.\n"
    assert "<svg" in figure.read_text()


class TestDemo:
    def test_text_gives_what_is_needed_and_the_threshold(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        journal = tmp_path / "demo"
        text = call(capsys, "demo", journal, "--trials", "8")
        assert "  1: letter size" in text
        assert "needed: sphere -1.5, cylinder -0.75" in text
        assert "threshold of letter size: " in text
        assert "8 answered" in call(capsys, "status", journal)

    def test_json_gives_what_is_needed_and_the_threshold(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        found = call_json(capsys, "demo", "--trials", "3")
        assert found["needed"] == {"sphere": -1.5, "cylinder": -0.75}
        assert set(found["threshold"]) == {"median", "low", "high"}


class TestErrors:
    def fail(self, capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
        """One line on stderr, nothing on stdout, the exit code 2."""
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as error:
            code = error.code
        output = capsys.readouterr()
        assert code == 2
        assert output.out == ""
        assert output.err.count("\n") == 1
        assert output.err.startswith("binary-context")
        return output.err

    def test_wrong_arguments_are_one_line_and_exit_code_two(
        self, capsys: pytest.CaptureFixture[str], journal: str
    ) -> None:
        assert "arguments are required" in self.fail(capsys)
        assert "invalid choice: 'aks'" in self.fail(capsys, "aks", journal)
        assert "invalid int value: 'x'" in self.fail(capsys, "tell", journal, "x", 1)
        assert "required: outcome" in self.fail(capsys, "tell", journal, 1)

    def test_wrong_values_are_one_line_and_exit_code_two(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        assert "which was answered at" in self.fail(capsys, "tell", journal, 1, "pass")
        assert "from 1 to 6, but got -3" in self.fail(capsys, "withdraw", journal, -3)
        call(capsys, "ask", journal)
        assert "but got 'yes'" in self.fail(capsys, "tell", journal, 7, "yes")
        wrong = ("recommend", journal, "--context")
        assert "among ['noise'], but got 'noise'" in self.fail(capsys, *wrong, "noise")
        assert "but got 'size=1'" in self.fail(capsys, *wrong, "size=1")
        assert "image file" in self.fail(capsys, "plot", journal, tmp_path / "a.xyz")
        Experiment.create(tmp_path / "empty", unmodeled()).close()
        assert "at least one" in self.fail(capsys, "recommend", tmp_path / "empty")

    def test_wrong_files_are_one_line_and_exit_code_two(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        config = tmp_path / "experiment.toml"
        nowhere = tmp_path / "nowhere" / "file"
        assert "No such file" in self.fail(capsys, "new", config, nowhere)
        config.write_text(TOML)
        assert "No such file" in self.fail(capsys, "new", config, nowhere)
        assert "exists" in self.fail(capsys, "new", config, journal)
        config.write_text("rule =\n\n")
        assert "to be a TOML file" in self.fail(capsys, "new", config, nowhere)
        assert "which is not there" in self.fail(capsys, "ask", nowhere)
        assert "another kind of file" in self.fail(capsys, "status", config)
        assert "No such file" in self.fail(capsys, "export", journal, nowhere)

    def test_pages_without_their_extra_are_refused(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        journal: str,
    ) -> None:
        monkeypatch.setitem(sys.modules, "starlette", None)  # cannot be imported
        assert "extra ``web`` to be installed" in self.fail(capsys, "serve", journal)

    def test_wrong_journals_and_busy_ports_are_not_served(
        self, capsys: pytest.CaptureFixture[str], journal: str, tmp_path: Path
    ) -> None:
        new = tmp_path / "new"
        assert "which is not there" in self.fail(capsys, "serve", new)
        assert "got 'journal' twice" in self.fail(capsys, "serve", journal, journal)
        with socket.create_server(("127.0.0.1", 0)) as busy:
            port = busy.getsockname()[1]
            wrong = f"{port}, which is in use"
            assert wrong in self.fail(capsys, "serve", journal, "--port", port)
            assert wrong in self.fail(capsys, "demo", new, "--page", "--port", port)
        assert not new.exists()


@pytest.mark.slow
def test_as_a_module(journal: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "botorch_binary_context.experiment", "status", journal],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "6 answered" in result.stdout
