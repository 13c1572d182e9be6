r"""
Run AEPsych's side of the page "If you come from another package".

AEPsych pins older versions of BoTorch and NumPy, so this runs in an environment of its
own, which ``make compat`` makes: nothing of this package is imported.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

PAGE = Path(__file__).parents[1] / "docs" / "coming_from.md"
THRESHOLD = 30.0  # of the page's listener, in dB
# Twenty answers of a two-alternative task leave AEPsych this uncertain.
TOLERANCE = 20.0


def find_example() -> list[str]:
    r"""The page's listener, and AEPsych's search for the listener's threshold."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```py(?:thon)?\n(.*?)```", text, flags=re.DOTALL)
    listener = next(block for block in blocks if "def hears" in block)
    search = next(block for block in blocks if "from aepsych" in block)
    return [listener, search]


def main() -> None:
    r"""Run the example, and fail if it does not find the threshold."""
    torch.manual_seed(0)
    np.random.seed(0)
    names: dict[str, Any] = {}
    for block in find_example():
        exec(compile(block, PAGE.name, "exec"), names)
    found = float(names["threshold"])
    if abs(found - THRESHOLD) > TOLERANCE:
        sys.exit(f"AEPsych's threshold is {found:.1f} dB instead of {THRESHOLD} dB.")
    print(f"AEPsych's side of {PAGE.name}: {found:.1f} dB of {THRESHOLD} dB")


if __name__ == "__main__":
    main()
