r"""Tests of the handler for PsychoPy, by itself and within PsychoPy."""

from __future__ import annotations

import csv
import json
import pickle
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Settings,
    Stop,
)
from botorch_binary_context.integrations.psychopy import (
    BinaryContextHandler,
    quest_handler,
)
from botorch_binary_context.integrations.psychopy.weibull import weibull
from tests.experiment.simulation import duels, unmodeled

Peer = Callable[[str], ModuleType]
LEVEL = Context("level", reference=20.0, low=-10.0, high=90.0, harder="down")
ALONE = NamedSpace([], [LEVEL])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def one(path: Path) -> Iterator[BinaryContextHandler]:
    """One variable, asked for at quasi-random values."""
    settings = Settings(ALONE, seed=0, initial_trials=1000)
    with Experiment.create(path, settings) as experiment:
        yield BinaryContextHandler(experiment, nTrials=4, name="ear")


@pytest.fixture
def several(path: Path) -> Iterator[BinaryContextHandler]:
    with Experiment.create(path, unmodeled()) as experiment:
        yield BinaryContextHandler(experiment, nTrials=4, name="knobs")


class TestLoop:
    def test_one_variable(self, one: BinaryContextHandler) -> None:
        assert (one.thisTrialN, one.intensities, one.data) == (-1, [], [])
        for n, level in enumerate(one):
            assert (one.thisTrialN, one.intensity) == (n, level)
            assert one.thisTrial == {"level": level}
            one.addResponse(n % 2)
        assert one.finished
        assert one.data == [0, 1, 0, 1]
        trials = one.experiment.trials
        assert one.intensities == [trial.values["level"] for trial in trials]
        assert [trial.outcome for trial in trials] == one.data
        with pytest.raises(StopIteration):
            one.next()

    def test_several_variables(self, several: BinaryContextHandler) -> None:
        for values in several:
            assert values == several.thisTrial == several.experiment.trials[-1].values
            several.addResponse(1)
        assert len(several.intensities) == 4

    def test_another_intensity(self, one: BinaryContextHandler, tmp_path: Path) -> None:
        one.next()
        one.addResponse(1, intensity=np.float32(12.5))
        assert one.intensities == [12.5]
        trial = one.experiment.trials[0]
        assert trial.values == {"level": 12.5}
        assert trial.asked is not None
        with Experiment.create(tmp_path / "other", unmodeled()) as experiment:
            handler = BinaryContextHandler(experiment)
            asked = dict(handler.next())  # type: ignore[arg-type]
            handler.addResponse(0, {"noise": 1.25})
            assert handler.intensities == [{**asked, "noise": 1.25}]
            handler.next()
            with pytest.raises(InputDataError, match="``intensity`` to give values"):
                handler.addResponse(0, 1.0)

    def test_response_before_next(self, one: BinaryContextHandler) -> None:
        """As in PsychoPy: it is that to the first intensity."""
        intensity = one.intensity
        one.addResponse(1)
        assert one.intensities == [intensity]

    def test_a_skipped_trial_is_withdrawn(self, one: BinaryContextHandler) -> None:
        one.next()
        second = one.next()
        one.addResponse(1)
        assert (one.thisTrialN, one.intensities) == (0, [second])
        states = [trial.status for trial in one.experiment.trials]
        assert states == ["withdrawn", "answered"]

    def test_goes_on(self, one: BinaryContextHandler, path: Path) -> None:
        """With what was answered, and the trial that was not."""
        one.next()
        one.addResponse(1)
        shown = one.next()
        one.experiment.close()
        with Experiment.open(path) as experiment:
            handler = BinaryContextHandler(experiment, nTrials=4)
            assert (handler.thisTrialN, handler.data) == (0, [1])
            assert next(handler) == shown
            handler.addResponse(0)
            assert [t.outcome for t in experiment.trials] == [1, 0]

    def test_wrong_result(self, one: BinaryContextHandler) -> None:
        one.next()
        with pytest.raises(InputDataError, match="``outcome`` to be"):
            one.addResponse(2)
        one.addResponse(1)  # nothing was lost
        assert one.data == [1]

    def test_ends_when_the_settings_say_so(self, tmp_path: Path) -> None:
        settings = Settings(ALONE, seed=0, initial_trials=1000, stop=Stop(answers=2))
        with Experiment.create(tmp_path / "a", settings) as experiment:
            handler = BinaryContextHandler(experiment)
            for _ in handler:
                handler.addResponse(1)
            assert len(handler.data) == 2
            handler.incTrials(1)  # the settings end it all the same
            assert handler.finished

    def test_duels_have_both_sides_and_no_estimates(self, path: Path) -> None:
        settings = duels(initial_trials=1000)
        with Experiment.create(path, settings) as experiment:
            handler = BinaryContextHandler(experiment, nTrials=1)
            for values in handler:
                assert isinstance(values, dict)
                assert {"first.gain", "second.gain"} < set(values)
                handler.addResponse(1)
            with pytest.raises(UnsupportedError, match="but got duels"):
                handler.mean()
            with pytest.raises(UnsupportedError, match="one context to simulate"):
                handler.simulate(1.0)


class TestOtherData:
    def test_before_and_after_the_answer(self, one: BinaryContextHandler) -> None:
        one.addOtherData("early", 1)  # no trial to note it about
        for n, _ in enumerate(one):
            if n % 2:
                one.addOtherData("rt", np.float64(0.5))
            one.addResponse(1)
            if n == 2:
                one.addOtherData("key", ["k"])
        assert one.otherData["rt"] == [None, 0.5, None, 0.5]
        assert one.otherData["key"] == [None, None, "['k']"]
        extras = [trial.extra for trial in one.experiment.trials]
        assert extras == [{}, {"rt": 0.5}, {"key": "['k']"}, {"rt": 0.5}]

    def test_name_that_is_taken(self, one: BinaryContextHandler) -> None:
        one.next()
        with pytest.raises(InputDataError, match="names of its own, but got level"):
            one.addOtherData("level", 1)
        one.addResponse(1)

    def test_imported_data_are_added_trials(self, one: BinaryContextHandler) -> None:
        shown = one.next()
        one.importData([3.0, 4.0], [1, 0])
        assert one.nTrials == 6
        one.addResponse(1)
        assert one.intensities == [3.0, 4.0, shown]
        assert one.data == [1, 0, 1]
        assert [t.chosen_by for t in one.experiment.trials][1:] == ["added"] * 2
        with pytest.raises(InputDataError, match="same length, but got 1 and 2"):
            one.importData([1.0], [1, 0])


class TestEstimates:
    @pytest.fixture(scope="class")
    @staticmethod
    def measured(tmp_path_factory: pytest.TempPathFactory) -> BinaryContextHandler:
        """Someone with a threshold of 0.3, at 82 %."""
        random.seed(3)
        path = tmp_path_factory.mktemp("quest") / "journal"
        handler = quest_handler(
            path, 0.5, 0.2, nTrials=25, minVal=0, maxVal=1, beta=10.0, seed=0
        )
        for _ in handler:
            handler.addResponse(handler.simulate(0.3))
        return handler

    def test_threshold_and_its_interval_hold_the_truth(
        self, measured: BinaryContextHandler
    ) -> None:
        assert measured.intensities[0] == 0.5
        low, high = measured.confInterval()
        assert low < 0.3 < high
        assert measured.mean() == pytest.approx(0.3, abs=0.15)
        assert low < measured.mode() < high
        assert low < measured.quantile() == measured.quantile(0.5) < high
        assert measured.confInterval(True) == pytest.approx(high - low)
        assert measured.quantile(0.05) == low
        # Of a normal distribution the interval is 3.29 standard deviations wide.
        assert 2.5 < (high - low) / measured.sd() < 4.0

    def test_of_pThreshold(self, measured: BinaryContextHandler) -> None:  # noqa: N802
        best = measured.recommend()
        expected = best.threshold_distribution(probability=0.82).mean
        assert measured.mean() == pytest.approx(expected)
        assert best.threshold_distribution(probability=0.6).mean < expected

    def test_stops_when_sure(self, measured: BinaryContextHandler) -> None:
        width = measured.confInterval(True)
        again = BinaryContextHandler(measured.experiment, pThreshold=0.82)
        for limit in (0.99 * width, 1.01 * width):
            again.stopInterval = limit
            again.incTrials(1000)  # looks whether it is over
            assert again.finished == (limit > width)

    def test_continues_with_the_same_data(self, measured: BinaryContextHandler) -> None:
        again = quest_handler(measured.experiment.path, 0.5, 0.2, nTrials=26)
        assert again.data == measured.data
        assert next(again) != 0.5  # only the first trial is there

    def test_pickle_keeps_data_and_estimates(
        self, measured: BinaryContextHandler, tmp_path: Path
    ) -> None:
        path = tmp_path / "quest.psydat"
        assert measured.saveAsPickle(str(tmp_path / "quest")) == path
        again = pickle.loads(path.read_bytes())
        assert (again.data, again.name) == (measured.data, measured.name)
        assert again.mean() == pytest.approx(measured.mean())


def test_quest_bounds(tmp_path: Path) -> None:
    for number, (given, expected) in enumerate(
        [
            ({}, (-1.0, 5.0)),
            ({"range": 2.0}, (1.0, 3.0)),
            ({"minVal": 0.0}, (0.0, 5.0)),
            ({"maxVal": 2.5, "range": 2.0}, (1.0, 2.5)),
        ]
    ):
        handler = quest_handler(tmp_path / str(number), 2.0, 1.0, **given)
        settings = handler.experiment.settings
        assert settings.space.contexts[0].bounds == expected
        assert settings.feedback == PassFail(0.5, 0.005)


class TestFiles:
    def answer(self, handler: BinaryContextHandler) -> None:
        for n, _ in enumerate(handler):
            handler.addResponse(n % 2)
            handler.addOtherData("key", "yn"[n % 2])

    def test_nothing_to_save(self, one: BinaryContextHandler, tmp_path: Path) -> None:
        for save in (one.saveAsText, one.saveAsExcel, one.saveAsPickle):
            assert save(str(tmp_path / "file")) == -1
        assert list(tmp_path.glob("file*")) == []

    def test_text_holds_every_trial_and_the_extra_information(
        self, several: BinaryContextHandler, tmp_path: Path
    ) -> None:
        several.extraInfo = {"participant": "P7"}
        self.answer(several)
        path = tmp_path / "table.csv"
        assert several.saveAsText(str(path)) == path
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert rows.pop()["n"] == "participant"
        expected = [
            {**{k: str(v) for k, v in trial.values.items()}, "n": str(n)}
            | {"response": str(n % 2), "key": "yn"[n % 2]}
            for n, trial in enumerate(several.experiment.trials)
        ]
        assert rows == expected

    def test_names_are_numbered_replaced_or_refused(
        self, one: BinaryContextHandler, tmp_path: Path
    ) -> None:
        self.answer(one)
        name = str(tmp_path / "table")
        assert one.saveAsText(name) == tmp_path / "table.tsv"
        assert one.saveAsText(name) == tmp_path / "table_1.tsv"
        assert one.saveAsText(name) == tmp_path / "table_2.tsv"
        replaced = one.saveAsText(name, ",", fileCollisionMethod="overwrite")
        assert replaced == tmp_path / "table.csv"
        with pytest.raises(FileExistsError, match=r"table\.tsv exists"):
            one.saveAsText(name, fileCollisionMethod="fail")
        with pytest.raises(InputDataError, match="``fileCollisionMethod`` to be"):
            one.saveAsText(name, fileCollisionMethod="ask")

    def test_printed_matrix_has_a_line_for_each_trial(
        self, one: BinaryContextHandler, capsys: Any
    ) -> None:
        one.extraInfo = {"participant": "P7"}
        self.answer(one)
        one.printAsText(matrixOnly=True)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "n\tlevel\tresponse\tkey"
        assert len(lines) == 5

    def test_json_holds_trials_and_settings(
        self, one: BinaryContextHandler, tmp_path: Path
    ) -> None:
        self.answer(one)
        content = json.loads(one.saveAsJson())
        assert [trial["level"] for trial in content["trials"]] == one.intensities
        assert Settings.from_dict(content["settings"]) == one.experiment.settings
        path = one.saveAsJson(tmp_path / "trials", encoding="utf-8")
        assert json.loads(path.read_text(encoding="utf-8")) == content

    def test_excel_book_gets_a_sheet_for_each_save(
        self, one: BinaryContextHandler, tmp_path: Path, peer: Peer
    ) -> None:
        openpyxl = peer("openpyxl")
        self.answer(one)
        path = tmp_path / "book.xlsx"
        assert one.saveAsExcel(str(tmp_path / "book")) == path
        assert one.saveAsExcel(str(tmp_path / "book")) == path
        assert one.saveAsExcel(path, appendFile=False) == tmp_path / "book_1.xlsx"
        book = openpyxl.load_workbook(path)
        assert book.sheetnames == ["data", "data1"]
        rows = list(book["data"].values)
        assert rows[0] == ("n", "level", "response", "key")
        assert [row[1] for row in rows[1:]] == one.intensities


class TestWithPsychoPy:
    @pytest.fixture
    @staticmethod
    def data(peer: Peer) -> ModuleType:
        return peer("psychopy.data")

    @pytest.mark.parametrize("kind", ["one", "several"])
    def test_experiment_handler(
        self, kind: str, data: ModuleType, request: Any, tmp_path: Path
    ) -> None:
        """All variables, results and other data are columns of its table."""
        handler = request.getfixturevalue(kind)
        exp = data.ExperimentHandler(
            "test", dataFileName=str(tmp_path / "psy"), extraInfo={"participant": "P7"}
        )
        exp.addLoop(handler)
        assert handler.getExp() is exp
        assert exp.currentTrialsLoop is handler
        for n, _ in enumerate(handler):
            handler.addResponse(n % 2)
            handler.addOtherData("rt", n / 10)
            exp.nextEntry()
        assert exp.loopsUnfinished == []
        path = Path(exp.saveAsWideText(str(tmp_path / "wide.csv")))
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        trials = handler.experiment.trials
        assert len(rows) == len(trials) == 4
        for n, (row, trial) in enumerate(zip(rows, trials, strict=True)):
            assert {k: row[k] for k in trial.values} == {
                k: str(v) for k, v in trial.values.items()
            }
            assert row[f"{handler.name}.response"] == str(n % 2)
            assert row[f"{handler.name}.thisTrialN"] == str(n)
            assert (row["rt"], row["participant"]) == (str(n / 10), "P7")
        if kind == "one":
            shown = [float(row["ear.intensity"]) for row in rows]
            assert shown == handler.intensities

    def test_pickled_with_the_experiment(
        self, one: BinaryContextHandler, data: ModuleType, tmp_path: Path
    ) -> None:
        exp = data.ExperimentHandler("test", dataFileName=str(tmp_path / "psy"))
        exp.addLoop(one)
        one.next()
        one.addResponse(1)
        exp.close()
        (saved,) = tmp_path.glob("*.psydat")
        again = pickle.loads(saved.read_bytes())
        assert again.loops[0].data == [1]
        assert again.loops[0].experiment.trials == one.experiment.trials

    def test_same_interface(self, data: ModuleType, one: BinaryContextHandler) -> None:
        """What ``QuestHandler`` has for users, but for the grid of its algorithm."""
        theirs = data.QuestHandler(0.5, 0.2, nTrials=4)
        public = {name for name in dir(theirs) if not name.startswith("_")}
        not_here = {
            *("applyInitialRule", "correctCounter", "currentDirection", "initialRule"),
            *("nDown", "nReversals", "nUp", "reversalIntensities", "reversalPoints"),
            *("stepSizeCurrent", "stepSizes", "stepType", "method"),  # of staircases
            *("delta", "epsilon", "gamma", "grain", "range", "startValSd"),
            *("maxVal", "minVal", "getOriginPathAndFile"),
        }
        assert public - set(dir(one)) == not_here

    @pytest.mark.parametrize("p_threshold", [0.63, 0.82])
    def test_simulated_person(self, p_threshold: float, data: ModuleType) -> None:
        """Passes as often as that of QUEST, whose table this looks at."""
        quest = data.QuestHandler(
            0.0, 1.0, pThreshold=p_threshold, nTrials=1, gamma=0.25, delta=0.02
        )._quest
        for easiness in (-1.0, -0.2, 0.0, 0.1, 0.5):
            expected = np.interp(easiness, quest.x2, quest.p2)
            found = weibull(easiness, 3.5, 0.25, 0.02 * 0.75, p_threshold)
            assert found == pytest.approx(expected, abs=2e-4)

    def test_same_answers_same_threshold(
        self, data: ModuleType, tmp_path: Path
    ) -> None:
        """QUEST and we agree on what 80 answers say, within their uncertainty."""
        generator = random.Random(5)
        intensities = [generator.uniform(-0.6, 1.4) for _ in range(80)]
        results = [
            int(generator.random() < weibull(x - 0.4, 3.5, 0.5, 0.005, 0.82))
            for x in intensities
        ]
        handler = quest_handler(tmp_path / "journal", 0.0, 1.0, range=4.0, seed=1)
        theirs = data.QuestHandler(0.0, 1.0, nTrials=80, range=4.0)
        handler.importData(intensities, results)
        for intensity, result in zip(intensities, results, strict=True):
            theirs._quest.update(intensity, result)
        assert abs(handler.mean() - theirs.mean()) < 2 * theirs.sd()
        assert abs(handler.mean() - 0.4) < 3 * handler.sd()
        assert 0.3 < handler.sd() / theirs.sd() < 3.0
