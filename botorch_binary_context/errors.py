r"""
BoTorch's exceptions for modules that load without torch.

Each function makes the exception of its name. BoTorch, which takes seconds to import,
is only imported then:

    >>> raise InputDataError("Expected ``path`` to be a file, but got a folder.")

A program that only prints the message need not import it at all: see
:func:`light_errors`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch.exceptions import errors

# The most characters of a wrong value that a message repeats.
MAX_LENGTH = 200


def quote(value: Any) -> str:
    r"""A value as quoted in a message.

    Args:
        value: Any value.

    Returns:
        Its ``repr``, without its middle if it is long.
    """
    try:
        text = repr(value)
    except ValueError:  # Python shows no integer of more than 4300 digits
        return "a number of thousands of digits"
    if len(text) <= MAX_LENGTH:
        return text
    return f"{text[: MAX_LENGTH // 2]} … {text[-MAX_LENGTH // 4 :]}"


class LightError(ValueError):
    r"""A stand-in for BoTorch's exceptions while BoTorch is not imported."""


_is_light = False


@contextmanager
def light_errors() -> Iterator[None]:
    r"""Within this, raise :class:`LightError` unless BoTorch was imported anyway."""
    global _is_light
    before = _is_light
    _is_light = True
    try:
        yield
    finally:
        _is_light = before


def is_expected(error: Exception) -> bool:
    r"""Whether an error is one of this module's or of BoTorch's.

    Args:
        error: The error.

    Returns:
        Whether its message tells the user what was wrong.
    """
    module = sys.modules.get("botorch.exceptions.errors")
    botorch = () if module is None else (module.BotorchError,)
    return isinstance(error, (LightError, *botorch))


def _make(name: str, message: str) -> Any:
    if _is_light and "botorch" not in sys.modules:
        return LightError(message)
    from botorch.exceptions import errors

    return getattr(errors, name)(message)


def InputDataError(message: str) -> errors.InputDataError:
    r"""BoTorch's exception for invalid input.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    return _make("InputDataError", message)


def UnsupportedError(message: str) -> errors.UnsupportedError:
    r"""BoTorch's exception for requests that are not supported.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    return _make("UnsupportedError", message)
