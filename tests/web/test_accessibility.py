r"""What Chromium tells screen readers about each screen, and where the focus is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser
from playwright.sync_api import Page as Tab

from botorch_binary_context.experiment import Settings, Stop
from botorch_binary_context.web.guard import Role
from botorch_binary_context.web.pages import Page
from tests.experiment.simulation import duels, unmodeled
from tests.web.browsing import close, open_page
from tests.web.page_visits import create, threshold_settings
from tests.web.serving import serving
from tests.web.test_pages import PHONE, eye_settings

CONTROLS = ("button", "link", "slider", "spinbutton", "image", "group", "region")


def read_tree(tab: Tab) -> list[tuple[str, str, dict[str, Any]]]:
    """The role, the name and the properties of what is not ignored."""
    session = tab.context.new_cdp_session(tab)
    session.send("Accessibility.enable")
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    return [
        (
            node["role"]["value"],
            node.get("name", {}).get("value", ""),
            {
                item["name"]: item["value"].get("value")
                for item in node.get("properties", [])
            },
        )
        for node in nodes
        if not node["ignored"]
    ]


def check_screen(tab: Tab, focus: tuple[str, str]) -> list[str]:
    """Everything has a name, the focus is where one begins; the names of buttons."""
    tree = read_tree(tab)
    unnamed = [role for role, name, _ in tree if role in CONTROLS and not name]
    assert unnamed == []
    focused = [
        (role, name)
        for role, name, properties in tree
        if properties.get("focused") and role != "RootWebArea"
    ]
    assert focused == [focus]
    live = [role for role, _, p in tree if p.get("live") and role == "status"]
    assert live == ["status"]
    text = tab.inner_text("body")
    assert "null" not in text
    assert "undefined" not in text
    width = tab.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width[0] <= width[1]
    return [name for role, name, _ in tree if role == "button"]


def tab_through(tab: Tab, number: int) -> list[str]:
    """What one comes by with the tab key, from where the focus is."""
    names = []
    for _ in range(number):
        tab.keyboard.press("Tab")
        names.append(
            tab.evaluate(
                "() => { const e = document.activeElement;"
                "return e.getAttribute('aria-label') ?? e.textContent; }"
            )
        )
    return names


def colors(tab: Tab) -> list[str]:
    """Of the text and of what is behind it."""
    return tab.evaluate(
        "() => [getComputedStyle(document.body).color,"
        "getComputedStyle(document.documentElement).backgroundColor]"
    )


WRONG_KEY = "I pressed the wrong key"
BAR = ["Pause", WRONG_KEY, "High contrast"]


def test_eye_chart(browser: Browser, tmp_path: Path) -> None:
    path = create(tmp_path / "eye.journal", eye_settings(1))
    with serving([path], Page("eye")) as served:
        tab = open_page(browser, served.url(), **PHONE)
        tab.wait_for_selector("#start")
        assert check_screen(tab, ("heading", "Welcome")) == ["Start", "Practice first"]
        tab.click("#start")
        tab.wait_for_selector("#calibrated")
        size = ("heading", "How large is this screen?")
        assert check_screen(tab, size) == ["Done"]
        inputs = [n for role, n, _ in read_tree(tab) if role in CONTROLS[2:4]]
        assert inputs == ["Size of the frame", "Distance in centimeters"]
        tab.fill("#distance", "400")
        tab.click("#calibrated")
        tab.wait_for_selector("#ready")
        found = check_screen(tab, ("heading", "Please set"))
        assert sorted(found) == sorted(["Ready", *BAR])
        tab.keyboard.press("Space")
        tab.wait_for_selector("#stage svg")
        found = check_screen(tab, ("group", "Which letter is it?"))
        assert sorted(found) == sorted([*"CDHKNORSVZ", *BAR])
        # The picture does not say which letter it is.
        pictures = [name for role, name, _ in read_tree(tab) if role == "image"]
        assert pictures == ["The letter to read"]
        assert tab_through(tab, 13) == [*"CDHKNORSVZ", *BAR]
        assert tab.locator("#contrast").get_attribute("aria-pressed") == "false"
        tab.keyboard.press("Enter")  # the focus is on the last one
        assert tab.locator("#contrast").get_attribute("aria-pressed") == "true"
        assert colors(tab) == ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        tab.keyboard.press("Enter")
        assert colors(tab) != ["rgb(0, 0, 0)", "rgb(255, 255, 255)"]
        tab.keyboard.press("Escape")
        tab.wait_for_selector("#go-on")
        check_screen(tab, ("button", "Go on"))
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#stage svg")
        tab.keyboard.press("c")
        tab.wait_for_selector("#end")
        assert check_screen(tab, ("heading", "Finished")) == [WRONG_KEY]
        close(tab)


def test_rings_offer_the_four_directions_to_screen_readers(
    browser: Browser, tmp_path: Path
) -> None:
    path = create(tmp_path / "eye.journal", threshold_settings(1))
    with serving([path], Page("eye", "landolt4")) as served:
        tab = open_page(browser, served.url(), **PHONE)
        tab.click("#start")
        tab.click("#calibrated")
        tab.wait_for_selector("#stage svg")
        found = check_screen(tab, ("group", "Where is the gap?"))
        assert sorted(found) == sorted(["top", "left", "right", "bottom", *BAR])
        close(tab)


def test_duels_and_values(browser: Browser, tmp_path: Path) -> None:
    content = duels().to_dict()
    content |= {"feedback": {"kind": "duels with ties"}, "initial_trials": 99}
    paths = [
        create(tmp_path / "duel.journal", Settings.from_dict(content)),
        create(tmp_path / "plain.journal", unmodeled(stop=Stop(answers=1))),
    ]
    with serving(paths) as served:
        tab = open_page(browser, f"{served.url()}?experiment=duel", **PHONE)
        tab.click("#start")
        tab.wait_for_selector(".answer")
        check_screen(tab, ("group", "Which one do you prefer?"))
        assert tab_through(tab, 6) == ["Left", "No difference", "Right", *BAR]
        regions = [name for role, name, _ in read_tree(tab) if role == "region"]
        assert regions == ["Left side", "Right side"]
        sizes = tab.eval_on_selector_all(
            ".answer", "all => all.map(e => [e.scrollWidth, e.clientWidth])"
        )
        assert all(needed <= given for needed, given in sizes)
        tab.goto(f"{served.url()}?experiment=plain")
        tab.click("#start")
        tab.wait_for_selector(".answer")
        check_screen(tab, ("heading", "Please set"))
        assert tab_through(tab, 5) == ["Pass", "Fail", *BAR]
        live = tab.inner_text("#live")
        assert live.startswith("Please set: noise")
        close(tab)
        tab = open_page(browser, served.url(Role.EXPERIMENTER), **PHONE)
        tab.wait_for_selector(".panel >> text=No answers yet")
        tree = read_tree(tab)
        assert [role for role, name, _ in tree if role in CONTROLS and not name] == []
        headings = [(n, p["level"]) for role, n, p in tree if role == "heading"]
        assert headings == [("Experimenter", 1), ("duel", 2), ("plain", 2)]
        close(tab)
