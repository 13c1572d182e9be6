r"""Letters and rings as a real browser draws them: their shape and their size."""

from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Settings,
)
from botorch_binary_context.web.pages import Page
from tests.web.browsing import close, open_page
from tests.web.optotypes import (
    LETTERS,
    POSITIONS,
    area,
    bounding_box,
    correlation,
)
from tests.web.serving import Served, serving

PIXELS_PER_MM = 4.0
DISTANCE_CM = 80
STROKE = 16
EDGE = 13  # pixels

DRAW = """async ([name, left, top, stroke]) => {
  const {drawOptotype, makePicture} =
    await import(new URL("static/optotypes.js", location.href));
  const picture = makePicture(140, 140);
  picture.append(drawOptotype(name, left, top, stroke));
  const stage = document.createElement("div");
  stage.id = "stage";
  stage.append(picture);
  document.getElementById("main").replaceChildren(stage);
}"""


def threshold_settings(low: float = -0.3, high: float = 1.0) -> Settings:
    """Which letters can be read? Nothing is computed."""
    size = Context("size", reference=0.0, low=low, high=high, harder="down")
    guesses = PassFail(guess_rate=0.1)
    return Settings(NamedSpace([], [size]), guesses, seed=1, initial_trials=10**6)


def ink_of(tab: Tab) -> np.ndarray:
    """How black the device pixels of the chart are, from 0 to 1."""
    picture = Image.open(io.BytesIO(tab.locator("#stage").screenshot()))
    ink = 1.0 - np.asarray(picture.convert("L"), dtype=float) / 255.0
    # The edge and the round corners of the chart blend into the page.
    edge = EDGE * tab.evaluate("devicePixelRatio")
    ink[:edge], ink[-edge:], ink[:, :edge], ink[:, -edge:] = 0.0, 0.0, 0.0, 0.0
    return ink


@pytest.fixture
def served(tmp_path: Path):
    path = tmp_path / "eye.journal"
    Experiment.create(path, threshold_settings()).close()
    with serving([path], Page("eye")) as server:
        yield server


def recognize(ink: np.ndarray, names, *place: float) -> tuple[str, float]:
    found = {name: correlation(ink, name, *place) for name in names}
    best = max(found, key=found.__getitem__)
    return best, found[best]


def test_every_letter_and_ring_is_recognized(browser: Browser, served: Served) -> None:
    tab = open_page(browser, served.url())
    tab.wait_for_selector("#start")
    for names in (LETTERS, POSITIONS):
        for name in names:
            tab.evaluate(DRAW, [name, 20, 30, STROKE])
            ink = ink_of(tab)
            best, agreement = recognize(ink, names, STROKE, 20, 30)
            assert best == name
            assert agreement > 0.985
            assert ink.sum() == pytest.approx(area(name) * STROKE**2, rel=0.02)
            left, top, right, bottom = bounding_box(ink)
            # The gap takes a bit of the ring's width or height.
            assert max(right - left, bottom - top) == pytest.approx(5 * STROKE, abs=1)
            assert min(right - left, bottom - top) >= 4.85 * STROKE
    close(tab)


@pytest.mark.parametrize("pixel_ratio", [1, 2, 3])
def test_sizes_on_the_screen(
    browser: Browser, served: Served, pixel_ratio: int
) -> None:
    experiment = served.lab.desks["eye"].experiment
    viewport = {"width": 600, "height": 700}
    tab = open_page(
        browser, served.url(), viewport=viewport, device_scale_factor=pixel_ratio
    )
    tab.click("#start")
    tab.fill("#card-slider", str(PIXELS_PER_MM))
    card = tab.locator("#bank-card").bounding_box()
    assert card is not None
    assert card["width"] == pytest.approx(85.6 * PIXELS_PER_MM, abs=0.5)
    assert card["height"] == pytest.approx(53.98 * PIXELS_PER_MM, abs=0.5)
    tab.fill("#distance", str(DISTANCE_CM))
    tab.click("#calibrated")
    wrong = []
    smallest = math.log10(
        60
        * math.degrees(math.atan(1 / (pixel_ratio * PIXELS_PER_MM * 10 * DISTANCE_CM)))
    )
    sizes = []
    for number in range(1, 8):
        tab.wait_for_selector("#stage svg")
        trial = experiment.trial(number)
        asked = float(trial.context["size"])
        sizes.append(asked)
        minutes = 10**asked
        stroke_mm = 10 * DISTANCE_CM * math.tan(math.radians(minutes / 60))
        expected = stroke_mm * PIXELS_PER_MM * pixel_ratio  # device pixels
        ink = ink_of(tab)
        letter = letter_of(served, number)
        stroke = math.sqrt(ink.sum() / area(letter))
        if abs(stroke / expected - 1) > 0.05:
            wrong.append((letter, asked, expected, stroke))
        if expected > 3:
            left, top, right, bottom = bounding_box(ink)
            height = (bottom - top) / 5
            # Of whole pixels there is one more or less.
            assert height == pytest.approx(expected, rel=0.05, abs=1 / 5)
            best, _ = recognize(ink, LETTERS, expected, left, top)
            assert best == letter
        tab.keyboard.press(letter)
        tab.wait_for_function(
            "n => document.getElementById('progress').textContent === `Trial ${n}`",
            arg=number + 1,
        )
        told = experiment.trial(number)
        assert told.outcome == 1
        assert told.asked is None  # shown as asked
    assert wrong == []
    # None is asked for that cannot be shown; without limits, some are smaller.
    assert min(sizes) >= smallest - 1e-9
    if pixel_ratio == 1:
        assert min(sizes_without_limits(7)) < smallest
    close(tab)


def sizes_without_limits(number: int) -> list[float]:
    """What the experiment asks for if any size can be shown."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "eye.journal"
        with Experiment.create(path, threshold_settings()) as experiment:
            trials = experiment.ask(n=number)
        return [float(trial.context["size"]) for trial in trials]


def letter_of(served: Served, number: int) -> str:
    """The letter that the seed of a trial stands for."""
    desk = served.lab.desks["eye"]
    seed = desk.to_dict(desk.experiment.trial(number))["seed"]
    return LETTERS[int(seed / 2**32 * len(LETTERS))]


def test_zoom_is_watched(browser: Browser, served: Served) -> None:
    """After a change of the zoom no letter is shown until it is set back."""
    tab = open_page(browser, served.url(), viewport={"width": 600, "height": 700})
    tab.click("#start")
    tab.fill("#distance", "300")
    tab.click("#calibrated")
    tab.wait_for_selector("#stage svg")
    session = tab.context.new_cdp_session(tab)

    def zoom(ratio: float) -> None:
        metrics = {"width": 600, "height": 700, "mobile": False}
        session.send(
            "Emulation.setDeviceMetricsOverride",
            {**metrics, "deviceScaleFactor": ratio},
        )

    zoom(1.25)
    tab.evaluate("window.dispatchEvent(new Event('resize'))")
    tab.wait_for_selector("#screen-changed")
    assert tab.locator("#stage").count() == 0
    tab.keyboard.press("k")  # is no answer now
    zoom(1)
    tab.wait_for_selector("#stage svg")
    assert served.lab.desks["eye"].experiment.trial(1).status == "pending"
    # A phone that is turned shows the same size again.
    before = ink_of(tab).sum()
    tab.set_viewport_size({"width": 700, "height": 600})
    tab.wait_for_function(
        "() => document.querySelector('#stage svg').clientWidth > 650"
    )
    assert ink_of(tab).sum() == pytest.approx(before, rel=1e-3)
    close(tab)
