from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
    SiteApproximation,
    expectation_propagation,
    laplace,
    mode_search,
    sites,
)
from botorch_binary_context.inference.gaussian import factorize
from botorch_binary_context.inference.local_posterior import LocalPosterior
from botorch_binary_context.inference.mode_search import Curvature
from botorch_binary_context.models import extension
from tests.small_models import simple_kernel
from tests.tensors import uniform

INFERENCES = [Laplace(), ExpectationPropagation(tolerance=1e-9)]


def make(kind: str, inference: Inference) -> tuple[Any, Observations]:
    """A model, and what it is to be conditioned on: a new trial of its first kind."""
    options: Any = {
        "covar_module": simple_kernel(),
        "mean_module": ConstantMean().double(),
        "inference": inference,
    }
    options["mean_module"].constant = 0.3
    X = uniform(14, 2)
    Y = (uniform(14, 1, seed=1) > 0.4).double()
    pairs = uniform(9, 2, 2, seed=2)
    one = torch.ones(1, 1).double()
    new = Observations(uniform(1, 2, seed=3), one, ProbitLikelihood())
    if kind == "outcomes":
        return BinaryGP(X, Y, **options), new
    if kind == "duels":
        duel = Observations(pairs[-1:], one, PreferenceLikelihood())
        return PreferenceGP(pairs[:-1], Y[:8], **options), duel
    parts = [
        Observations(X, Y, ProbitLikelihood()),
        Observations(pairs, Y[:9], PreferenceLikelihood()),
    ]
    return MixedGP(parts, **options), new


def moments(model: Any) -> Tensor:
    posterior = model.posterior(uniform(5, 2, seed=4))
    return torch.stack([posterior.mean, posterior.variance]).detach()


@pytest.mark.parametrize("kind", ["outcomes", "duels", "mixed"])
@pytest.mark.parametrize("inference", INFERENCES, ids=["laplace", "ep"])
class TestExtension:
    def test_equals_a_fresh_model(self, kind: str, inference: Inference) -> None:
        model, new = make(kind, inference)
        model.eval()
        moments(model)
        longer = model.condition_on_observations(new)
        with (
            mock.patch.object(longer, "_prior_moments") as all_of_it,
            torch.no_grad(),
        ):
            found = longer.approximation
        all_of_it.assert_not_called()
        mean, K = longer._prior_moments(longer.train_inputs)
        assert torch.allclose(found.prior_covariance, K, rtol=0, atol=1e-13)
        assert torch.allclose(found.prior_mean, mean, rtol=0, atol=1e-13)
        fresh = longer.with_inference(inference)
        assert torch.allclose(moments(longer), moments(fresh), rtol=0, atol=1e-8)

    def test_growing_equals_conditioning(self, kind: str, inference: Inference) -> None:
        model, new = make(kind, inference)
        before = moments(model)
        grown = model.grow(new)
        assert torch.equal(
            moments(grown), moments(model.condition_on_observations(new))
        )
        assert torch.equal(moments(model), before)
        assert grown.covar_module is model.covar_module

    def test_other_hyperparameters(self, kind: str, inference: Inference) -> None:
        model, new = make(kind, inference)
        model.eval()
        moments(model)
        longer = model.condition_on_observations(new)
        longer.covar_module.outputscale = 7.0
        start = extension.valid_start(longer)
        assert start is not None
        assert start.former is None
        fresh = longer.with_inference(inference)
        assert torch.allclose(moments(longer), moments(fresh), rtol=0, atol=1e-8)


def test_curvature_of_appended_trials() -> None:
    X = uniform(8, 2)
    K = simple_kernel()(X).to_dense().detach()
    root = uniform(8, seed=1)
    known = torch.tensor([True, True, False, True, True, True, False, True])
    part = K[known][:, known]
    size = int(known.sum())
    B = torch.eye(size).double() + root[known, None] * part * root[known]
    some = Curvature(root[known], torch.linalg.cholesky(B))
    found = some.append(K, known, root)
    vector = uniform(8, seed=2)
    system = torch.eye(8).double() + root.square().unsqueeze(-1) * K
    expected = torch.linalg.solve(system, vector)
    assert torch.allclose(found.solve(K, vector), expected, rtol=0, atol=1e-12)


@contextmanager
def counted_factorizations() -> Iterator[list[int]]:
    """The sizes of all matrices that are factored."""
    sizes = []

    def counted(K: Tensor, root: Tensor) -> Tensor:
        sizes.append(K.shape[-1])
        return factorize(K, root)

    with ExitStack() as stack:
        for module in (expectation_propagation, laplace, mode_search, sites):
            stack.enter_context(mock.patch.object(module, "factorize", counted))
        yield sizes


def test_one_more_trial_takes_one_factorization() -> None:
    n = 140  # beyond what is searched for in NumPy
    torch.manual_seed(0)
    X = torch.rand(n + 1, 2, dtype=torch.double)
    Y = torch.bernoulli(X[:, :1])
    model = BinaryLaplaceGP(X[:-1], Y[:-1], covar_module=simple_kernel()).eval()
    with torch.no_grad(), counted_factorizations() as sizes:
        moments(model)
        cold = len(sizes)
        moments(model.condition_on_observations(X[-1:], Y[-1:]))
    # The factor of all trials at the new mode, and none on the way there.
    assert sizes[cold:] == [n + 1]
    assert cold > 2


def site_error(found: SiteApproximation) -> float:
    """What one more sweep would change, by a posterior that is computed anew."""
    data = found.likelihood, found.targets, found.sites
    marginals = sites.Marginals.of(
        found.prior_mean, found.prior_covariance, found.sites
    )
    return float(LocalPosterior.at(*data, marginals).error)


def test_more_trials_of_many_take_one_factorization_each() -> None:
    n = 400
    more = 20
    torch.manual_seed(1)
    X = torch.rand(n + more, 2, dtype=torch.double)
    Y = torch.bernoulli(X[:, :1])
    model = BinaryGP(X[:n], Y[:n], covar_module=simple_kernel()).eval()
    with torch.no_grad(), counted_factorizations() as sizes:
        moments(model)
        del sizes[:]
        found = []
        for i in range(n, n + more):
            model = model.condition_on_observations(X[i : i + 1], Y[i : i + 1])
            assert isinstance(model.approximation, SiteApproximation)
            found.append(model.approximation)
        assert sizes == list(range(n + 1, n + more + 1))
    assert max(map(site_error, found)) < 1e-5  # the tolerance
