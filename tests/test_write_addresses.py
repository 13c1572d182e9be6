r"""What PyPI shows has the project's address: links of the README, project.urls."""

from __future__ import annotations

import re
import tomllib

import pytest

from scripts.write_addresses import (
    PROJECT,
    README,
    add_urls,
    make_links_absolute,
)

ADDRESS = "https://example.org/owner/name"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a](docs/a.md#b)", f"[a]({ADDRESS}/blob/v1/docs/a.md#b)"),
        ("![two\nlines](a.png)", f"![two\nlines]({ADDRESS}/raw/v1/a.png)"),
        ("[`Φ(a (g))`](a.md)", f"[`Φ(a (g))`]({ADDRESS}/blob/v1/a.md)"),
        ("[BoTorch](https://botorch.org)", "[BoTorch](https://botorch.org)"),
        ("[below](#speed)", "[below](#speed)"),
        ("```python\nx = [f](y)\n```", "```python\nx = [f](y)\n```"),
    ],
)
def test_relative_targets_become_absolute(before: str, after: str) -> None:
    assert make_links_absolute(before, ADDRESS, "v1") == after


def test_no_relative_link_is_left_in_the_readme() -> None:
    text = make_links_absolute(README.read_text(encoding="utf-8"), ADDRESS, "v1")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", prose)
    assert len(targets) > 10
    assert all(target.startswith("https://") for target in targets)


def test_urls_are_added_and_all_other_settings_stay() -> None:
    text = PROJECT.read_text(encoding="utf-8")
    found = tomllib.loads(add_urls(text, ADDRESS, "v1"))
    urls = found["project"].pop("urls")
    assert found == tomllib.loads(text)
    assert urls["Repository"] == ADDRESS
    assert urls["Changelog"] == f"{ADDRESS}/blob/v1/CHANGELOG.md"
    assert all(url.startswith(ADDRESS) for url in urls.values())
