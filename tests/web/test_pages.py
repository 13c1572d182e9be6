r"""Whole sessions in a real browser, and what is in the journal afterwards."""

from __future__ import annotations

import math
import struct
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from botorch_binary_context.experiment import (
    Categorical,
    Duels,
    Experiment,
    NamedSpace,
    Real,
    Settings,
    Stop,
    Trial,
)
from botorch_binary_context.experiment.demo import demo_settings, simulated_person
from botorch_binary_context.web.desk import Desk
from botorch_binary_context.web.pages import Page
from tests.experiment.simulation import FIXED, answer, duels, pass_fail
from tests.web.browsing import begin, close, open_page
from tests.web.optotypes import LETTERS, POSITIONS
from tests.web.page_visits import DESKTOP, create, threshold_settings, wait_for_trial
from tests.web.serving import serving

PHONE = {
    "viewport": {"width": 390, "height": 800},
    "device_scale_factor": 3,
    "has_touch": True,
    "is_mobile": True,
}


def test_an_eye_chart_warns_of_another_guess_rate() -> None:
    chart = Page("eye", optotypes="landolt")
    assert chart.find_mismatch(demo_settings(8)) is None
    assert "``alternatives = 8``" in str(chart.find_mismatch(demo_settings(26)))
    assert Page("plain").find_mismatch(demo_settings(26)) is None


def eye_settings(num_answers: int) -> Settings:
    """Which lens lets a person read the smallest letters?"""
    content = demo_settings().to_dict()
    content |= {
        "hyperparameters": {**FIXED, "slope": 4.0},
        "stop": {"answers": num_answers},
        "feedback": {"kind": "pass/fail", "guess_rate": 0.1},
    }
    return Settings.from_dict(content)


def run_without_browser(path: Path, settings: Settings, person: Any) -> list[Trial]:
    assert settings.stop is not None
    with Experiment.create(path, settings) as experiment:
        for _ in range(settings.stop.answers or 0):
            trial = experiment.ask()
            experiment.tell(trial.id, person(trial))
        return experiment.trials


def check_same(found: list[Trial], expected: list[Trial]) -> None:
    """The same questions and answers, in the same order."""
    assert [t.values for t in found] == [t.values for t in expected]
    assert [t.outcome for t in found] == [t.outcome for t in expected]
    assert [t.chosen_by for t in found] == [t.chosen_by for t in expected]


def optotype_of(desk: Desk, trial: Trial, names: Any) -> str:
    """What the page shows, by the seed of the trial."""
    return names[int(desk.to_dict(trial)["seed"] / 2**32 * len(names))]


def test_an_eye_examination_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    settings, number = eye_settings(40), 40
    expected = run_without_browser(tmp_path / "a", settings, simulated_person())
    path = create(tmp_path / "eye.journal", settings)
    person = simulated_person()
    with serving([path], Page("eye")) as served:
        desk = served.lab.desks["eye"]
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        begin(tab)
        for i in range(1, number + 1):
            tab.wait_for_selector("#ready")
            tab.keyboard.press("Space")
            tab.wait_for_selector("#stage svg")
            trial = desk.experiment.trial(i)
            right = optotype_of(desk, trial, LETTERS)
            other = LETTERS[(LETTERS.index(right) + 3) % 10]
            tab.keyboard.press(right if person(trial) else other)
        tab.wait_for_selector("#end")
        close(tab)
        found = desk.experiment.trials
    check_same(found, expected)
    assert all(trial.asked is None for trial in found)
    assert all(0.0 <= trial.reaction_time < 60.0 for trial in found)  # type: ignore
    assert {trial.extra["page.distance_mm"] for trial in found} == {4000}
    for trial in found:
        is_right = trial.extra["page.answer"] == trial.extra["page.optotype"]
        assert is_right == bool(trial.outcome)


def test_an_eye_examination_by_touch(browser: Browser, tmp_path: Path) -> None:
    settings, number = threshold_settings(40), 40

    def person(trial: Trial) -> bool:
        luck = (trial.id * 0.618034) % 1.0
        return luck < 1 / (1 + math.exp(-8 * (float(trial.context["size"]) - 0.2)))

    expected = run_without_browser(tmp_path / "a", settings, person)
    path = create(tmp_path / "eye.journal", settings)
    with serving([path], Page("eye", "landolt")) as served:
        desk = served.lab.desks["eye"]
        tab = open_page(browser, served.url(), **PHONE)
        tab.tap("#start")
        tab.fill("#distance", "100")
        tab.tap("#calibrated")
        for i in range(1, number + 1):
            wait_for_trial(tab, i, number)
            tab.wait_for_selector("#stage svg")
            trial = desk.experiment.trial(i)
            right = optotype_of(desk, trial, POSITIONS)
            other = POSITIONS[(POSITIONS.index(right) + 1) % 8]
            name = right if person(trial) else other
            tab.tap(f'.key[data-name="{name}"]')
        tab.wait_for_selector("#end")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
        close(tab)
        found = desk.experiment.trials
    check_same(found, expected)


def test_no_smaller_letters_than_the_screen_can_show(
    browser: Browser, tmp_path: Path
) -> None:
    """One meter from a usual screen, a stroke of one pixel is -0.04 logMAR."""
    settings, number = threshold_settings(8, initial_trials=3), 8
    pixels_per_mm = 3.78  # as the slider is at first
    pixel = math.atan(1 / pixels_per_mm / 1000)
    smallest = math.log10(math.degrees(pixel) * 60)

    with Experiment.create(tmp_path / "a", settings) as experiment:
        for _ in range(number):
            trial = experiment.ask(limits={"size": (smallest, None)})
            experiment.tell(trial.id, True)
        expected = experiment.trials
    sizes = [float(trial.context["size"]) for trial in expected]
    assert 0.0 <= min(sizes) - smallest < 1e-4  # it is asked for
    path = create(tmp_path / "eye.journal", settings)
    with serving([path], Page("eye")) as served:
        desk = served.lab.desks["eye"]
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("#start")
        tab.fill("#distance", "100")
        assert "are not asked for" in tab.inner_text("#limits")
        tab.click("#calibrated")
        for i in range(1, number + 1):
            wait_for_trial(tab, i, number)
            tab.wait_for_selector("#stage svg")
            if i == 5:  # the limit is in the journal, and measured again
                tab.reload()
                tab.click("#start")
                tab.click("#calibrated")
                tab.wait_for_selector("#stage svg")
            trial = desk.experiment.trial(i)
            tab.keyboard.press(optotype_of(desk, trial, LETTERS))
        tab.wait_for_selector("#end")
        close(tab)
        found = desk.experiment.trials
        (limits,) = (
            value
            for name, value in desk.experiment.metadata.items()
            if name.startswith("limits.")
        )
    assert limits["size"][0] == pytest.approx(smallest, abs=1e-9)
    found_sizes = [float(trial.context["size"]) for trial in found]
    assert found_sizes == pytest.approx(sizes, abs=1e-6)
    assert all(trial.asked is None for trial in found)  # shown as asked


def test_ends_when_enough_is_known(browser: Browser, tmp_path: Path) -> None:
    """The page of the participant ends; the experimenter may go on."""
    stop = Stop(threshold_width=0.36)
    path = create(
        tmp_path / "eye.journal", threshold_settings(1, stop=stop, initial_trials=3)
    )
    with serving([path], Page("eye")) as served:
        desk = served.lab.desks["eye"]
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        begin(tab)
        for i in range(1, 40):
            tab.wait_for_selector("#stage svg, #end")
            if tab.locator("#end").count():
                break
            desk.ending.wait()
            wait_for_trial(tab, i)
            trial = desk.experiment.trial(i)
            right = optotype_of(desk, trial, LETTERS)
            other = LETTERS[(LETTERS.index(right) + 1) % 10]
            tab.keyboard.press(right if float(trial.context["size"]) > 0.2 else other)
        assert desk.experiment.should_stop()
        assert desk.experiment.metadata["stopped"] == "threshold_width"
        number = desk.experiment.num_answers
        assert 4 < number < 20
        tab.click("#undo-last")
        tab.wait_for_selector("#stage svg")
        assert desk.experiment.num_answers == number - 1
        tab.keyboard.press("c")
        tab.wait_for_function("() => document.getElementById('progress')?.textContent")
        desk.ending.stop()
        tab.wait_for_selector("#stage svg, #end")
        tab.keyboard.press("c")
        tab.wait_for_selector("#end")
        desk.ending.wait()  # or what is known after the last answer ends it again
        desk.ending.resume()
        tab.click("#go-on")
        tab.wait_for_selector("#stage svg")
        close(tab)


def test_practice_pause_undo_and_reload(browser: Browser, tmp_path: Path) -> None:
    path = create(tmp_path / "eye.journal", threshold_settings(4, initial_trials=99))
    with serving([path], Page("eye")) as served:
        desk = served.lab.desks["eye"]
        experiment = desk.experiment
        experiment.describe(instructions="Please wear your glasses.")
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.wait_for_selector("text=Please wear your glasses.")
        # By the keyboard alone, from the first button to the last.
        tab.focus("#practise")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#distance")
        tab.focus("#calibrated")
        tab.keyboard.press("Enter")
        for i in range(3):
            tab.wait_for_function(
                "text => document.getElementById('progress')?.textContent === text",
                arg=f"Practice {i + 1} of 3",
            )
            tab.wait_for_selector("#stage svg")
            tab.keyboard.press("k")
        tab.wait_for_selector("#go-on")
        assert experiment.trials[0].status == "pending"  # practice is not written down
        tab.keyboard.press("Enter")

        wait_for_trial(tab, 1, 4)
        tab.wait_for_selector("#stage svg")
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#go-on")
        assert tab.locator("#stage").count() == 0
        tab.keyboard.press("k")
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#stage svg")
        assert experiment.trials[0].status == "pending"

        tab.keyboard.press("Backspace")
        tab.wait_for_selector(".note")
        assert "no answer of yours" in tab.inner_text(".note")
        tab.wait_for_selector("#stage svg")
        right = optotype_of(desk, experiment.trials[0], LETTERS)
        other = LETTERS[(LETTERS.index(right) + 1) % 10]
        tab.keyboard.press(other)
        wait_for_trial(tab, 2, 4)
        tab.wait_for_selector("#stage svg")
        assert experiment.trial(1).outcome == 0
        tab.keyboard.press("Backspace")
        wait_for_trial(tab, 1, 4)
        tab.wait_for_selector("#stage svg")
        assert experiment.trial(1).status == "pending"
        tab.keyboard.press(right)
        wait_for_trial(tab, 2, 4)
        tab.wait_for_selector("#stage svg")
        assert experiment.trial(1).outcome == 1
        assert len(experiment.trials) == 2

        shown = tab.locator("#stage g").get_attribute("transform")
        tab.reload()
        tab.click("#start")
        tab.click("#calibrated")
        wait_for_trial(tab, 2, 4)
        tab.wait_for_selector("#stage svg")
        assert tab.locator("#stage g").get_attribute("transform") == shown
        assert len(experiment.trials) == 2
        for i in (2, 3, 4):
            wait_for_trial(tab, i, 4)
            tab.wait_for_selector("#stage svg")
            tab.keyboard.press(optotype_of(desk, experiment.trial(i), LETTERS))
        tab.wait_for_selector("#end")
        close(tab)
        kinds = [event.kind for event in experiment.history if event.trial is not None]
        assert kinds.count("answered") == 5
        assert kinds.count("undone") == 1
        assert [trial.outcome for trial in experiment.trials] == [1, 1, 1, 1]


def write_sound(path: Path, pitch: float) -> None:
    """A tenth of a second."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        samples = (int(9000 * math.sin(pitch * i / 8000)) for i in range(800))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))


def test_duels_of_images_sounds_and_values(browser: Browser, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    picture = '<svg xmlns="http://www.w3.org/2000/svg" width="90" height="90">{}</svg>'
    for name, color in (("red", "red"), ("blue", "blue")):
        shape = f'<circle cx="45" cy="45" r="40" fill="{color}"/>'
        (files / f"{name}.svg").write_text(picture.format(shape))
    write_sound(files / "low note.wav", 1000.0)
    write_sound(files / "high.wav", 4000.0)
    (files / "old.txt").write_text("It was a dark night.")
    (files / "new.md").write_text("<b>It</b> was light.")
    kinds = {
        "images": [Categorical("image", ["red.svg", "blue.svg"])],
        "sounds": [Categorical("sound", ["low note.wav", "high.wav"])],
        "texts": [Categorical("text", ["old.txt", "new.md"])],
        "values": [Real("gain", 0.0, 1.0)],
    }
    paths = [
        create(
            tmp_path / f"{name}.journal",
            Settings(NamedSpace(parts), Duels(), seed=0, initial_trials=99),
        )
        for name, parts in kinds.items()
    ]
    with serving(paths, files=files) as served:
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("text=images")
        tab.click("#start")
        sides = []
        for i in range(1, 5):
            wait_for_trial(tab, i)
            tab.wait_for_selector(".side img")
            tab.wait_for_function(
                "() => [...document.images].every(i => i.naturalWidth > 0)"
            )
            tab.keyboard.press("ArrowLeft")
            wait_for_trial(tab, i + 1)
            trial = served.lab.desks["images"].experiment.trial(i)
            left = trial.extra["page.left"]
            assert left == ("first" if trial.outcome == 1 else "second")
            sides.append(left)
        assert set(sides) == {"first", "second"}  # the places are random
        # Of a picture that was not there yet, there is no reaction time.
        held: list[Any] = []
        tab.route("**/*.svg", lambda route: held.append(route))
        tab.keyboard.press("Escape")
        tab.click("#go-on")
        tab.wait_for_selector(".side img", state="attached")
        tab.keyboard.press("ArrowLeft")
        wait_for_trial(tab, 6)
        assert held
        told = served.lab.desks["images"].experiment.trial(5)
        assert told.reaction_time == 0.0
        tab.unroute("**/*.svg")

        tab.goto(f"{served.url()}?experiment=sounds")
        tab.click("#start")
        tab.wait_for_selector(".play")
        assert tab.locator(".answer:disabled").count() == 2
        tab.keyboard.press("q")
        tab.wait_for_function("() => document.querySelector('audio').ended")
        tab.keyboard.press("ArrowRight")  # too early
        tab.keyboard.press("p")
        tab.wait_for_selector(".answer:not(:disabled)")
        tab.evaluate(
            "() => { const sound = document.querySelector('audio'); window.heard = 0;"
            "sound.addEventListener('ended', () => (window.heard += 1)); }"
        )
        tab.click(".play >> nth=0")
        tab.wait_for_function("() => window.heard === 1")  # once more
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#go-on")
        tab.keyboard.press("p")  # is silent during the pause
        assert tab.locator("audio").count() == 0
        tab.keyboard.press("Enter")
        for key in "qp":  # both are to be heard again
            tab.wait_for_selector(".answer:disabled")
            tab.keyboard.press(key)
            tab.wait_for_function(
                "place => document.querySelectorAll('audio')[place].ended",
                arg="qp".index(key),
            )
        tab.wait_for_selector(".answer:not(:disabled)")
        tab.keyboard.press("ArrowRight")
        wait_for_trial(tab, 2)
        trial = served.lab.desks["sounds"].experiment.trial(1)
        assert trial.extra["page.left"] == ("second" if trial.outcome == 1 else "first")

        tab.goto(f"{served.url()}?experiment=texts")
        tab.click("#start")
        contents = {"It was a dark night.", "<b>It</b> was light."}
        tab.wait_for_function(
            "() => { const texts = [...document.querySelectorAll('.text')];"
            " return texts.length === 2 && texts.every(t => t.textContent); }"
        )
        assert set(tab.locator(".stage").all_inner_texts()) <= contents

        (files / "stimulus.js").write_text(
            "export default (stage, values) => {"
            "stage.textContent = `<${values.gain}>`; };"
        )
        close(tab)
    with serving(paths[-1:], files=files) as served:
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("#start")
        wait_for_trial(tab, 1)
        trial = served.lab.desks["values"].experiment.trial(1)
        shown = set(tab.locator(".stage").all_inner_texts())
        assert shown == {f"<{side['gain']}>" for side in trial.sides}
        close(tab)


def test_duels_with_a_tie(browser: Browser, tmp_path: Path) -> None:
    content = duels().to_dict()
    content |= {"feedback": {"kind": "duels with ties"}, "stop": {"answers": 3}}
    settings = Settings.from_dict({**content, "initial_trials": 99})
    path = create(tmp_path / "one.journal", settings)
    with serving([path]) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(), **PHONE)
        tab.tap("#start")
        wait_for_trial(tab, 1, 3)
        tab.tap("text=No difference")
        wait_for_trial(tab, 2, 3)
        tab.keyboard.press("ArrowDown")
        wait_for_trial(tab, 3, 3)
        tab.keyboard.press("ArrowRight")
        tab.wait_for_selector("#end")
        close(tab)
        names = [
            experiment.feedback.outcomes[t.outcome or 0] for t in experiment.trials
        ]
        assert names[:2] == ["tie", "tie"]
        left = experiment.trial(3).extra["page.left"]
        assert names[2] == {"first": "second", "second": "first"}[left]


def test_a_simulated_patient_answers(browser: Browser, tmp_path: Path) -> None:
    """What the command ``demo --page`` shows."""
    settings = replace(demo_settings(10), stop=Stop(answers=6))
    expected = run_without_browser(
        tmp_path / "a", settings, simulated_person(num_letters=10)
    )
    path = create(tmp_path / "demo.journal", settings)
    person = simulated_person(num_letters=10)
    with serving([path], Page("eye"), simulated=person) as served:
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.wait_for_selector("#end")
        close(tab)
        found = served.lab.desks["demo"].experiment.trials
    check_same(found, expected)


@pytest.mark.parametrize("make_settings", [pass_fail, duels])
def test_plain_page(browser: Browser, tmp_path: Path, make_settings: Any) -> None:
    settings = make_settings(hyperparameters=FIXED, stop=Stop(answers=8))
    expected = run_without_browser(tmp_path / "a", settings, answer)
    path = create(tmp_path / "one.journal", settings)
    with serving([path], Page("plain")) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("#start")
        for i in range(1, 9):
            wait_for_trial(tab, i, 8)
            tab.wait_for_selector(".answer")
            trial = experiment.trial(i)
            text = tab.inner_text("#main").replace("\u2212", "-")
            assert all(f"{value:.6g}" in text for value in trial.values.values())
            outcome = experiment.feedback.outcomes[int(answer(trial))]
            if i % 2:
                tab.keyboard.press(outcome[0])
            else:
                tab.click(f'[data-outcome="{outcome}"]')
        tab.wait_for_selector("#end")
        close(tab)
        found = experiment.trials
    check_same(found, expected)
