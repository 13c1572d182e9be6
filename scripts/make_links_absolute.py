r"""
Make the README's relative links and picture absolute, as PyPI needs them.

    python scripts/make_links_absolute.py https://HOST/OWNER/NAME v0.1.0

rewrites ``README.md`` in place. Run it in the checkout that a release is built from,
and do not commit the result. Links become ``ADDRESS/blob/TAG/PATH`` and pictures
``ADDRESS/raw/TAG/PATH``, the form that GitHub uses.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
# The text of a link or picture, which may span lines, and a relative target.
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")


def make_links_absolute(text: str, address: str, tag: str) -> str:
    """Replace relative targets of Markdown links outside of code blocks."""

    def replace(match: re.Match[str]) -> str:
        mark, title, path = match.groups()
        kind = "raw" if mark else "blob"
        return f"{mark}[{title}]({address.rstrip('/')}/{kind}/{tag}/{path})"

    parts = FENCE.split(text)
    parts[::2] = [LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="of the project's repository")
    parser.add_argument("tag", help="of the release")
    arguments = parser.parse_args()
    text = README.read_text(encoding="utf-8")
    text = make_links_absolute(text, arguments.address, arguments.tag)
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
