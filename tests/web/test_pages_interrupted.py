r"""Pages and experimenters: several people at once, killed servers, lost browsers."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from botorch_binary_context.experiment import (
    Experiment,
    NamedGoal,
    Stop,
)
from botorch_binary_context.experiment.summary import summarize
from botorch_binary_context.web.guard import Role
from tests.experiment.simulation import FIXED, answer, pass_fail, unmodeled
from tests.web.browsing import close, open_page
from tests.web.page_visits import DESKTOP, create, threshold_settings, wait_for_trial
from tests.web.serving import serving


def test_two_participants_at_once(browser: Browser, tmp_path: Path) -> None:
    path = create(tmp_path / "one.journal", unmodeled(stop=Stop(answers=6)))
    with serving([path]) as served:
        experiment = served.lab.desks["one"].experiment
        tabs = [open_page(browser, served.url(), viewport=DESKTOP) for _ in range(2)]
        # A second window of the same browser is another participant, too.
        window = tabs[0].context.new_page()
        window.goto(served.url())
        for tab in (*tabs, window):
            tab.click("#start")
            wait_for_trial(tab, 1, 6)
        pending = [t for t in experiment.trials if t.status == "pending"]
        assert len({t.rater for t in pending}) == len(pending) == 3
        assert len({str(t.values) for t in pending}) == 3
        for i in (1, 2):
            for tab in tabs:
                tab.keyboard.press("p")
                wait_for_trial(tab, i + 1, 6)
        window.keyboard.press("f")
        wait_for_trial(window, 2, 6)
        tabs[1].keyboard.press("f")
        tabs[1].wait_for_selector("#end")
        tabs[0].keyboard.press("f")  # what was shown already still counts
        tabs[0].wait_for_selector("#end")
        for tab in tabs:
            close(tab)
        answered = [t for t in experiment.trials if t.status == "answered"]
    assert [t.outcome for t in answered].count(1) == 4
    assert len(answered) == 7


def start(path: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "botorch_binary_context.experiment"]
    options = ["--port", str(port), "--tokens", f"{path}.tokens"]
    server = subprocess.Popen(
        [*command, "serve", str(path), *options], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    server.first_line = server.stdout.readline()  # type: ignore[attr-defined]
    return server


def end(server: subprocess.Popen[str], number: int) -> None:
    server.send_signal(number)
    server.wait()
    assert server.stdout is not None
    server.stdout.close()


def test_a_server_that_is_killed(browser: Browser, tmp_path: Path) -> None:
    """Between question and answer: the page goes on by itself."""
    path = create(tmp_path / "one.journal", unmodeled(stop=Stop(answers=3)))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = start(path, port)
    try:
        role, _, url = server.first_line.strip().partition(": ")  # type: ignore
        assert role == "participant"
        tab = open_page(browser, url, viewport=DESKTOP)
        tab.click("#start")
        wait_for_trial(tab, 1, 3)
        tab.keyboard.press("p")
        wait_for_trial(tab, 2, 3)
        end(server, signal.SIGKILL)
        tab.keyboard.press("f")
        tab.wait_for_selector("#banner:not([hidden])")
        assert "answer is kept" in tab.inner_text("#banner")
        server = start(path, port)
        wait_for_trial(tab, 3, 3)
        tab.wait_for_selector("#banner", state="hidden")
        tab.keyboard.press("p")
        tab.wait_for_selector("#end")
        close(tab)
    finally:
        end(server, signal.SIGINT)
    with Experiment.open(path) as experiment:
        kinds = [e.kind for e in experiment.history if e.trial is not None]
        assert kinds == ["asked", "answered"] * 3
        assert [t.outcome for t in experiment.trials] == [1, 0, 1]


def test_an_answer_survives_the_browser(browser: Browser, tmp_path: Path) -> None:
    """It is sent when the page is opened again, and never twice."""
    path = create(tmp_path / "one.journal", unmodeled())
    with serving([path]) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(), viewport=DESKTOP)
        tab.click("#start")
        wait_for_trial(tab, 1)
        tab.context.set_offline(True)
        tab.keyboard.press("f")
        tab.wait_for_selector("#banner:not([hidden])")
        tab.close()
        assert experiment.trial(1).status == "pending"
        tab.context.set_offline(False)
        for _ in range(2):
            again = tab.context.new_page()
            again.goto(served.url())
            again.click("#start")
            wait_for_trial(again, 2)
            again.close()
        tab.context.close()
        assert experiment.trial(1).outcome == 0
        assert len(experiment.trials) == 2


def test_the_experimenter_watches_live(browser: Browser, tmp_path: Path) -> None:
    settings = pass_fail(
        hyperparameters={**FIXED, "slope": 2.0}, stop=Stop(answers=20, loss=0.01)
    )
    path = tmp_path / "one.journal"
    with Experiment.create(path, settings) as experiment:
        for _ in range(8):
            trial = experiment.ask()
            experiment.tell(trial.id, answer(trial))
    with serving([path]) as served:
        experiment = served.lab.desks["one"].experiment
        tab = open_page(browser, served.url(Role.EXPERIMENTER), viewport=DESKTOP)
        tab.wait_for_selector(".picture img:not([hidden])", timeout=300_000)
        text = tab.inner_text(".panel")
        assert "8 of 20 answers" in text
        assert "Recommended after 8 answers" in text
        assert "Threshold of noise" in text
        assert tab.evaluate("document.querySelector('.picture img').naturalWidth") > 100
        trial = experiment.ask()
        experiment.tell(trial.id, answer(trial))
        tab.wait_for_selector("text=Recommended after 9 answers", timeout=300_000)
        tab.click("text=Stop the experiment")
        tab.wait_for_selector("text=Stopped")
        assert served.lab.desks["one"].ask("a")["finished"] == "stopped"
        tab.click("text=Go on with it")
        tab.wait_for_selector("text=Running")
        with tab.expect_download() as download:
            tab.click("text=Export")
        lines = Path(download.value.path()).read_text().splitlines()
        assert len(lines) == 10
        link = tab.get_attribute("text=Page for participants", "href")
        assert link == f"/{served.token()}/"
        close(tab)


def test_the_experimenter_sees_what_is_measured(
    browser: Browser, tmp_path: Path
) -> None:
    """Where no parameters are to be chosen: one threshold, or a map of them."""
    alone = threshold_settings(20)
    map_of_gains = pass_fail(
        hyperparameters={**FIXED, "slope": 2.0}, goal=NamedGoal("map"), rule="map-eavc"
    )
    paths = []
    for name, settings in (("alone", alone), ("map", map_of_gains)):
        paths.append(create(tmp_path / f"{name}.journal", settings))
        with Experiment.open(paths[-1]) as experiment:
            for _ in range(3):
                trial = experiment.ask()
                experiment.tell(trial.id, trial.id != 2)
    with serving(paths) as served:
        tab = open_page(browser, served.url(Role.EXPERIMENTER), viewport=DESKTOP)
        for i, path in enumerate(paths):
            panel = tab.locator(".panel").nth(i)
            panel.locator("text=Measured after 3").wait_for(timeout=300_000)
            text = panel.inner_text()
            assert "How sure it is" in text
            assert panel.locator(".warning").count() == 0
            shown = panel.locator("tbody tr").all_inner_texts()
            with Experiment.open(path) as experiment:
                found = summarize(experiment, experiment.recommend(), {})
            if found["map"] is None:
                assert "Threshold of size" in text
                assert f"{found['success_probability']['mean']:.3g}" in text
            else:
                assert len(shown) == len(found["map"]) == 9
                places = [place["parameters"]["gain"] for place in found["map"]]
                gains = [row.split()[1].rstrip(",") for row in shown]
                assert [float(gain) for gain in gains] == pytest.approx(places)
        close(tab)


def test_pages_load_nothing_from_elsewhere(browser: Browser, tmp_path: Path) -> None:
    path = create(tmp_path / "one.journal", unmodeled())
    with serving([path]) as served:
        for role in Role:
            context = browser.new_context()
            tab = context.new_page()
            requests: list[str] = []
            tab.on("request", lambda request: requests.append(request.url))  # noqa: B023
            tab.goto(served.url(role))
            tab.wait_for_selector("h1")
            assert requests
            begin_of_all = served.url(role)
            assert [url for url in requests if not url.startswith(begin_of_all)] == []
            blocked = tab.evaluate(
                """() => fetch("http://127.0.0.1:9/").then(() => "sent", e => e.name)"""
            )
            assert blocked == "TypeError"
            context.close()
