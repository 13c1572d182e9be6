r"""Models and boxes that rules are tried on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BINARY_RULES,
    DUEL_RULES,
    AdditiveContextKernel,
    BinaryLaplaceGP,
    ContextSpace,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    SearchOptions,
)
from tests.small_models import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double

QUICK = SearchOptions(num_restarts=3, raw_samples=32, max_evaluations=20)
UNIT = double([[0.0, 0.0], [1.0, 1.0]])
# One context, the first column; the system is to be good where it is 1.
SPACE = ContextSpace(UNIT, context_dims=[0], reference_context=[1.0])

ALL_RULES = [
    *((BinaryLaplaceGP, rule) for rule in BINARY_RULES),
    *((PreferenceLaplaceGP, rule) for rule in DUEL_RULES),
]
DETERMINISTIC_RULES = [
    *(
        (BinaryLaplaceGP, rule)
        for rule in (
            "ucb-ald",
            "ucb99-ald",
            "lucb-ald",
            "ucb-fixed",
            "ucb-target",
            "ucb99-target",
            "cbkg",
            "bald",
            "gradient",
        )
    ),
    *(
        (PreferenceLaplaceGP, rule)
        for rule in ("muc-ald", "muc-fixed", "muc-target", "kg", "bald", "gradient")
    ),
]
# Rules to which the two sides of a duel are the same.
SYMMETRIC_RULES = ("kg", "bald", "cjes", "eubo-ald", "eubo-random", "gradient")

every_rule = pytest.mark.parametrize(("model_class", "rule"), ALL_RULES)
deterministic_rules = pytest.mark.parametrize(
    ("model_class", "rule"), DETERMINISTIC_RULES
)
both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def context_model(
    model_class: ModelClass, n: int = 8, batch_shape: Sequence[int] = (), seed: int = 0
) -> AnyModel:
    """A model of trials in ``SPACE``; elements differ in their hyperparameters."""
    base = simple_kernel(dim=1, batch_shape=batch_shape)
    kernel = MultiplicativeContextKernel(base, context_dims=[0])
    return random_model(model_class, n, 2, batch_shape, seed, covar_module=kernel)


def element_of(model: AnyModel, index: int) -> AnyModel:
    """One element of ``context_model``, on its own."""
    batched: Any = model.covar_module
    kernel = simple_kernel(dim=1)
    kernel.outputscale = batched.base_kernel.outputscale[index].detach()
    lengthscale = batched.base_kernel.base_kernel.lengthscale[index].detach()
    kernel.base_kernel.lengthscale = lengthscale
    return type(model)(
        model.train_inputs[0][index],
        model.train_targets[index].unsqueeze(-1),
        covar_module=MultiplicativeContextKernel(kernel, context_dims=[0]),
    )


def sides_of(model_class: ModelClass) -> tuple[int, ...]:
    """What a trial has before its columns: nothing, or two sides."""
    return () if model_class is BinaryLaplaceGP else (2,)


# ------------------------------------------------------------------ any layout


def product_kernel(columns: list[int], dim: int) -> Kernel:
    """``k₁(s,s') k₂(x,x')``."""
    rest = [i for i in range(dim) if i not in columns]
    parts = [
        RBFKernel(ard_num_dims=len(dims), active_dims=tuple(dims))
        for dims in (columns, rest)
    ]
    kernel = ScaleKernel(parts[0] * parts[1]).double()
    kernel.outputscale = 3.0
    return kernel


KERNELS: dict[str, Callable[[list[int], int], Kernel]] = {
    "plain": lambda columns, dim: simple_kernel(dim),
    "multiplicative": lambda columns, dim: MultiplicativeContextKernel(
        simple_kernel(dim - len(columns)), columns
    ),
    "additive": lambda columns, dim: AdditiveContextKernel(
        simple_kernel(dim - len(columns)), columns
    ),
    "product": product_kernel,
}
# The context columns, the number of columns, the kernel.
LAYOUTS = [
    ([], 2, "plain"),
    ([0], 3, "multiplicative"),
    ([2], 3, "additive"),
    ([1], 3, "product"),
    ([2, 0], 4, "multiplicative"),
    ([-1, 1], 3, "additive"),
    ([0, 1], 3, "product"),
    ([0, 3, 2], 4, "multiplicative"),
    ([1, 2, 3], 4, "product"),
]


def shifted_space(columns: list[int], dim: int) -> ContextSpace:
    """Column ``i`` lies between ``i`` and ``i + 1``: none can pass for another."""
    low = torch.arange(dim).double()
    reference = [column % dim + 0.9 for column in columns]
    return ContextSpace(torch.stack([low, low + 1]), columns, reference)


def shifted_model(
    model_class: ModelClass, columns: list[int], dim: int, kernel: str
) -> AnyModel:
    """A model of trials in ``shifted_space``."""
    X, Y = random_trials(model_class, 6, dim)
    X = X + torch.arange(dim)
    if model_class is PreferenceLaplaceGP:
        X[..., 1, columns] = X[..., 0, columns]
    return model_class(X, Y, covar_module=KERNELS[kernel](columns, dim))


def unit_grid(n: int, dim: int) -> Tensor:
    """A regular grid in the unit cube, ``n^dim x dim``."""
    ticks = torch.linspace(0, 1, n).double()
    return torch.cartesian_prod(*[ticks] * dim).reshape(-1, dim)
