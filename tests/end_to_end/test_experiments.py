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
from tests.small_models import AnyModel, ModelClass
from tests.stationary_kernels import stationary_kernel
from tests.tensors import double

SPACE = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [0], [1.0])
OPTIONS = SearchOptions(num_restarts=4, raw_samples=64, max_evaluations=30)
NUM_TRIALS = 20
# The gain over random trials is 0.6 to 1.3, with a standard error of 0.1 to 0.3.
MARGIN = 0.25
SLOW_RULES = ("cbkg", "kg", "cjes")
# They climb, so they need a model that expects one peak: ``test_lenses.py`` has one.
LOCAL_RULES = ("gradient",)


def performance(x: Tensor) -> Tensor:
    """A peak of height 1 at 0.3 and one of 4 at 0.8, both rising from -2."""
    good, better = ((-((x - peak) ** 2) / (2 * 0.08**2)).exp() for peak in (0.3, 0.8))
    return 3 * good + 6 * better - 2


def run_trials(model: AnyModel, trials: Tensor) -> Tensor:
    """Labels of trials: ``P = Φ(s g(x))``, or for duels of the difference of values."""
    f = trials[..., 0] * performance(trials[..., 1])
    contrast = model.likelihood.functional(f)
    return torch.bernoulli(torch.special.ndtr(contrast)).unsqueeze(-1)


def new_experiments(model_class: ModelClass, size: int) -> AnyModel:
    """A batch of experiments without a trial, with known hyperparameters."""
    kernel = ScaleKernel(stationary_kernel(math.inf, double([[0.1]]))).double()
    kernel.outputscale = 8.0
    shape = (2,) if model_class is BinaryLaplaceGP else (2, 2)
    return model_class(
        torch.zeros(size, 0, *shape).double(),
        torch.zeros(size, 0, 1).double(),
        covar_module=MultiplicativeContextKernel(kernel, context_dims=[0]),
    )


def advance(model: AnyModel, rule: str) -> AnyModel:
    """Choose, run and learn from one more trial in every experiment."""
    trial = suggest(model, SPACE, rule, OPTIONS)
    labels = run_trials(model, model.functional.rows(trial))
    return model.condition_on_observations(trial, labels)


def run_experiments(
    model_class: ModelClass,
    rule: str,
    size: int,
    num_trials: int = NUM_TRIALS,
    seed: int = 0,
) -> Tensor:
    """How good the parameters are that each experiment recommends in the end."""
    model = new_experiments(model_class, size)
    with manual_seed(seed):
        for _ in range(num_trials):
            model = advance(model, rule)
    return performance(recommend(model, SPACE)).squeeze(-1)


@cache
def performance_of_random_trials(model_class: ModelClass) -> float:
    return run_experiments(model_class, "random", size=200).mean().item()


@pytest.mark.parametrize(
    ("model_class", "rule"),
    [
        pytest.param(
            model_class, rule, marks=[pytest.mark.slow] if rule in SLOW_RULES else []
        )
        for model_class, rules in (
            (BinaryLaplaceGP, BINARY_RULES),
            (PreferenceLaplaceGP, DUEL_RULES),
        )
        for rule in rules
        if rule not in ("random", *LOCAL_RULES)
    ],
)
def test_better_than_random_trials(model_class: ModelClass, rule: str) -> None:
    size = 16 if rule in SLOW_RULES else 40
    found = run_experiments(model_class, rule, size).mean()
    assert found > performance_of_random_trials(model_class) + MARGIN


@pytest.mark.parametrize("model_class", [BinaryLaplaceGP, PreferenceLaplaceGP])
class TestLoop:
    def test_repeats_itself(self, model_class: ModelClass) -> None:
        rule = "ts-ald" if model_class is BinaryLaplaceGP else "kss-ald"
        first, again, other = (
            run_experiments(model_class, rule, size=3, num_trials=5, seed=seed)
            for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_looking_at_the_model_now_and_then(self, model_class: ModelClass) -> None:
        """Random trials do not ask the model; recommendations in between do."""
        results = []
        for pauses in ((), (3, 6), range(8)):
            model = new_experiments(model_class, 3)
            with manual_seed(0):
                for i in range(8):
                    model = advance(model, "random")
                    if i in pauses:
                        recommend(model, SPACE)
            results.append(recommend(model, SPACE))
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=1e-6)
        torch.testing.assert_close(results[2], results[0], rtol=0, atol=1e-6)

    def test_one_experiment(self, model_class: ModelClass) -> None:
        """Without a batch dimension, from the first trial on."""
        batch = new_experiments(model_class, 1)
        X, Y = batch.train_inputs[0][0], batch.train_targets[0].unsqueeze(-1)
        model = model_class(X, Y, covar_module=batch.covar_module)
        rule = "ucb-ald" if model_class is BinaryLaplaceGP else "muc-ald"
        with manual_seed(0):
            for _ in range(5):
                model = advance(model, rule)
        assert model.train_targets.shape == (5,)
        assert recommend(model, SPACE).shape == (1,)
