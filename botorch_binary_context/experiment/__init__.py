r"""Real experiments: ask, tell and recommend, with a crash-safe journal."""

from typing import TYPE_CHECKING, Any

from botorch_binary_context.lazy import load_exported

if TYPE_CHECKING:
    from botorch_binary_context.experiment.exports import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return load_exported(__name__, name)


def __dir__() -> list[str]:
    return [*globals(), *load_exported(__name__, "__all__")]
