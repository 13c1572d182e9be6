from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
    mode_search,
)
from botorch_binary_context.inference.mode_search import (
    SLIDING_SIZE,
    Curvature,
    ModeSearch,
)
from botorch_binary_context.likelihoods import ProbitLikelihood
from tests.derivatives import finite_difference
from tests.tensors import uniform

EXACT = ExpectationPropagation(tolerance=1e-11)
LIKELIHOODS = [ProbitLikelihood(), ProbitLikelihood(0.5, 0.02)]


def problem(n: int, *batch_shape: int, scale: float = 3.0) -> tuple[Tensor, ...]:
    """A prior and labels, some of them against what is expected."""
    X = uniform(*batch_shape, n, 2)
    mean = X[..., 0] - 0.3
    distances = (X.unsqueeze(-2) - X.unsqueeze(-3)).square().sum(dim=-1)
    K = scale * (-4 * distances).exp()
    return mean, K, (uniform(*batch_shape, n) < X[..., 1]).double()


def symmetric(K: Tensor) -> Tensor:
    return (K + K.mT) / 2


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=["probit", "guesses"])
@pytest.mark.parametrize("inference", [Laplace(), EXACT], ids=["laplace", "ep"])
class TestSlopes:
    def test_agree_with_finite_differences(
        self, inference: Inference, likelihood: ProbitLikelihood
    ) -> None:
        torch.manual_seed(0)
        mean, K, c = problem(4, 2)

        def evidence(mean: Tensor, K: Tensor) -> Tensor:
            return inference.evidence(likelihood, mean, symmetric(K), c)[0]

        arguments = (mean.requires_grad_(), K.requires_grad_())
        assert gradcheck(evidence, arguments, atol=1e-6, rtol=1e-6)

    def test_agree_with_the_graph_of_the_approximation(
        self, inference: Inference, likelihood: ProbitLikelihood
    ) -> None:
        torch.manual_seed(1)
        mean, K, c = problem(30)
        arguments = [mean.requires_grad_(), K.requires_grad_()]
        value, _ = inference.evidence(likelihood, mean, symmetric(K), c)
        found = torch.autograd.grad(value, arguments)
        known = inference.approximate(likelihood, mean, symmetric(K), c).log_evidence
        assert torch.allclose(value, known, rtol=0, atol=1e-9)
        expected = torch.autograd.grad(known, arguments)
        for a, b in zip(found, expected, strict=True):
            assert torch.allclose(a, b, rtol=0, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=["probit", "guesses"])
def test_slopes_of_slopes(likelihood: ProbitLikelihood) -> None:
    torch.manual_seed(2)
    mean, K, c = problem(3)

    def evidence(mean: Tensor, K: Tensor) -> Tensor:
        return Laplace().evidence(likelihood, mean, symmetric(K), c)[0]

    arguments = (mean.requires_grad_(), K.requires_grad_())
    assert gradgradcheck(evidence, arguments, atol=1e-6, rtol=1e-6)
    # In one of the arguments alone.
    value = evidence(mean.detach(), K)
    (slope,) = torch.autograd.grad(value, K, create_graph=True)
    assert slope.requires_grad


def test_learned_rates_have_slopes() -> None:
    torch.manual_seed(3)
    mean, K, c = problem(12)
    likelihood = ProbitLikelihood(0.5, 0.05, learn_lapse_rate=True)
    (raw,) = likelihood.parameters()
    for inference in (Laplace(), EXACT):

        def evidence(value: Tensor, inference: Inference = inference) -> Tensor:
            with torch.no_grad():
                raw.copy_(value)
            return inference.evidence(likelihood, mean, K, c)[0].detach()

        begin = raw.detach().clone()
        (found,) = torch.autograd.grad(
            inference.evidence(likelihood, mean, K, c)[0], raw
        )
        expected: Any = finite_difference(evidence, begin)
        evidence(begin)
        assert torch.allclose(found, expected.reshape(found.shape), atol=1e-6)


class TestSlides:
    def test_end_where_newton_steps_end(self) -> None:
        torch.manual_seed(4)
        mean, K, c = problem(SLIDING_SIZE, 2)
        search = ModeSearch(ProbitLikelihood(), mean, K, c)
        found = search.run(None)
        with mock.patch.object(mode_search, "SLIDING_SIZE", 1 + SLIDING_SIZE):
            expected = search.run(None)
        assert bool((found.error < search.tolerance).all())
        assert torch.allclose(found.contrast, expected.contrast, rtol=0, atol=1e-11)

    def test_curvature_nearby_leads_to_the_mode(self) -> None:
        torch.manual_seed(5)
        mean, K, c = problem(20)
        search = ModeSearch(ProbitLikelihood(), mean, K, c)
        mode = search.run(None)
        near = search.evaluate(1.01 * mode.weights)
        found = search.slide(near, Curvature.at(K, near))
        assert found.error < search.tolerance
        assert torch.allclose(found.contrast, mode.contrast, rtol=0, atol=1e-10)

    def test_stop_where_they_do_not_help(self) -> None:
        torch.manual_seed(6)
        mean, K, c = problem(20)
        search = ModeSearch(ProbitLikelihood(), mean, K, c)
        begin = search.evaluate(1.02 * search.run(None).weights)
        far = Curvature.at(K, search.evaluate(torch.full_like(mean, 5.0)))
        assert search.slide(begin, far).error <= begin.error
