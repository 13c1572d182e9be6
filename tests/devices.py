r"""A check that the package takes the device of its tensors from its inputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

import botorch_binary_context

_FACTORIES = {
    torch.arange,
    torch.empty,
    torch.eye,
    torch.full,
    torch.linspace,
    torch.logspace,
    torch.normal,
    torch.ones,
    torch.rand,
    torch.randint,
    torch.randn,
    torch.randperm,
    torch.scalar_tensor,
    torch.tensor,
    torch.tril_indices,
    torch.triu_indices,
    torch.zeros,
    torch.as_tensor,
    torch.asarray,
}

_CONVERSIONS = {torch.as_tensor, torch.asarray, torch.normal}


class RequireDevice(TorchFunctionMode):
    """Fails where the package makes a tensor without saying on which device.

    Args:
        directory: Calls from files below it are checked, by default the package's.
    """

    def __init__(
        self, directory: Path = Path(botorch_binary_context.__file__).parent
    ) -> None:
        super().__init__()
        self.directory = str(directory)

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES and kwargs.get("device") is None:
            converts = func in _CONVERSIONS and isinstance(args[0], Tensor)
            if not converts and _caller().startswith(self.directory):
                raise AssertionError(
                    f"torch.{func.__name__} without a device in {_caller()}."
                )
        return func(*args, **kwargs)


def _caller() -> str:
    """The file and line that called a torch function: the first outside of torch."""
    frame = sys._getframe(2)
    torch_directory = str(Path(torch.__file__).parent)
    while frame.f_back and frame.f_code.co_filename.startswith(torch_directory):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
