r"""Bayesian optimization from pass/fail outcomes and duels in chosen contexts."""

from typing import TYPE_CHECKING, Any

from botorch_binary_context.lazy import load_exported

if TYPE_CHECKING:
    from botorch_binary_context.exports import *  # noqa: F403

    __version__: str


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("botorch-binary-context")
    return load_exported(__name__, name)


def __dir__() -> list[str]:
    return [*globals(), "__version__", *load_exported(__name__, "__all__")]
