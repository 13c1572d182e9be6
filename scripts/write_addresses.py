r"""
Write the project's address into what PyPI shows: the README's links, ``project.urls``.

    python scripts/write_addresses.py https://HOST/OWNER/NAME v0.1.0

rewrites ``README.md`` and ``pyproject.toml`` in place. Run it in the checkout that a
release is built from, and do not commit the result. Links become
``ADDRESS/blob/TAG/PATH`` and pictures ``ADDRESS/raw/TAG/PATH``, the form that GitHub
uses.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PROJECT = ROOT / "pyproject.toml"
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# The text of a link or picture, which may span lines, and a relative target.
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
# The table that comes after the project's own keys.
NEXT_TABLE = "[project.scripts]"


def make_links_absolute(text: str, address: str, tag: str) -> str:
    """Replace relative targets of Markdown links outside of code blocks."""

    def replace(match: re.Match[str]) -> str:
        mark, title, path = match.groups()
        kind = "raw" if mark else "blob"
        return f"{mark}[{title}]({address}/{kind}/{tag}/{path})"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def add_urls(text: str, address: str, tag: str) -> str:
    """Add the table ``project.urls`` to the project's settings."""
    urls = {
        "Repository": address,
        "Documentation": f"{address}/blob/{tag}/docs/index.md",
        "Changelog": f"{address}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    before, table, after = text.partition(NEXT_TABLE)
    return f"{before}[project.urls]\n{lines}\n{table}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="of the project's repository")
    parser.add_argument("tag", help="of the release")
    arguments = parser.parse_args()
    address = arguments.address.rstrip("/")
    for path, rewrite in ((README, make_links_absolute), (PROJECT, add_urls)):
        text = path.read_text(encoding="utf-8")
        path.write_text(rewrite(text, address, arguments.tag), encoding="utf-8")


if __name__ == "__main__":
    main()
