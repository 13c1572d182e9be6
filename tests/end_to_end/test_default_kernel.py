r"""Optimization with the default kernel where passes are rare."""

from __future__ import annotations

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.utils.gpytorch_modules import (
    get_covar_module_with_dim_scaled_prior,
)
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.priors import GammaPrior
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    LaplaceMarginalLogLikelihood,
    SearchOptions,
    recommend,
    suggest,
)
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [], double([]))
OPTIONS = SearchOptions(num_restarts=4, raw_samples=64, max_evaluations=30)
REPETITIONS, NUM_TRIALS = 16, 30
FITS = (5, 15, 25)


def performance(x: Tensor) -> Tensor:
    """A hill, where 7 of 10 tests are passed, in a plain of one in a thousand."""
    distance = (x - double([0.7, 0.3])).square().sum(dim=-1)
    return 3.5 * (-distance / (2 * 0.3**2)).exp() - 3


def run_tests(x: Tensor) -> Tensor:
    return torch.bernoulli(torch.special.ndtr(performance(x))).unsqueeze(-1)


def optimize(covar_module: Kernel | None) -> Tensor:
    """The performance of what is recommended in the end."""
    with manual_seed(0):
        X = uniform(REPETITIONS, 5, 2)
        model = BinaryLaplaceGP(X, run_tests(X), covar_module=covar_module)
        for i in range(1, NUM_TRIALS + 1):
            x = suggest(model, SPACE, "ucb-fixed", OPTIONS)
            model = model.condition_on_observations(x, run_tests(x))
            if i in FITS:
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        return performance(recommend(model, SPACE))


def test_rare_passes() -> None:
    """With priors for continuous outcomes, after failures no hill is expected."""
    shape = torch.Size([REPETITIONS])
    continuous = ScaleKernel(
        get_covar_module_with_dim_scaled_prior(2, shape),
        batch_shape=shape,
        outputscale_prior=GammaPrior(2.0, 0.5),
    )
    found = optimize(None)
    other = optimize(continuous.double())
    assert found.mean() > other.mean() + 0.5
    assert found.median() > 0.0
