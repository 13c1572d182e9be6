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
from botorch_binary_context.likelihoods.probit_terms import ProbitTerms
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
    found = problem.find_sites(np.zeros((1, 1, 2)), 1e-10)
    assert found.is_found.all()
    # One trial is matched exactly: by the moments of a truncated Gaussian.
    z = torch.tensor(0.3 / 3**0.5, dtype=torch.double)
    ratio = (-(z**2) / 2).exp() / (2 * torch.pi) ** 0.5 / torch.special.ndtr(z)
    expected = 0.3 + 2.0 * ratio / 3**0.5
    assert found.mean[0, 0] == pytest.approx(expected.item(), abs=1e-9)
    assert found.log_evidence[0] == pytest.approx(
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
    assert not surprise.find_sites(None, 1e-5).is_found.any()
    # Nothing is known of a broken prior.
    broken = SmallProblem.of(ProbitLikelihood(), mean, torch.full_like(K, np.nan), c)
    assert broken is not None
    assert not is_mode_found(broken)
    assert not broken.find_sites(None, 1e-5).is_found.any()
    # Trials that say hardly anything cost digits.
    weak = SmallProblem.of(ProbitLikelihood(), mean, 1e-9 * K, c)
    assert weak is not None
    assert not weak.find_sites(None, 1e-5).is_found.any()
    assert is_mode_found(weak)


def is_mode_found(problem: SmallProblem) -> bool:
    found = problem.find_mode()
    assert found is not None
    return bool(found.is_found.all())


def test_models_together_are_those_found_alone() -> None:
    torch.manual_seed(2)
    likelihood = ProbitLikelihood()
    alone = []
    for scale in (0.1, 3.0, 100.0):  # which take different numbers of steps
        one = SmallProblem.of(likelihood, *problem(20, scale))
        assert one is not None
        alone.append(one)
    broken = SmallProblem(alone[0].mean, np.nan * alone[0].K, alone[0].terms)
    parts = [*alone, broken]
    together = SmallProblem(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.K for part in parts]),
        ProbitTerms(np.concatenate([part.terms.sign for part in parts])),
    )
    assert together.select([1, 2]).K.shape == (2, 20, 20)
    for search in (
        lambda problem: problem.find_mode(),
        lambda problem: problem.find_sites(None, 1e-10),
    ):
        found = search(together)
        assert found.is_found.tolist() == [True, True, True, False]
        by_mean, by_covariance = found.slopes()
        for i, one in enumerate(alone):
            expected = search(one)
            mean_slope, covariance_slope = expected.slopes()
            for ours, known in (
                (found.log_evidence[i], expected.log_evidence[0]),
                (found.start[i], expected.start[0]),
                (found.cholesky[i], expected.cholesky[0]),
                (by_mean[i], mean_slope[0]),
                (by_covariance[i], covariance_slope[0]),
            ):
                np.testing.assert_allclose(ours, known, rtol=0, atol=1e-10)
