r"""
BoTorch's exceptions for modules that load without torch.

Each function makes the exception of its name. BoTorch, which takes seconds to import,
is only imported then:

    >>> raise InputDataError("Expected ``path`` to be a file, but got a folder.")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botorch.exceptions import errors


def InputDataError(message: str) -> errors.InputDataError:
    r"""BoTorch's exception for input that is not as it should be.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    from botorch.exceptions import errors

    return errors.InputDataError(message)


def UnsupportedError(message: str) -> errors.UnsupportedError:
    r"""BoTorch's exception for what cannot be done.

    Args:
        message: What was expected, and what was given.

    Returns:
        The exception, to be raised.
    """
    from botorch.exceptions import errors

    return errors.UnsupportedError(message)
