r"""
Free notes about a trial as cells of a table, and back. Loads without torch.
"""

from __future__ import annotations

import json
import math
from typing import Any

_FLAGS = {"True": True, "False": False}


def write_note(note: Any) -> Any:
    r"""A note as a cell from which :func:`read_note` gets it back.

    Args:
        note: Anything that JSON can hold.

    Returns:
        Numbers, flags and most texts as they are. A text that could be taken for
        something else is in quotation marks, and everything else is written as JSON.
    """
    if note is None or isinstance(note, dict | list):
        return json.dumps(note, ensure_ascii=False)
    if isinstance(note, str) and (not note or read_note(note) != note):
        return json.dumps(note, ensure_ascii=False)
    return note


def read_note(cell: Any) -> Any:
    r"""The note that a cell holds.

    Args:
        cell: A text, or the note itself.

    Returns:
        The number, flag, text, list or mapping that the text stands for.
    """
    if not isinstance(cell, str):
        return cell
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        return _FLAGS.get(cell, cell)
    if isinstance(value, float) and not math.isfinite(value):
        return cell
    # JSON's own flags are texts here: spreadsheets write theirs in another way.
    return cell if isinstance(value, bool) else value
