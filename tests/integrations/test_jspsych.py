r"""Tests of the plugin for jsPsych, with the real jsPsych in a real browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import (
    Duels,
    Experiment,
    NamedSpace,
    Real,
    Settings,
    Stop,
    Trial,
)

CLIENT = Path(__file__).parents[2] / "clients" / "jspsych"
JSPSYCH = Path(sys.prefix) / "peers" / "jspsych"
LETTERS = Settings.from_toml(CLIENT / "example" / "letters.toml").to_dict()
#: Runs one trial with the parameters and functions that are given.
RUN = """async ([parameters, mode]) => {
    document.body.replaceChildren();
    const { default: type } = await import("./plugin-binary-context.js");
    const jsPsych = jsPsychModule.initJsPsych();
    const timeline = [{ type, retries: 5, ...parameters }];
    await (mode ? jsPsych.simulate(timeline, mode) : jsPsych.run(timeline));
    return jsPsych.data.get().values()[0];
}"""


@pytest.fixture(scope="module")
def pages(request: pytest.FixtureRequest) -> Any:
    """Opens pages of a browser, which fail the test on errors of scripts."""
    if not (JSPSYCH / "dist").exists():
        if os.environ.get("REQUIRE_PEERS"):
            pytest.fail("there has to be jsPsych, but none was found")
        pytest.skip("jsPsych is not installed (`make test` does that)")
    return request.getfixturevalue("browser")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What an experimenter would put into a folder."""
    folder = tmp_path / "files"
    shutil.copytree(CLIENT / "example", folder)
    shutil.copy(CLIENT / "plugin-binary-context.js", folder)
    for name in ("dist/index.browser.min.js", "css/jspsych.css"):
        (folder / "jspsych" / name).parent.mkdir(parents=True)
        shutil.copy(JSPSYCH / name, folder / "jspsych" / name)
    script = '<script src="jspsych/dist/index.browser.min.js"></script>'
    (folder / "blank.html").write_text(f"<!doctype html><body>{script}</body>")
    return folder


@contextmanager
def shown(
    browser: Any, path: Path, settings: Settings, files: Path, page: str = "blank.html"
) -> Iterator[tuple[Any, Experiment]]:
    """A page that a new experiment is served to, and the experiment."""
    from tests.web.browsing import close, open_page
    from tests.web.serving import serving

    Experiment.create(path, settings).close()
    with serving([path], files=files) as served, Experiment.open(path) as experiment:
        opened = open_page(browser, f"{served.url()}files/{page}")
        yield opened, experiment
        close(opened)


def read_letter(trial: Trial) -> bool:
    """As the simulated person of the example answers, who reads from a size of 2."""
    return trial.context["size"] > 2  # type: ignore[operator]


class TestExample:
    @pytest.mark.parametrize("mode", ["data-only", "visual"])
    def test_simulated_answers_arrive_and_questions_are_the_same(
        self, mode: str, pages: Any, files: Path, tmp_path: Path
    ) -> None:
        """All answers arrive, and the questions are those without a browser."""
        settings = Settings.from_dict({**LETTERS, "seed": 1})
        number = 12
        if mode == "visual":  # takes as long as a person
            number = 6
            settings = replace(settings, stop=Stop(answers=number))
        page = f"index.html?simulate={mode}"
        path = tmp_path / "letters.journal"
        with shown(pages, path, settings, files, page) as (opened, experiment):
            opened.wait_for_selector("body[data-done]", state="attached")
            data = opened.evaluate("data.get().values()")
            trials = experiment.trials
        assert [row["trial_id"] for row in data] == [*range(1, number + 1), None]
        assert [row["finished"] for row in data] == [None] * number + ["answers"]
        assert [row["values"] for row in data[:-1]] == [dict(t.values) for t in trials]
        for row, trial in zip(data, trials, strict=False):
            assert row["outcome"] == ("pass" if trial.outcome else "fail")
            assert trial.reaction_time == pytest.approx(row["rt"] / 1000)
        with Experiment.create(tmp_path / "alone", settings) as alone:
            for told in trials:
                asked = alone.ask()
                assert asked.values == told.values
                alone.tell(asked.id, told.outcome)
        assert all(trial.outcome for trial in trials if read_letter(trial))
        assert {trial.outcome for trial in trials} == {0, 1}

    def test_keyboard_takes_letters_alone_and_buttons_work(
        self, pages: Any, files: Path, tmp_path: Path
    ) -> None:
        settings = Settings.from_dict({**LETTERS, "seed": 1, "stop": {"answers": 3}})
        path = tmp_path / "letters.journal"
        with shown(pages, path, settings, files, "index.html") as (opened, experiment):
            for number in range(1, 4):
                opened.wait_for_function(
                    "n => data.get().count() === n && "
                    "document.querySelector('#binary-context-stimulus p')",
                    arg=number - 1,
                )
                letter = opened.text_content("#binary-context-stimulus p")
                opened.keyboard.press(letter.lower() if number != 2 else "1")
                if number == 2:  # not a letter: still waiting
                    opened.click(f"button[data-key={letter.lower()}]")
            opened.wait_for_selector("body[data-done]", state="attached")
            assert [t.outcome for t in experiment.trials] == [1, 1, 1]
            assert all(
                (t.rater or "").startswith("jspsych-") for t in experiment.trials
            )


class TestPlugin:
    @pytest.fixture
    @staticmethod
    def page(
        pages: Any, files: Path, tmp_path: Path
    ) -> Iterator[tuple[Any, Experiment]]:
        """A page with jsPsych and an experiment without end."""
        settings = Settings.from_dict({**LETTERS, "seed": 1, "stop": None})
        path = tmp_path / "letters.journal"
        with shown(pages, path, settings, files) as opened:
            yield opened

    def start(self, page: Any, **parameters: Any) -> None:
        """Begin a trial; its data is waited for by :meth:`result`."""
        run = f"arguments => {{ window.result = ({RUN})(arguments); }}"
        page.evaluate(run, [parameters, None])
        page.wait_for_selector("#binary-context-stimulus")

    def result(self, page: Any) -> Any:
        return page.evaluate("window.result")

    def test_parameter_types_have_the_numbers_of_jspsych(
        self, page: tuple[Any, Experiment]
    ) -> None:
        """The numbers are those of jsPsych."""
        theirs = page[0].evaluate("jsPsychModule.ParameterType")
        module = 'import("./plugin-binary-context.js")'
        ours = page[0].evaluate(f"async () => (await {module}).TYPE")
        ours["HTML_STRING"] = ours.pop("HTML")
        assert ours == {name: theirs[name] for name in ours}

    def test_values_and_buttons(self, page: tuple[Any, Experiment]) -> None:
        """By default the values are shown, and a button for each outcome."""
        opened, experiment = page
        self.start(opened, prompt="Did it work?", labels={"p": "It <did>"})
        (trial,) = experiment.trials
        shown = opened.inner_text("#binary-context-stimulus").split()
        assert shown == ["size", str(trial.values["size"])]
        assert "Did it work?" in opened.inner_text("body")
        labels = opened.locator("button").all_inner_texts()
        assert labels == ["fail", "It <did>"]
        opened.click("text=It <did>")
        data = self.result(opened)
        assert (data["outcome"], data["response"]) == ("pass", "p")
        assert experiment.trials[0].outcome == 1

    def test_too_late(self, page: tuple[Any, Experiment]) -> None:
        opened, experiment = page
        self.start(opened, trial_duration=2000)
        data = self.result(opened)
        assert (data["response"], data["outcome"], data["rt"]) == (None, None, None)
        assert experiment.trials[0].status == "withdrawn"

    def test_reload_shows_the_same_trial_again(
        self, page: tuple[Any, Experiment]
    ) -> None:
        """The same trial is shown again."""
        opened, experiment = page
        self.start(opened)
        opened.reload()
        self.start(opened)
        opened.keyboard.press("f")
        assert self.result(opened)["trial_id"] == 1
        assert [t.outcome for t in experiment.trials] == [0]

    @pytest.mark.parametrize("lost", ["request", "confirmation"])
    def test_server_away(self, lost: str, page: tuple[Any, Experiment]) -> None:
        """An answer is sent until it is confirmed, and counted once."""
        opened, experiment = page
        attempts = []

        def fail_once(route: Any) -> None:
            attempts.append(route.request.url)
            if len(attempts) > 1:
                route.continue_()
                return
            if lost == "confirmation":
                route.fetch()
            route.abort()

        opened.route("**/tell", fail_once)
        self.start(opened)
        opened.keyboard.press("p")
        assert self.result(opened)["outcome"] == "pass"
        assert len(attempts) == 2
        assert [t.outcome for t in experiment.trials] == [1]

    def test_what_the_server_refuses_is_an_error_of_the_trial(
        self, page: tuple[Any, Experiment]
    ) -> None:
        """What the server refuses is an error of the trial."""
        opened, _ = page
        for parameters, message in (
            ({"experiment": "nobody"}, "name of an experiment"),
            ({"server": "../../wrong/"}, "token"),
            ({"keys": {"x": "maybe"}}, "maybe"),
        ):
            run = f"arguments => ({RUN})(arguments).catch(error => error.message)"
            mode = "data-only" if "keys" in parameters else None
            assert message in opened.evaluate(run, [parameters, mode])

    def test_simulated_data_is_taken(self, page: tuple[Any, Experiment]) -> None:
        """By jsPsych's convention, given data replaces what is drawn at random."""
        opened, experiment = page
        options = {"data": {"rt": 123, "response": "f"}}
        run = [{"simulation_options": options}, "data-only"]
        data = opened.evaluate(RUN, run)
        assert (data["rt"], data["response"], data["outcome"]) == (123, "f", "fail")
        assert experiment.trials[0].reaction_time == 0.123


def test_arrow_keys_choose_the_sides_of_a_duel(
    pages: Any, files: Path, tmp_path: Path
) -> None:
    """The arrow keys are the sides."""
    space = NamedSpace([Real("tone", 0.0, 1.0)])
    settings = Settings(space, Duels(), seed=0, initial_trials=100)
    with shown(pages, tmp_path / "duels", settings, files) as (opened, experiment):
        for key in ("ArrowLeft", "ArrowRight"):
            run = f"arguments => {{ window.result = ({RUN})(arguments); }}"
            opened.evaluate(run, [{}, None])
            opened.wait_for_selector("#binary-context-stimulus")
            assert "second.tone" in opened.inner_text("#binary-context-stimulus")
            opened.keyboard.press(key)
            opened.evaluate("window.result")
        assert [trial.outcome for trial in experiment.trials] == [1, 0]
