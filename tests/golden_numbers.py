r"""Golden numbers of the paper's programs, and the kernels they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context import AdditiveContextKernel, MultiplicativeContextKernel
from tests.tensors import double

DATA = Path(__file__).parent / "data"

BINARY_FILES = ("binary_n5_d1", "binary_n20_d2")


@cache
def load_golden(name: str) -> Any:
    """The content of ``tests/data/{name}.json``."""
    return json.loads((DATA / f"{name}.json").read_text())


def stock_kernel(family: str, hyper: Mapping[str, Any]) -> ScaleKernel:
    """A stock kernel of the family in a golden name: SE, Matern52 or Matern32."""
    if family.startswith("SE"):
        lengthscale = double(hyper["lengthscales"]).reshape(1, -1)
        base: Kernel = RBFKernel(ard_num_dims=lengthscale.shape[-1])
    else:
        lengthscale = double(hyper["rho"]).reshape(1, 1)
        base = MaternKernel(nu={"Matern52": 2.5, "Matern32": 1.5}[family])
    kernel = ScaleKernel(base).double()
    base.lengthscale = lengthscale
    kernel.outputscale = double(hyper["k0"])
    return kernel


def golden_kernel(name: str, hyper: Mapping[str, Any]) -> Kernel:
    """The kernel of a golden case; context, where there is one, is column 0.

    Args:
        name: As in the files: ``SE_ARD_full``, ``ctx_mult_Matern52``, ``ctx_add_SE``, …
        hyper: The ``hyper`` entry of the case.
    """
    if not name.startswith("ctx_"):
        return stock_kernel(name.split("_")[0], hyper)
    _, kind, family = name.split("_")
    base = stock_kernel(family, hyper)
    if kind == "mult":
        return MultiplicativeContextKernel(base, context_dims=[0])
    kernel = AdditiveContextKernel(base, context_dims=[0])
    kernel.context_variance = double(hyper["theta_s"])
    return kernel


class ConditionalKernel(Kernel):
    """``k(x,x') - k(x,x₀) k(x₀,x') / k(x₀,x₀)`` with ``x₀ = 0``: ``f(0)`` is 0."""

    def __init__(self, base_kernel: Kernel) -> None:
        super().__init__()
        self.base_kernel = base_kernel

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor:
        origin = torch.zeros_like(x1[..., :1, :])
        left = to_dense(self.base_kernel(x1, origin))  # n x 1
        right = to_dense(self.base_kernel(origin, x2))  # 1 x m
        scale = to_dense(self.base_kernel(origin, origin))
        if diag:
            own = to_dense(self.base_kernel(x1, x2, diag=True))
            return own - left.squeeze(-1) * right.squeeze(-2) / scale.squeeze(-1)
        return to_dense(self.base_kernel(x1, x2)) - left @ right / scale


def golden_preference_kernel(case: Mapping[str, Any]) -> Kernel:
    """The kernel of the value function of a case of ``preference.json``."""
    kernel: Kernel = stock_kernel(case["base"], case["hyper"])
    if "conditional" in case["variant"]:
        kernel = ConditionalKernel(kernel)
    if case["variant"].startswith("ctx"):
        kernel = MultiplicativeContextKernel(kernel, context_dims=[0])
    return kernel


def golden_duels(rows: Any, contextual: bool) -> Tensor:
    """``n x 2 x d`` pairs from rows ``(x, x')``, or ``(s, x, x')`` with a context."""
    flat = double(rows)
    if not contextual:
        return flat.unflatten(-1, (2, -1))
    pairs = flat[..., 1:].unflatten(-1, (2, -1))
    context = flat[..., :1].unsqueeze(-2).expand(*pairs.shape[:-1], 1)
    return torch.cat([context, pairs], dim=-1)
