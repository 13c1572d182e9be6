r"""
BoTorch's exceptions for modules that load without torch.

Each function makes the exception of its name. BoTorch, which takes seconds to import,
is only imported then:

    >>> raise InputDataError("Expected ``path`` to be a file, but got a folder.")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from botorch.exceptions import errors

# How much of a wrong value a message repeats.
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


def InputDataError(message: str) -> errors.InputDataError:
    r"""BoTorch's exception for invalid input.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    from botorch.exceptions import errors

    return errors.InputDataError(message)


def UnsupportedError(message: str) -> errors.UnsupportedError:
    r"""BoTorch's exception for requests that are not supported.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    from botorch.exceptions import errors

    return errors.UnsupportedError(message)
