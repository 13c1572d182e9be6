r"""Tests of the endpoint for AEPsych's clients, and with the real Python client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError, UnsupportedError
from hypothesis import given
from hypothesis import strategies as st

from botorch_binary_context.experiment import (
    Context,
    Duels,
    Experiment,
    Integer,
    PassFail,
    Real,
    Stop,
)
from botorch_binary_context.integrations.aepsych import (
    AEPsychSession,
    read_configuration,
)
from botorch_binary_context.integrations.aepsych.framing import (
    MAX_SIZE,
    FramingError,
    MessageReader,
)
from tests.integrations.aepsych_messages import EAR, TASTE, error, send


def change(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


class TestConfiguration:
    def test_variables_rule_and_numbers_of_trials_are_read(self) -> None:
        found = read_configuration(EAR, seed=3)
        settings = found.settings
        assert settings.space.parameters == (Real("pitch", 125.0, 8000.0, "log"),)
        level = Context("level", -10.0, -10.0, 90.0, harder="down")
        assert settings.space.contexts == (level,)
        assert found.fixed == {"ear": "left"}
        assert (settings.feedback, settings.rule) == (PassFail(), "map-eavc")
        assert (settings.initial_trials, settings.stop) == (5, Stop(answers=8))
        assert settings.seed == 3
        assert found.strategies == [("init_strat", 5), ("opt_strat", 3)]

    def test_roles_and_kinds(self) -> None:
        text = change(
            EAR,
            ("[level]\npar_type = continuous", "[level]\npar_type = integer"),
            ("[ear]\npar_type = fixed\nvalue = left", "[ear]\npar_type = binary"),
            ("monotonic_dims = [1]", "floor = 0.5"),
            ("upper_bound = 90", "upper_bound = 90\nrole = context\nharder = up"),
            ("acqf = EAVC", "acqf = qNoisyExpectedImprovement"),
        )
        settings = read_configuration(text).settings
        level = Context("level", 90.0, -10.0, 90.0, harder="up", step=1.0)
        assert settings.space.contexts == (level,)
        assert settings.space.parameters[1] == Integer("ear", 0, 1)
        assert settings.feedback == PassFail(0.5)
        assert settings.rule == PassFail.default_rule
        text = change(text, ("harder = up", "reference = 3"))
        assert read_configuration(text).settings.space.contexts[0].reference == 3.0

    def test_all_parameters_are_alike(self) -> None:
        """Without a word about contexts there are none."""
        space = read_configuration(
            change(EAR, ("monotonic_dims = [1]", ""))
        ).settings.space
        assert [p.name for p in space.parameters] == ["pitch", "level"]
        assert space.contexts == ()

    def test_duels_and_integers_are_read(self) -> None:
        settings = read_configuration(TASTE).settings
        assert settings.feedback == Duels()
        assert settings.space.parameters[1] == Integer("sour", 1, 5)

    def test_old_files(self) -> None:
        text = """
        [common]
        parnames = ['a', 'b']
        lb = [0, -1]
        ub = [1, 2]
        outcome_type = single_probit
        """
        space = read_configuration(text.replace("    ", "")).settings.space
        assert space.parameters == (Real("a", 0.0, 1.0), Real("b", -1.0, 2.0))

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("parnames = [pitch, level, ear]", "", "to give ``parnames``, but got"),
            ("lower_bound = 125", "", "to give ``lower_bound``, but got none"),
            ("lower_bound = 125", "lower_bound = x", "to be a number, but got 'x'"),
            ("par_type = fixed", "par_type = odd", "``par_type`` of 'ear' to be"),
            ("[binary]", "[continuous]", r"to be \[binary\], but got continuous"),
            ("value = left", "", "to give ``value``, but got none"),
            ("[common]", "common", "to be a configuration, but got: File contains"),
            ("min_asks = 5", "min_asks = few", "``min_asks`` of .* but got 'few'"),
        ],
    )
    def test_refuses_missing_and_wrong_entries_by_name(
        self, old: str, new: str, message: str
    ) -> None:
        with pytest.raises((InputDataError, UnsupportedError), match=message):
            read_configuration(change(EAR, (old, new)))

    def test_no_text(self) -> None:
        text: Any = 3
        with pytest.raises(InputDataError, match="configuration, but got 3"):
            read_configuration(text)


class TestFraming:
    objects = st.dictionaries(st.text(max_size=5), st.text(), max_size=3)

    @given(st.lists(objects, max_size=4), st.integers(1, 9), st.sampled_from("\n \t"))
    def test_any_pieces(self, messages: list[Any], size: int, between: str) -> None:
        stream = between.join(json.dumps({"x": m}) for m in messages).encode()
        reader = MessageReader()
        found = [
            json.loads(message)
            for start in range(0, len(stream), size)
            for message in reader.feed(stream[start : start + size])
        ]
        assert found == [{"x": m} for m in messages]

    @pytest.mark.parametrize(
        "data", [b"GET / HTTP/1.1", b"[1]", b"}", b"{} x", b"\xff"]
    )
    def test_something_else(self, data: bytes) -> None:
        with pytest.raises(FramingError, match="begin with a brace"):
            MessageReader().feed(data)

    def test_too_large(self) -> None:
        with pytest.raises(FramingError, match="at most"):
            MessageReader().feed(b"{" + b" " * MAX_SIZE)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[AEPsychSession]:
    session = AEPsychSession(tmp_path / "ear.journal", seed=0)
    yield session
    session.close()


class TestSession:
    def test_dialogue_has_the_keys_and_shapes_of_aepsych(
        self, session: AEPsychSession
    ) -> None:
        """The answers have the keys and the shapes of AEPsych's server."""
        assert send(session, "setup", config_str=EAR) == {"strat_id": 0}
        bounds = {"pitch": [125.0, 8000.0], "level": [-10.0, 90.0]}
        assert send(session, "parameters") == bounds
        asked = send(session, "ask", num_points=2)
        assert (asked["is_finished"], asked["num_points"]) == (False, 2)
        config = asked["config"]
        assert list(config) == ["pitch", "level", "ear"]
        assert config["ear"] == ["left", "left"]
        told = send(session, "tell", config=config, outcome=[1, 0], block="A")
        assert told == {"trials_recorded": 2, "model_data_added": 2}
        trials = session.strategy.experiment.trials
        assert [t.values["level"] for t in trials] == config["level"]
        assert [t.outcome for t in trials] == [1, 0]
        assert trials[0].extra == {"block": "A"}
        info = send(session, "info")
        assert info["current_strat_data_pts"] == 2
        assert info["all_strat_names"] == ["init_strat", "opt_strat"]
        assert info["current_strat_name"] == "init_strat"
        assert not info["current_strat_finished"]
        assert info["current_strat_can_fit"]
        assert info["db_name"] == str(session.strategy.experiment.path)
        got = send(session, "get_config", section="common", property="target")
        assert got == {"common": {"target": "0.75"}}
        assert send(session, "get_config")["ear"]["value"] == "left"
        assert session.strategy.experiment.metadata["participant_id"] == "P7"
        finished = send(session, "finish_strategy")
        assert finished == {"finished_strategy": "init_strat", "finished_strat_idx": 0}
        assert not send(session, "info")["current_strat_finished"]
        send(session, "finish_strategy")
        assert send(session, "ask")["is_finished"]
        ended = {"termination_type": "Terminate", "success": True}
        assert send(session, "exit") == ended
        assert session.finished

    def test_last_question_says_that_it_is_the_last(
        self, session: AEPsychSession
    ) -> None:
        """As in AEPsych, the last question says that it is the last."""
        send(session, "setup", config_str=TASTE)
        ends = [send(session, "ask")["is_finished"] for _ in range(4)]
        assert ends == [False, False, False, True]

    def test_tell_of_what_was_not_asked(self, session: AEPsychSession) -> None:
        send(session, "setup", config_str=EAR)
        config = {"pitch": 1000, "level": [40.0], "ear": ["left"]}
        told = send(session, "tell", config=config, outcome={"heard": 1}, id=3)
        assert told == {"trials_recorded": 1, "model_data_added": 1}
        (trial,) = session.strategy.experiment.trials
        assert (trial.chosen_by, trial.extra) == ("added", {"aepsych.id": 3})
        told = send(session, "tell", config=config, outcome=0, model_data=False)
        assert told == {"trials_recorded": 1, "model_data_added": 0}
        assert not session.strategy.experiment.trials[1].used

    def test_single_precision(self, session: AEPsychSession) -> None:
        send(session, "setup", config_str=EAR)
        config = send(session, "ask")["config"]
        rounded = {
            k: [float(f"{v:.7g}") for v in config[k]] for k in ("pitch", "level")
        }
        rounded["pitch"][0] *= 1 + 3e-7
        send(session, "tell", config=rounded, outcome=1, model_data=False)
        (trial,) = session.strategy.experiment.trials
        assert (trial.status, trial.used, trial.asked) == ("answered", False, None)

    def test_fixed_contexts(self, session: AEPsychSession, tmp_path: Path) -> None:
        """As ``ask(context=...)``: the rule chooses the rest for it."""
        send(session, "setup", config_str=EAR)
        experiment = session.strategy.experiment
        path = tmp_path / "other.journal"
        with Experiment.create(path, experiment.settings) as other:
            for number in range(7):
                config = send(session, "ask", fixed_pars={"level": 40.0})["config"]
                expected = other.ask(context={"level": 40.0})
                assert config.pop("ear") == ["left"]
                assert config == {k: [v] for k, v in expected.values.items()}
                send(session, "tell", config=config, outcome=number % 2)
                other.tell(expected.id, number % 2)
        trials = experiment.trials
        assert {trial.values["level"] for trial in trials} == {40.0}
        assert all(trial.asked is None for trial in trials)
        assert trials[-1].chosen_by == experiment.rule
        two = {"num_points": 2, "fixed_pars": {"level": 10}}
        assert send(session, "ask", **two)["config"]["level"] == [10, 10]

    @pytest.mark.parametrize(
        ("fixed", "message"),
        [
            ({"loud": 1}, "to contexts, level, but got {'loud': 1}"),
            ({"pitch": 500.0}, "The rule chooses pitch; ``role = context``"),
            ([3], "but got [3]"),
            ({"level": 9000}, "9000"),
        ],
    )
    def test_what_cannot_be_fixed(
        self, session: AEPsychSession, fixed: Any, message: str
    ) -> None:
        send(session, "setup", config_str=EAR)
        assert message in error(session, "ask", {"fixed_pars": fixed})
        assert session.strategy.experiment.trials == []

    def test_duels_count_the_preferred_side_from_zero(
        self, session: AEPsychSession
    ) -> None:
        """AEPsych's outcome is the number of the preferred side, from 0."""
        send(session, "setup", config_str=TASTE)
        config = send(session, "ask")["config"]
        assert [len(config["sweet"]), len(config["sweet"][0])] == [1, 2]
        send(session, "tell", config=config, outcome=0)
        flat = {
            name: pairs[0] for name, pairs in send(session, "ask")["config"].items()
        }
        send(session, "tell", config=flat, outcome=1)
        first, second = session.strategy.experiment.trials
        assert (first.outcome, second.outcome) == (1, 0)
        assert [first.first["sweet"], first.second["sweet"]] == config["sweet"][0]
        assert "probability_space" in error(
            session, "query", {"probability_space": True}
        )
        assert "2 values a trial" in error(
            session,
            "tell",
            {"config": {"sweet": [[0.1, 0.2]], "sour": [[1]]}, "outcome": 1},
        )

    def test_several_setups(self, session: AEPsychSession, tmp_path: Path) -> None:
        send(session, "setup", config_str=EAR)
        assert send(session, "setup", config_str=TASTE) == {"strat_id": 1}
        assert "sweet" in send(session, "ask")["config"]
        assert send(session, "resume", strat_id=0) == {"strat_id": 0}
        assert "pitch" in send(session, "ask")["config"]
        files = {path.name for path in tmp_path.glob("*.journal")}
        assert files == {"ear.journal", "ear-2.journal"}
        again = AEPsychSession(tmp_path / "ear.journal")  # as after a crash
        assert send(again, "info")["strat_count"] == 2
        send(again, "resume", strat_id=0)
        assert send(again, "get_config")["ear"]["value"] == "left"
        again.close()

    def test_journal_of_ours(self, tmp_path: Path) -> None:
        settings = read_configuration(TASTE, seed=0).settings
        Experiment.create(tmp_path / "own", settings).close()
        session = AEPsychSession(tmp_path / "own")
        assert set(send(session, "ask")["config"]) == {"sweet", "sour"}
        assert send(session, "info")["current_strat_name"] == settings.rule
        assert "no configuration of AEPsych" in error(session, "get_config")
        session.close()

    def test_wrong_messages_are_refused_and_nothing_is_stored(
        self, session: AEPsychSession
    ) -> None:
        assert "setup first" in error(session, "ask")
        assert "Missing a configure message" in error(session, "setup", {})
        assert "unknown type: 'dance'" in error(session, "dance")
        assert "unknown type: []" in error(session, [])
        assert "no request type" in session.answer([1])["server_error"]
        send(session, "setup", config_str=EAR)
        config = send(session, "ask")["config"]
        wrong: list[tuple[str, Any, str]] = [
            ("ask", {"num_points": 1.5}, "``num_points`` to be"),
            ("resume", {"strat_id": 1}, r"to be one of [0], but got 1"),
            ("resume", {"strat_id": True}, "but got True"),
            ("tell", {"config": config}, "``outcome`` to be given"),
            ("tell", {"config": config, "outcome": 2}, "``outcome`` to be"),
            ("tell", {"config": config, "outcome": [1, 1]}, "1 entries, but got 2"),
            ("tell", {"config": config, "outcome": {"a": 1, "b": 1}}, "one outcome"),
            ("tell", {"config": {"pitch": 1}, "outcome": 1}, "``config`` to give"),
            ("tell", {"config": {**config, "level": [1, 2]}, "outcome": 1}, "length"),
            ("tell", {"config": {**config, "level": [99]}, "outcome": 1}, "99"),
            ("tell", {"config": {**config, "level": ["a"]}, "outcome": 1}, "'a'"),
            ("query", {"query_type": "mean"}, "one of max, min, prediction, inverse"),
            ("query", {}, "at least one answer"),
            ("query", {"constraints": [1]}, "``constraints`` to give"),
            ("get_config", {"section": "common"}, "or neither"),
            ("get_config", {"section": "a", "property": "b"}, "'b' of [a]"),
        ]
        for kind, message, expected in wrong:
            assert expected in error(session, kind, message), (kind, message)
        statuses = [trial.status for trial in session.strategy.experiment.trials]
        assert statuses == ["pending"]  # nothing of it was written down
