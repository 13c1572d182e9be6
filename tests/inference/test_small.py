from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
    Start,
    small,
)
from botorch_binary_context.inference.small import SmallProblem
from botorch_binary_context.likelihoods import (
    PreferenceLikelihood,
    ProbitLikelihood,
    StackedLikelihood,
)
from tests.tensors import uniform

EXACT = ExpectationPropagation(tolerance=1e-11)
MIXED = StackedLikelihood(
    [(ProbitLikelihood(1 / 26, 0.02), 25), (ProbitLikelihood(), 15)]
)
LIKELIHOODS = [ProbitLikelihood(), PreferenceLikelihood(), MIXED]


def problem(n: int, scale: float = 3.0) -> tuple[Tensor, Tensor, Tensor]:
    """A prior and labels, most of them as expected."""
    X = uniform(n, 2)
    mean = X[:, 0] - 0.3
    distances = (X.unsqueeze(-2) - X).square().sum(dim=-1)
    K = scale * (-4 * distances).exp()
    return mean, K, (uniform(n) < X[:, 0]).double()


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=["probit", "duels", "mixed"])
@pytest.mark.parametrize("inference", [Laplace(), EXACT], ids=["laplace", "ep"])
def test_agrees_with_the_general_search(
    inference: Inference, likelihood: ProbitLikelihood
) -> None:
    torch.manual_seed(0)
    mean, K, c = problem(40)
    data = likelihood, mean.requires_grad_(), K.requires_grad_(), c

    def evaluate(start: Start | None = None) -> tuple[Tensor, ...]:
        value, begin = inference.evidence(*data, start)
        slopes = torch.autograd.grad(value, [mean, K])
        with torch.no_grad():
            found = inference.approximate(*data, start)
        parts = found.weights, found.sqrt_information, found.cholesky, found.as_sites()
        return value, *slopes, begin.values, *parts, found.log_evidence

    found = evaluate()
    warm = evaluate(Start(0.9 * found[3]))
    with mock.patch.object(small, "SMALL", 0):
        expected = evaluate()
    for ours, again, known in zip(found, warm, expected, strict=True):
        assert torch.allclose(ours, known, rtol=0, atol=1e-8)
        assert torch.allclose(again, known, rtol=0, atol=1e-8)
    assert SmallProblem.of(likelihood, mean, K, c) is not None


def test_new_trials_begin_where_they_match_alone() -> None:
    mean, variance = torch.tensor([0.3, 2.0], dtype=torch.double)
    data = mean.reshape(1), variance.reshape(1, 1), torch.ones(1)
    problem = SmallProblem.of(ProbitLikelihood(), *data)
    assert problem is not None
    found = problem.find_sites(np.zeros((1, 2)), 1e-10)
    assert found is not None
    # One trial is matched exactly: by the moments of a truncated Gaussian.
    z = torch.tensor(0.3 / 3**0.5, dtype=torch.double)
    ratio = (-(z**2) / 2).exp() / (2 * torch.pi) ** 0.5 / torch.special.ndtr(z)
    expected = 0.3 + 2.0 * ratio / 3**0.5
    assert found.mean[0] == pytest.approx(expected.item(), abs=1e-9)
    assert found.log_evidence == pytest.approx(
        torch.special.log_ndtr(z).item(), abs=1e-9
    )


def test_leaves_other_problems_to_the_general_search() -> None:
    mean, K, c = problem(5)
    probit = ProbitLikelihood()
    assert SmallProblem.of(probit, mean, K, c) is not None
    learned = ProbitLikelihood(learn_lapse_rate=True)
    for data in (
        (learned, mean, K, c),
        (probit, mean.float(), K.float(), c.float()),
        (probit, mean.expand(2, 5), K.expand(2, 5, 5), c.expand(2, 5)),
        (StackedLikelihood([(probit, 3), (learned, 2)]), mean, K, c),
        (type("Other", (ProbitLikelihood,), {})(), mean, K, c),
    ):
        assert SmallProblem.of(*data) is None


def test_finds_nothing_where_steps_do_not_help() -> None:
    torch.manual_seed(1)
    mean, K, c = problem(6)
    guesses = SmallProblem.of(ProbitLikelihood(0.5), mean, K, c)
    assert guesses is not None
    assert guesses.find_mode() is None  # not log-concave
    # A guess against all that is believed has a negative site.
    surprise = SmallProblem.of(ProbitLikelihood(0.5), mean - 4, K, torch.ones_like(c))
    assert surprise is not None
    assert surprise.find_sites(None, 1e-5) is None
    # Nothing is known of a broken prior.
    broken = SmallProblem.of(ProbitLikelihood(), mean, torch.full_like(K, np.nan), c)
    assert broken is not None
    assert broken.find_mode() is None
    assert broken.find_sites(None, 1e-5) is None
    # Trials that say hardly anything cost digits.
    weak = SmallProblem.of(ProbitLikelihood(), mean, 1e-9 * K, c)
    assert weak is not None
    assert weak.find_sites(None, 1e-5) is None
    assert weak.find_mode() is not None
