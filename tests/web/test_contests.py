r"""Contests, ratings and what is told beside an answer, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from botorch_binary_context.experiment import (
    Duels,
    Experiment,
    NamedSpace,
    PassFail,
    Ratings,
    Real,
    Settings,
    Stop,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.web.pages import Page
from tests.experiment.test_answers import make_settings
from tests.web.browsing import begin, close, open_page
from tests.web.serving import serving
from tests.web.test_pages import DESKTOP, PHONE, create, eye_settings, wait_for_trial


def names_told(experiment: Experiment) -> list[list[str]]:
    """What was told about each answered trial."""
    names = experiment.feedback.outcomes
    return [
        [names[trial.outcome], *trial.infeasible]
        for trial in experiment.trials
        if trial.outcome is not None
    ]


def quasi_random(feedback: Any, answers: int) -> Settings:
    """An experiment that computes nothing."""
    return make_settings(feedback, initial_trials=99, stop=Stop(answers=answers))


@pytest.mark.parametrize(
    "options", [{"viewport": DESKTOP}, PHONE], ids=["desk", "phone"]
)
def test_the_example_of_a_contest(
    browser: Browser, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Until the rule has chosen: seven answers by keys and buttons."""
    config = tmp_path / "contest.toml"
    journal = tmp_path / "viewer.journal"
    assert main(["new", "--example", "contest", str(config)]) == 0
    assert main(["new", str(config), str(journal)]) == 0
    with serving([journal]) as served:
        experiment = served.lab.desks["viewer"].experiment
        tab = open_page(browser, served.url(), **options)
        tab.click("#start")
        wait_for_trial(tab, 1)
        titles = tab.locator(".side h2").all_inner_texts()
        assert titles == ["First", "Second", "Third"]
        labels = [
            tab.get_attribute(f".answer >> nth={i}", "aria-label") for i in range(3)
        ]
        assert labels == titles
        shown = tab.inner_text("#main")
        values = experiment.trial(1).values
        assert all(f"{float(value):.6g}" in shown for value in values.values())
        for box in (tab.locator(".side").nth(i).bounding_box() for i in range(3)):
            assert box is not None
            assert box["width"] >= 100
        for table in tab.locator(".side .values").all():  # nothing is cut off
            for size in ("Height", "Width"):
                hidden = f"{{scroll{size}: all, client{size}: seen}}"
                script = f"({hidden}) => all - seen"
                assert table.evaluate(f"t => ({script})(t.parentElement)") <= 0
        tab.keyboard.press("3")
        wait_for_trial(tab, 2)
        tab.click('[data-outcome="second"]')
        wait_for_trial(tab, 3)
        assert tab.is_disabled("#no-answer")
        tab.click('[data-name="unpleasant-first"]')
        tab.click('[data-name="unpleasant-third"]')
        tab.keyboard.press("s")
        wait_for_trial(tab, 4)
        tab.click('[data-name="unpleasant-second"]')
        tab.click("#no-answer")
        wait_for_trial(tab, 5)
        close(tab)
        assert names_told(experiment) == [
            ["third"],
            ["second"],
            ["second", "unpleasant-first", "unpleasant-third"],
            ["unpleasant-second"],
        ]


def test_ratings_by_their_digits(browser: Browser, tmp_path: Path) -> None:
    path = create(tmp_path / "one.journal", quasi_random(Ratings(11), 4))
    with serving([path]) as served:
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("#start")
        for number, key in enumerate("19", start=1):
            wait_for_trial(tab, number, 4)
            tab.keyboard.press(key)
        wait_for_trial(tab, 3, 4)
        tab.keyboard.press("0")
        wait_for_trial(tab, 4, 4)
        tab.click('[data-outcome="11"]')
        tab.wait_for_selector("#end")
        close(tab)
        found = names_told(served.lab.desks["one"].experiment)
        assert found == [["1"], ["9"], ["10"], ["11"]]


def test_a_duel_with_an_unpleasant_side(browser: Browser, tmp_path: Path) -> None:
    settings = quasi_random(Duels(infeasible="unpleasant"), 3)
    path = create(tmp_path / "one.journal", settings)
    with serving([path]) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(), **PHONE)
        tab.tap("#start")
        wait_for_trial(tab, 1, 3)
        assert tab.locator(".answer").count() == 2
        tab.tap('[aria-label="unpleasant: Left"]')
        tab.keyboard.press("ArrowRight")
        wait_for_trial(tab, 2, 3)
        tab.tap('[aria-label="unpleasant: Right"]')
        tab.tap('[aria-label="unpleasant: Right"]')  # not after all
        tab.keyboard.press("ArrowLeft")
        wait_for_trial(tab, 3, 3)
        tab.tap('[aria-label="unpleasant: Left"]')
        tab.tap('[aria-label="unpleasant: Right"]')
        tab.tap("text=I cannot answer")
        wait_for_trial(tab, 4)  # that was no answer
        tab.keyboard.press("ArrowLeft")
        tab.wait_for_selector("#end")
        close(tab)
        first, second, *_ = experiment.trials
        left = first.extra["page.left"]
        right = {"first": "second", "second": "first"}[left]
        told = names_told(experiment)
        assert told[0] == [right, f"unpleasant-{left}"]
        assert told[1] == [second.extra["page.left"]]
        assert sorted(told[2]) == ["unpleasant-first", "unpleasant-second"]


def test_an_eye_chart_that_is_unpleasant(browser: Browser, tmp_path: Path) -> None:
    content = eye_settings(2).to_dict()
    content["feedback"] |= {"infeasible": "blurred"}
    lens = NamedSpace([Real("lens", 0, 1)], Settings.from_dict(content).space.contexts)
    settings = Settings(
        lens,
        PassFail(guess_rate=0.1, infeasible="blurred"),
        initial_trials=99,
        stop=Stop(answers=2),
    )
    path = create(tmp_path / "one.journal", settings)
    with serving([path], Page("eye")) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        begin(tab)
        wait_for_trial(tab, 1, 2)
        tab.click("#ready")
        tab.click("text=blurred")
        tab.keyboard.press("c")
        wait_for_trial(tab, 2, 2)
        tab.click("#ready")
        tab.click("text=blurred")
        tab.click("#no-answer")
        wait_for_trial(tab, 3)
        close(tab)
        first, second = names_told(experiment)
        assert first[0] in ("pass", "fail")
        assert first[1:] == second == ["blurred"]
