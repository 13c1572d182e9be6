r"""The likelihood of trials of several kinds."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from botorch_binary_context import PreferenceLikelihood, ProbitLikelihood
from botorch_binary_context.likelihoods import OutcomeLikelihood, StackedLikelihood
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.tensors import double, uniform

PLAIN = ProbitLikelihood()
TWO_CHOICES = ProbitLikelihood(0.5)
LAPSES = ProbitLikelihood(0.1, 0.05)
DUELS = PreferenceLikelihood()
LEARNED = ProbitLikelihood(0.5, 0.02, learn_lapse_rate=True)
STACK = StackedLikelihood([(TWO_CHOICES, 3), (DUELS, 2), (LAPSES, 4)])
NAMES = ("value", "gradient", "negative_hessian", "information")


def contrasts(*batch_shape: int, n: int = 9) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances and labels of trials."""
    mean = 6 * uniform(*batch_shape, n) - 3
    variance = 4 * uniform(*batch_shape, n, seed=1)
    return mean, variance, (uniform(*batch_shape, n, seed=2) > 0.5).double()


def each_trial(
    stack: StackedLikelihood, batch_shape: tuple[int, ...]
) -> list[tuple[OutcomeLikelihood, tuple[int, ...]]]:
    """The likelihood of every single trial, and where it is."""
    owners = [owner for owner, count in stack.parts for _ in range(count)]
    indices = itertools.product(*(range(size) for size in batch_shape))
    return [(owner, (*index, i)) for index in indices for i, owner in enumerate(owners)]


class TestStackedLikelihood:
    def test_value_from_the_definition(self) -> None:
        mean, _, labels = contrasts()
        rates = double([[0.5, 0.0]] * 3 + [[0.0, 0.0]] * 2 + [[0.1, 0.05]] * 4).numpy()
        guess, lapse = rates.T
        p = guess + (1 - guess - lapse) * norm.cdf(mean.numpy())
        p = torch.where(labels == 1, torch.from_numpy(p), 1 - torch.from_numpy(p))
        assert_all_close(STACK.log_prob(mean, labels), p.log(), rtol=0, atol=1e-13)

    def test_every_trial_has_its_own_likelihood(self) -> None:
        for batch_shape in ((), (2,), (2, 1)):
            mean, variance, labels = contrasts(*batch_shape)
            log_prob = STACK.log_prob(mean, labels)
            plain = STACK.log_derivatives(mean, labels)
            tilted = STACK.tilted_derivatives(mean, variance, labels)
            for owner, i in each_trial(STACK, batch_shape):
                m, v, c = mean[i], variance[i], labels[i]
                assert_all_close(log_prob[i], owner.log_prob(m, c))
                for name in NAMES:
                    expected = getattr(owner.log_derivatives(m, c), name)
                    assert_all_close(getattr(plain, name)[i], expected)
                    expected = getattr(owner.tilted_derivatives(m, v, c), name)
                    assert_all_close(getattr(tilted, name)[i], expected)

    def test_a_kind_may_have_no_trials(self) -> None:
        mean, variance, labels = contrasts(n=5)
        for parts in (
            [(DUELS, 0), (LAPSES, 5)],
            [(LAPSES, 5), (DUELS, 0)],
            [(LAPSES, 2), (DUELS, 0), (LAPSES, 3)],
        ):
            stack = StackedLikelihood(parts)
            found = stack.tilted_derivatives(mean, variance, labels)
            expected = LAPSES.tilted_derivatives(mean, variance, labels)
            for name in NAMES:
                assert_all_close(getattr(found, name), getattr(expected, name))
            found = stack.log_prob(mean, labels)
            assert_all_close(found, LAPSES.log_prob(mean, labels))

    def test_no_trials_at_all(self) -> None:
        empty = torch.zeros(2, 0, dtype=torch.double)
        for parts in ([(DUELS, 0)], [(LAPSES, 0), (DUELS, 0)]):
            stack = StackedLikelihood(parts)
            assert stack.log_prob(empty, empty).shape == (2, 0)
            found = stack.tilted_derivatives(empty, empty, empty)
            for name in NAMES:
                assert getattr(found, name).shape == (2, 0)

    def test_one_kind_is_the_likelihood_itself(self) -> None:
        mean, _, labels = contrasts()
        found = StackedLikelihood([(PLAIN, 9)]).log_derivatives(mean, labels)
        # It keeps what only a log-concave likelihood knows: both are one tensor.
        assert found.information is found.negative_hessian

    def test_the_wrong_number_of_trials(self) -> None:
        mean, variance, labels = contrasts(n=8)
        with pytest.raises(RuntimeError, match="split"):
            STACK.log_prob(mean, labels)
        with pytest.raises(RuntimeError, match="split"):
            STACK.tilted_derivatives(mean, variance, labels)

    def test_is_log_concave(self) -> None:
        for parts, expected in (
            ([(PLAIN, 2)], True),
            ([(PLAIN, 2), (DUELS, 1)], True),
            ([(PLAIN, 2), (TWO_CHOICES, 1)], False),
        ):
            assert StackedLikelihood(parts).is_log_concave == expected
        assert not STACK.is_log_concave

    def test_requires_grad(self) -> None:
        assert not STACK.requires_grad
        assert StackedLikelihood([(DUELS, 2), (LEARNED, 1)]).requires_grad

    def test_gradients_reach_learned_rates(self) -> None:
        mean, _, labels = contrasts(n=5)
        stack = StackedLikelihood([(DUELS, 2), (LEARNED, 3)])
        raw: Any = LEARNED.raw_lapse_rate
        found = torch.autograd.grad(stack.log_prob(mean, labels).sum(), raw)
        alone = LEARNED.log_prob(mean[2:], labels[2:]).sum()
        assert_all_close(found, torch.autograd.grad(alone, raw))

    def test_appending_extends_the_last_part_or_adds_one(self) -> None:
        more = STACK.append(LAPSES, 2)
        assert list(more.parts) == [(TWO_CHOICES, 3), (DUELS, 2), (LAPSES, 6)]
        other = STACK.append(DUELS, 1)
        assert list(other.parts) == [*STACK.parts, (DUELS, 1)]
        mean, _, labels = contrasts(n=10)
        found = other.log_prob(mean, labels)
        assert_all_close(found[:9], STACK.log_prob(mean[:9], labels[:9]))
        assert_all_close(found[9:], DUELS.log_prob(mean[9:], labels[9:]))

    def test_dtype_and_device(self) -> None:
        mean, variance, labels = (t.float() for t in contrasts())
        with RequireDevice():
            found = STACK.tilted_derivatives(mean, variance, labels)
        for name in NAMES:
            assert getattr(found, name).dtype == torch.float
