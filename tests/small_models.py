r"""Small models of random trials, of pass/fail answers and of duels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.kernels import context_dims_of
from tests.tensors import double, uniform

ModelClass = type[BinaryLaplaceGP] | type[PreferenceLaplaceGP]

AnyModel = BinaryLaplaceGP | PreferenceLaplaceGP

MODEL_CLASSES: tuple[ModelClass, ...] = (BinaryLaplaceGP, PreferenceLaplaceGP)

UNIT = [[0.0, 0.0], [1.0, 1.0]]


def random_trials(
    model_class: ModelClass,
    n: int,
    dim: int = 2,
    batch_shape: Sequence[int] = (),
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """Trials in the unit cube, in the form a model takes, and noisy labels."""
    generator = torch.Generator().manual_seed(seed)
    sides = () if model_class is BinaryLaplaceGP else (2,)
    shape = (*batch_shape, n, *sides, dim)
    X = torch.rand(shape, generator=generator, dtype=torch.double)
    value = (5 * X).sin().sum(dim=-1)
    contrast = value[..., 0] - value[..., 1] if sides else value
    noise = torch.randn(contrast.shape, generator=generator, dtype=torch.double)
    return X, (contrast + noise > 0).double().unsqueeze(-1)


def simple_kernel(dim: int = 2, batch_shape: Sequence[int] = ()) -> ScaleKernel:
    """A squared exponential kernel; elements of a batch differ in hyperparameters."""
    shape = torch.Size(batch_shape)
    base = RBFKernel(ard_num_dims=dim, batch_shape=shape)
    kernel = ScaleKernel(base, batch_shape=shape).double()
    base.lengthscale = 0.3 + 0.3 * uniform(*shape, 1, dim, seed=7)
    kernel.outputscale = 1.0 + 2.0 * uniform(*shape, seed=8)
    return kernel


def random_model(
    model_class: ModelClass,
    n: int = 8,
    dim: int = 2,
    batch_shape: Sequence[int] = (),
    seed: int = 0,
    **kwargs: Any,
) -> AnyModel:
    """A model of random trials, by default with a kernel that needs no fit."""
    X, Y = random_trials(model_class, n, dim, batch_shape, seed)
    kernel = kwargs.setdefault("covar_module", simple_kernel(dim, batch_shape))
    if model_class is PreferenceLaplaceGP:
        contexts = list(context_dims_of(kernel))
        X[..., 1, contexts] = X[..., 0, contexts]
    return model_class(X, Y, **kwargs)


def join_rows(model: AnyModel, trials: Tensor) -> Tensor:
    """The rows of trials: of duels both sides, one after the other."""
    return trials if isinstance(model, BinaryLaplaceGP) else trials.flatten(-3, -2)


def element(model: AnyModel, index: tuple[int, ...]) -> AnyModel:
    """One element of a batch of models of ``random_model``, on its own."""
    batched: Any = model.covar_module
    kernel = simple_kernel(model.train_inputs[0].shape[-1])
    if batched.outputscale.ndim:
        batched_scale, batched_length = batched.outputscale, batched.base_kernel
        kernel.outputscale = batched_scale[index].detach()
        kernel.base_kernel.lengthscale = batched_length.lengthscale[index].detach()
    mean_module: Any = ConstantMean().double()
    constant: Any = getattr(model.mean_module, "constant", double(0.0))
    mean_module.constant = (constant[index] if constant.ndim else constant).detach()
    return type(model)(
        model.train_inputs[0][index],
        model.train_targets[index].unsqueeze(-1),
        likelihood=model.likelihood,  # pyright: ignore[reportArgumentType]
        covar_module=kernel,
        mean_module=mean_module,
    )
