r"""Whole experiments: every rule learns more from the same number of trials."""

from __future__ import annotations

import math
from functools import cache

import pytest
import torch
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BINARY_RULES,
    DUEL_RULES,
    BinaryLaplaceGP,
    ContextSpace,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    SearchOptions,
    recommend,
    suggest,
)
from tests.helpers import AnyModel, ModelClass, double, stationary_kernel

SPACE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [1.0])
OPTIONS = SearchOptions(num_restarts=4, raw_samples=64, max_evaluations=40)
NUM_EXPERIMENTS = 40
NUM_TRIALS = 20


def performance(x: Tensor) -> Tensor:
    """A good peak at 0.3 and a better one at 0.8, above a poor level."""
    good = 1.5 * (-((x - 0.3) ** 2) / (2 * 0.1**2)).exp()
    better = 2.5 * (-((x - 0.8) ** 2) / (2 * 0.08**2)).exp()
    return good + better - 0.5


def run_trials(model: AnyModel, trials: Tensor) -> Tensor:
    """Labels of trials: ``P = Φ(s g(x))``, or for duels of the difference of values."""
    f = trials[..., 0] * performance(trials[..., 1])
    contrast = model.likelihood.contrast(f)
    return torch.bernoulli(torch.special.ndtr(contrast)).unsqueeze(-1)


def new_experiments(model_class: ModelClass) -> AnyModel:
    """A batch of experiments without a trial, with known hyperparameters."""
    kernel = ScaleKernel(stationary_kernel(math.inf, double([[0.1]]))).double()
    kernel.outputscale = 1.5
    shape = (2,) if model_class is BinaryLaplaceGP else (2, 2)
    return model_class(
        torch.zeros(NUM_EXPERIMENTS, 0, *shape).double(),
        torch.zeros(NUM_EXPERIMENTS, 0, 1).double(),
        covar_module=MultiplicativeContextKernel(kernel, context_dims=[0]),
    )


@cache
def final_performance(model_class: ModelClass, rule: str) -> Tensor:
    """How good the recommended parameters are in the end, for each experiment."""
    model = new_experiments(model_class)
    with manual_seed(0):
        for _ in range(NUM_TRIALS):
            trial = suggest(model, SPACE, rule, OPTIONS)
            labels = run_trials(model, trial)
            if model_class is PreferenceLaplaceGP:
                trial = trial.unsqueeze(-3)
            model = model.condition_on_observations(trial, labels)
    return performance(recommend(model, SPACE)).squeeze(-1)
