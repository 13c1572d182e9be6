r"""
Experiments in the browser: a server with a JSON interface, and its pages.

It needs the optional packages of the extra ``web``.
"""

from typing import TYPE_CHECKING, Any

from botorch_binary_context.lazy import load_exported

if TYPE_CHECKING:
    from botorch_binary_context.web.exports import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return load_exported(__name__, name)


def __dir__() -> list[str]:
    return [*globals(), *load_exported(__name__, "__all__")]
