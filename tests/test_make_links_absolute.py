r"""Links of the README that work on PyPI, too."""

from __future__ import annotations

import re

import pytest

from scripts.make_links_absolute import README, make_links_absolute

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
    assert make_links_absolute(before, f"{ADDRESS}/", "v1") == after


def test_no_relative_link_is_left_in_the_readme() -> None:
    text = make_links_absolute(README.read_text(encoding="utf-8"), ADDRESS, "v1")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)]+)\)", prose)
    assert len(targets) > 10
    assert all(target.startswith("https://") for target in targets)
