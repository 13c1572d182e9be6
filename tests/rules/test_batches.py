r"""Several trials at once, and trials that are pending."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryGP,
    BinaryLaplaceGP,
    PreferenceLaplaceGP,
    ProbitLikelihood,
    SearchOptions,
    suggest,
)
from botorch_binary_context.acquisition.joint_information import MAX_JOINT
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.pending import expect_outcomes
from botorch_binary_context.probability import bernoulli_entropy
from botorch_binary_context.rules import frozen
from botorch_binary_context.rules.suggestion import PENDING_SEARCH, shorten
from tests.rules.problems import (
    DETERMINISTIC_RULES,
    QUICK,
    SPACE,
    SYMMETRIC_RULES,
    both_models,
    context_model,
    element_of,
    every_rule,
    sides_of,
)
from tests.small_models import ModelClass, simple_kernel
from tests.tensors import double, uniform


@every_rule
class TestBatches:
    def test_trials_have_the_layout_that_models_take(
        self, model_class: ModelClass, rule: str
    ) -> None:
        model = context_model(model_class, batch_shape=(2,))
        trials = suggest(model, SPACE, rule, QUICK, seed=0, q=3)
        assert trials.shape == (2, 3, *sides_of(model_class), 2)
        labels = torch.ones(2, 3, 1).double()
        told = model.condition_on_observations(trials, labels)
        assert told.train_targets.shape[-1] == 11

    def test_one_after_the_other(self, model_class: ModelClass, rule: str) -> None:
        """The first of two is that of one; the second knows of the first."""
        model = context_model(model_class)
        first, second = suggest(model, SPACE, rule, seed=0, q=2).split(1)
        alone = suggest(model, SPACE, rule, seed=0)
        torch.testing.assert_close(first, alone, rtol=0, atol=1e-9)
        if (model_class, rule) in DETERMINISTIC_RULES:
            again = suggest(model, SPACE, rule, seed=0, pending=first)
            pair = [again, second]
            if rule in SYMMETRIC_RULES:
                pair = [duel.sort(dim=-2).values for duel in pair]
            torch.testing.assert_close(*pair, rtol=0, atol=1e-4)
        # A bound may well be largest at the same place again.
        if not rule.startswith("ucb") and not rule.endswith("fixed"):
            # Searches of the same place would end closer to each other.
            assert (first - second).abs().max() > 1e-3


@both_models
def test_expected_outcomes(model_class: ModelClass) -> None:
    model = context_model(model_class)
    pending = suggest(model, SPACE, "random", seed=3, q=4)
    expected = expect_outcomes(model, pending)
    mean = model.moments(pending if pending.ndim == 3 else pending.unsqueeze(-2))[0]
    assert torch.equal(expected.train_targets[8:], (mean > 0).double())
    assert expect_outcomes(model, pending[:0]) is model


@both_models
@pytest.mark.parametrize("rule", ["bald", "random"])
def test_same_pending_trials_for_a_batch(model_class: ModelClass, rule: str) -> None:
    model = context_model(model_class, batch_shape=(3,))
    pending = uniform(2, *sides_of(model_class), 2)
    trials = suggest(model, SPACE, rule, QUICK, seed=0, q=2, pending=pending)
    each = pending.expand(3, *pending.shape)
    again = suggest(model, SPACE, rule, QUICK, seed=0, q=2, pending=each)
    assert torch.equal(trials, again)


def test_refuses_pending_trials_of_another_shape() -> None:
    model = context_model(PreferenceLaplaceGP)
    message = (
        r"pending trials to be ``batch_shape x n x 2 x 2``, but got shape \[3, 2\]"
    )
    with pytest.raises(BotorchTensorDimensionError, match=message):
        suggest(model, SPACE, "bald", pending=uniform(3, 2))


# ------------------------------------------------------------------ joint information


def joint_moments(model: LatentGP, trials: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and covariance of what ``n x q x d`` trials observe."""
    posterior: Any = model.posterior(trials.flatten(0, 1))
    functional = model.functional
    mean = functional(posterior.mean.squeeze(-1))
    covar = functional.of_covariance(posterior.distribution.covariance_matrix)
    return mean.detach(), covar.detach()


def joint_entropy(mean: Tensor, covar: Tensor) -> float:
    """Of the outcomes of all trials: the probabilities of all orthants."""
    entropy = 0.0
    for signs in itertools.product([1.0, -1.0], repeat=len(mean)):
        s = double(signs)
        noisy = torch.outer(s, s) * (covar + torch.eye(len(mean)).double())
        normal: Any = multivariate_normal(cov=noisy, seed=0)  # pyright: ignore
        normal.maxpts = 200_000
        p = float(normal.cdf(s * mean))
        entropy -= p * torch.tensor(p).log().item() if p > 0 else 0.0
    return entropy


@both_models
@pytest.mark.parametrize("number", [1, 2, 3])
def test_information_beyond_pending_trials(
    model_class: ModelClass, number: int
) -> None:
    model = context_model(model_class, n=4)
    rows = model.functional.num_rows
    trials = uniform(number + 2, rows, 2, seed=4)
    trials[..., 0] = trials[..., :1, 0]
    pending, X = trials[:number], trials[number:]
    acqf = BernoulliMutualInformation(model, X_pending=pending.flatten(0, 1))
    alone = BernoulliMutualInformation(model)
    for candidate in X:
        mean, covar = joint_moments(model, torch.cat([pending, candidate[None]]))
        open_now = joint_entropy(mean, covar) - joint_entropy(
            mean[:-1], covar[:-1, :-1]
        )
        p = model.likelihood.expected_probability(mean[-1:], covar[-1:, -1])
        noise = bernoulli_entropy(p) - alone(candidate)
        tolerance = {1: 1e-5, 2: 1e-4, 3: 1e-3}[number]
        assert abs(acqf(candidate) - (open_now - noise)) < tolerance
        assert acqf(candidate) < alone(candidate)


def test_information_with_guesses() -> None:
    """By draws of the latent values."""
    X = uniform(5, 2)
    Y = double([[1.0], [0], [1], [1], [0]])
    likelihood = ProbitLikelihood(0.3, 0.05)
    model = BinaryGP(X, Y, likelihood, covar_module=simple_kernel())
    trials = uniform(3, 1, 2, seed=8)
    mean, covar = joint_moments(model, trials)
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(400_000, 3, generator=generator, dtype=torch.double)
    p = likelihood.probability(mean + noise @ torch.linalg.cholesky(covar).T)
    open_now = 0.0
    for labels in itertools.product([0, 1], repeat=2):
        chosen = [p[:, i] if label else 1 - p[:, i] for i, label in enumerate(labels)]
        weight = chosen[0] * chosen[1]
        share = (weight * p[:, 2]).mean() / weight.mean()
        open_now += weight.mean() * bernoulli_entropy(share)
    expected = open_now - bernoulli_entropy(p[:, 2]).mean()
    acqf = BernoulliMutualInformation(model, X_pending=trials[:2].flatten(0, 1))
    assert abs(acqf(trials[2]) - expected) < 5e-4


class TestJointInformation:
    def test_gradient_equals_finite_differences(self) -> None:
        model = context_model(BinaryLaplaceGP)
        with frozen(model):
            acqf = BernoulliMutualInformation(model, X_pending=uniform(3, 2, seed=1))
            assert gradcheck(acqf, (uniform(2, 1, 2).requires_grad_(),))

    def test_batch_equals_a_loop(self) -> None:
        model = context_model(BinaryLaplaceGP, batch_shape=(3,))
        pending = uniform(3, 2, 2, seed=1)
        acqf = BernoulliMutualInformation(model, X_pending=pending)
        X = uniform(4, 3, 1, 2, seed=2)
        for i in range(3):
            alone = BernoulliMutualInformation(element_of(model, i), pending[i])
            torch.testing.assert_close(acqf(X)[:, i], alone(X[:, i]))

    def test_first_of_too_many_come_out_as_expected(self) -> None:
        """The first of too many are taken to come out as expected."""
        model = context_model(BinaryLaplaceGP)
        pending = uniform(MAX_JOINT + 2, 2, seed=1)
        found = BernoulliMutualInformation(model, X_pending=pending)
        told = expect_outcomes(model, pending[:2])
        expected = BernoulliMutualInformation(told, X_pending=pending[2:])
        X = uniform(4, 1, 2, seed=2)
        torch.testing.assert_close(found(X), expected(X))

    def test_a_batch_is_better_than_repeats(self) -> None:
        """Jointly chosen trials tell more than the best one again and again."""
        model = context_model(BinaryLaplaceGP)
        batch = suggest(model, SPACE, "bald", seed=0, q=3).unsqueeze(-2)
        again = batch[:1].expand(3, -1, -1)

        def information(trials: Tensor) -> float:
            mean, covar = joint_moments(model, trials)
            alone = BernoulliMutualInformation(model)
            p = model.likelihood.expected_probability(mean, covar.diagonal())
            noise = (bernoulli_entropy(p) - alone(trials)).sum()
            return joint_entropy(mean, covar) - float(noise)

        with torch.no_grad():
            assert information(batch) > information(again) + 0.01


def test_shorter_searches() -> None:
    assert shorten(SearchOptions()) == PENDING_SEARCH
    little = SearchOptions(2, raw_samples=16, max_evaluations=9, relative_gain=1e-3)
    assert shorten(little) == little
