r"""The JSON interface, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import Experiment, Stop
from botorch_binary_context.web.guard import Role
from tests.experiment.simulation import FIXED, answer, duels, pass_fail, run, unmodeled
from tests.web.serving import Served, serving

ONE = "experiments/one"


def create(path: Path, settings: Any) -> Path:
    Experiment.create(path, settings).close()
    return path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for tests that use clients of their own."""
    folder = tmp_path_factory.mktemp("journals")
    paths = [create(folder / f"{name}.journal", unmodeled()) for name in ("one", "two")]
    with serving(paths) as server:
        yield server


def test_lists_experiments(served: Served) -> None:
    found = served.get("experiments", Role.PARTICIPANT).json
    assert found == {"experiments": ["one", "two"], "role": "participant"}
    other = served.get("experiments").json
    assert other["role"] == "experimenter"
    assert other["participant"] == f"/{served.token()}/"


def test_describes_an_experiment(served: Served) -> None:
    found = served.get(ONE, Role.PARTICIPANT).json
    assert found["kind"] == "pass/fail"
    assert found["outcomes"] == ["fail", "pass"]
    assert [p["name"] for p in found["parameters"]] == ["gain", "shift"]
    assert [c["name"] for c in found["contexts"]] == ["noise"]
    assert found["page"] == {"kind": "plain", "stimulus": False}


def test_a_trial_from_question_to_answer(served: Served) -> None:
    asked = served.post(f"{ONE}/ask", client="anna").json["trial"]
    assert asked["status"] == "pending"
    assert asked["rater"] == "anna"
    assert asked["values"] == {**asked["context"], **asked["sides"][0]}
    told = served.post(
        f"{ONE}/tell",
        client="anna",
        id=asked["id"],
        outcome="pass",
        shown={"noise": 1.25},
        reaction_time=0.5,
        extra={"key": "x"},
    ).json["trial"]
    trial = served.lab.desks["one"].experiment.trial(asked["id"])
    assert told["status"] == trial.status == "answered"
    assert trial.outcome == 1
    assert trial.context["noise"] == 1.25
    assert trial.asked == asked["values"]
    assert (trial.reaction_time, dict(trial.extra)) == (0.5, {"key": "x"})


def test_asking_again_gives_the_same_trial(served: Served) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(
            lambda _: served.post(f"{ONE}/ask", client="bert").json, range(4)
        )
    first, *others = answers
    assert others == [first] * 3
    other = served.post(f"{ONE}/ask", client="carla").json["trial"]
    assert other["id"] != first["trial"]["id"]
    elsewhere = served.post("experiments/two/ask", client="bert").json["trial"]
    assert elsewhere["id"] == 1


def test_a_repeated_answer_is_refused(served: Served) -> None:
    trial = served.post(f"{ONE}/ask", client="dora").json["trial"]
    body = {"client": "dora", "id": trial["id"], "outcome": "pass"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: served.post(f"{ONE}/tell", **body), range(4)))
    assert sorted(a.status for a in answers) == [200, 409, 409, 409]
    refused = next(a for a in answers if a.status == 409)
    assert refused.code == "not-pending"
    assert refused.json["trial"]["outcome"] == 1
    events = served.lab.desks["one"].experiment.history
    assert [e.kind for e in events if e.trial == trial["id"]] == ["asked", "answered"]


def test_nobody_answers_for_another_client(served: Served) -> None:
    trial = served.post(f"{ONE}/ask", client="emil").json["trial"]
    others: list[tuple[str, Any]] = [("tell", {"outcome": 1}), ("withdraw", {})]
    for verb, more in others:
        refused = served.post(f"{ONE}/{verb}", client="fred", id=trial["id"], **more)
        assert (refused.status, refused.code) == (403, "not-yours")
    assert served.lab.desks["one"].experiment.trial(trial["id"]).status == "pending"


def test_withdrawn_trial_can_be_neither_told_nor_withdrawn_again(
    served: Served,
) -> None:
    trial = served.post(f"{ONE}/ask", client="gina").json["trial"]
    gone = served.post(f"{ONE}/withdraw", client="gina", id=trial["id"]).json["trial"]
    assert gone["status"] == "withdrawn"
    late = served.post(f"{ONE}/tell", client="gina", id=trial["id"], outcome="pass")
    assert (late.status, late.code) == (409, "not-pending")
    again = served.post(f"{ONE}/withdraw", client="gina", id=trial["id"])
    assert again.status == 409


def test_undo_takes_back_the_own_answer(served: Served) -> None:
    nothing = served.post(f"{ONE}/undo", client="hans")
    assert (nothing.status, nothing.code) == (409, "nothing-to-undo")
    trial = served.post(f"{ONE}/ask", client="hans").json["trial"]
    served.post(f"{ONE}/tell", client="hans", id=trial["id"], outcome="pass")
    newer = served.post(f"{ONE}/ask", client="hans").json["trial"]
    other = served.post(f"{ONE}/ask", client="otto").json["trial"]  # answers since
    served.post(f"{ONE}/tell", client="otto", id=other["id"], outcome="pass")
    undone = served.post(f"{ONE}/undo", client="hans").json["trial"]
    assert (undone["id"], undone["status"]) == (trial["id"], "pending")
    assert undone["seed"] == trial["seed"]
    assert served.post(f"{ONE}/ask", client="hans").json["trial"]["id"] == trial["id"]
    served.post(f"{ONE}/tell", client="hans", id=trial["id"], outcome="fail")
    assert served.post(f"{ONE}/ask", client="hans").json["trial"]["id"] == newer["id"]


def test_status_counts(served: Served) -> None:
    served.post("experiments/two/ask", client="ida")
    before = served.get("experiments/two/status?client=ida").json
    assert before["client"]["answered"] == 0
    (pending,) = before["client"]["pending"]
    served.post("experiments/two/tell", client="ida", id=pending, outcome=0)
    after = served.get("experiments/two/status?client=ida").json
    assert after["client"] == {
        "answered": 1,
        "pending": [],
        "withdrawn": 0,
        "finished": None,
    }
    assert after["answered"] == before["answered"] + 1
    assert after["revision"] > before["revision"]
    assert after["finished"] is None


def test_stop_and_resume(tmp_path: Path) -> None:
    with serving([create(tmp_path / "one.journal", unmodeled())]) as served:
        trial = served.post(f"{ONE}/ask", client="a").json["trial"]
        for verb in ("stop", "resume"):
            assert served.post(f"{ONE}/{verb}").code == "not-allowed"
        assert (
            served.post(f"{ONE}/stop", Role.EXPERIMENTER).json["finished"] == "stopped"
        )
        ended = {"trial": None, "finished": "stopped"}
        assert served.post(f"{ONE}/ask", client="a").json == ended
        # What was shown already may still be answered.
        told = served.post(f"{ONE}/tell", client="a", id=trial["id"], outcome=1)
        assert told.status == 200
        served.post(f"{ONE}/resume", Role.EXPERIMENTER)
        assert served.post(f"{ONE}/ask", client="a").json["trial"]["id"] == 2


def test_ends_at_the_number_of_answers(tmp_path: Path) -> None:
    path = create(tmp_path / "one.journal", unmodeled(stop=Stop(answers=1)))
    with serving([path]) as served:
        other = served.post(f"{ONE}/ask", client="b").json
        trial = served.post(f"{ONE}/ask", client="a").json["trial"]
        served.post(f"{ONE}/tell", client="a", id=trial["id"], outcome=1)
        assert served.post(f"{ONE}/ask", client="a").json["finished"] == "answers"
        # Someone else still has a trial, also after a reload.
        assert served.post(f"{ONE}/ask", client="b").json == other
        served.post(f"{ONE}/undo", client="a")
        assert served.post(f"{ONE}/ask", client="a").json["trial"]["id"] == trial["id"]
        served.post(f"{ONE}/tell", client="a", id=trial["id"], outcome=1)
        status = served.post(f"{ONE}/resume", Role.EXPERIMENTER).json
        assert (status["finished"], status["limit"]) == (None, None)
        assert served.post(f"{ONE}/ask", client="a").json["trial"]["id"] == 3


def test_ends_at_other_ends_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found in the background is in the journal; here three answers do."""
    path = create(tmp_path / "one.journal", unmodeled(stop=Stop(loss=0.1)))
    with serving([path]) as served:
        desk = served.lab.desks["one"]

        def find_ends(path: Path) -> tuple[int, list[str]]:
            number = desk.experiment.num_answers
            return number, ["loss"] if number >= 3 else []

        def answer_one() -> Any:
            found = served.post(f"{ONE}/ask", client="a").json
            desk.ending.wait()
            if found["trial"]:
                body = {"client": "a", "id": found["trial"]["id"], "outcome": 1}
                served.post(f"{ONE}/tell", **body)
            return found["finished"]

        monkeypatch.setattr(served.lab.reporter, "find_ends", find_ends)
        # After three it is known while the fourth is shown.
        assert [answer_one() for _ in range(6)] == [None] * 4 + ["loss"] * 2
        assert desk.experiment.metadata["stopped"] == "loss"
        assert served.get(f"{ONE}/status").json["finished"] == "loss"
        # An answer that is taken back can be given again, also past the end.
        undone = served.post(f"{ONE}/undo", client="a").json["trial"]
        for _ in range(2):
            found = served.post(f"{ONE}/ask", client="a").json
            assert (found["trial"]["id"], found["finished"]) == (undone["id"], None)
            desk.ending.wait()
            status = served.get(f"{ONE}/status?client=a").json
            assert status["finished"] == "loss"
            assert status["client"]["finished"] is None
        assert [answer_one(), answer_one()] == [None, "loss"]
        status = served.get(f"{ONE}/status?client=a").json
        assert status["client"]["finished"] == "loss"
        assert [trial.status for trial in desk.experiment.trials] == ["answered"] * 4
        status = served.post(f"{ONE}/resume", Role.EXPERIMENTER).json
        assert status["finished"] is None
        assert [answer_one() for _ in range(3)] == [None] * 3
        assert desk.experiment.metadata["continued"] is True
        assert served.post(f"{ONE}/stop", Role.EXPERIMENTER).json["finished"]
        assert answer_one() == "stopped"


def test_limits_of_a_client(tmp_path: Path) -> None:
    """The same questions as if they were asked with limits, also after a restart."""
    settings = pass_fail(hyperparameters=FIXED, initial_trials=3)
    limits = {"noise": [1.0, 1.5]}
    with Experiment.create(tmp_path / "plain.journal", settings) as plain:
        for _ in range(6):
            trial = plain.ask(limits=limits, rater="a")
            plain.tell(trial.id, answer(trial))
        expected = plain.trials
    path = create(tmp_path / "one.journal", settings)
    for part in range(2):
        with serving([path]) as served:
            experiment = served.lab.desks["one"].experiment
            if part == 0:
                sent = {"noise": [1.0, 1.5]}
                found = served.post(f"{ONE}/limit", client="a", limits=sent)
                assert found.json == {"limits": sent}
                revision = experiment.revision
                served.post(f"{ONE}/limit", client="a", limits=sent)
                assert experiment.revision == revision
            for _ in range(3):
                asked = served.post(f"{ONE}/ask", client="a").json["trial"]
                served.lab.ahead.wait(experiment)
                outcome = answer(experiment.trial(asked["id"]))
                served.post(f"{ONE}/tell", client="a", id=asked["id"], outcome=outcome)
            found = experiment.trials
            assert experiment.metadata["limits.a"] == limits
    assert [t.values for t in found] == [t.values for t in expected]
    with serving([path]) as served:
        for wrong in ({"gain": [1, 2]}, {"noise": [5, None]}, {"noise": 1}, 3):
            refused = served.post(f"{ONE}/limit", client="a", limits=wrong)
            assert (refused.status, refused.code) == (422, "invalid")
        nothing = {"noise": [None, 99]}
        answered = served.post(f"{ONE}/limit", client="a", limits=nothing)
        assert answered.json == {"limits": {}}
        assert "limits.a" not in served.lab.desks["one"].experiment.metadata


@pytest.mark.parametrize("make_settings", [pass_fail, duels])
def test_same_questions_as_without_a_server(tmp_path: Path, make_settings: Any) -> None:
    """Computing ahead changes nothing."""
    settings = make_settings(hyperparameters=FIXED)
    expected = run(tmp_path / "plain.journal", settings, 9)
    with serving([create(tmp_path / "one.journal", settings)]) as served:
        experiment = served.lab.desks["one"].experiment
        for i in range(9):
            asked = served.post(f"{ONE}/ask", client="a").json["trial"]
            if i % 3:  # also in the middle of computing ahead, and before it
                served.lab.ahead.wait(experiment)
            outcome = answer(experiment.trial(asked["id"]))
            served.post(f"{ONE}/tell", client="a", id=asked["id"], outcome=outcome)
        found = experiment.trials
    assert [t.values for t in found] == [t.values for t in expected]
    assert [t.outcome for t in found] == [t.outcome for t in expected]


def test_recommendation_picture_and_table(tmp_path: Path) -> None:
    stop = Stop(loss=1e-6, value=1e3)
    settings = pass_fail(hyperparameters={**FIXED, "slope": 2.0}, stop=stop)
    path = tmp_path / "one.journal"
    run(path, settings, 7)
    empty = create(tmp_path / "empty.journal", unmodeled())
    with serving([path, empty]) as served:
        found = served.get(f"{ONE}/recommend").json
        picture = served.get(f"{ONE}/plot")
        table = served.get(f"{ONE}/export")
        for report in ("recommend", "plot", "export"):
            refused = served.get(f"{ONE}/{report}", Role.PARTICIPANT)
            assert (refused.status, refused.code) == (403, "not-allowed")
        # Nothing is to be gained by going on, which is noticed in the background.
        assert served.post(f"{ONE}/ask", client="a").json["finished"] is None
        served.lab.desks["one"].ending.wait()
        assert served.post(f"{ONE}/ask", client="b").json["finished"] == "value"
        refused = served.get("experiments/empty/recommend")
        assert (refused.status, refused.code) == (422, "invalid")
        check_that_it_starts_again(served)
    with Experiment.open(path) as experiment:
        best = experiment.recommend()
    assert found["parameters"] == best.parameters
    assert found["local_uncertainty"]["gain"] == list(best.local_uncertainty["gain"])
    assert found["value_of_next_trial"] == best.value_of_next_trial()
    ends = [(end["criterion"], end["reached"]) for end in found["progress"]]
    assert ends == [("loss", False), ("value", True)]
    assert picture.headers["content-type"] == "image/svg+xml"
    assert b"<svg" in picture.body
    assert len(table.body.decode().splitlines()) == 8


def check_that_it_starts_again(served: Served) -> None:
    """The process of the reports may die; the next request starts another."""
    process = served.lab.reporter._process
    process.kill()
    process.join()
    lost = served.get(f"{ONE}/recommend")
    assert (lost.status, lost.code) == (503, "report-lost")
    assert served.lab.reporter._process is None
