r"""Tests of the prior that many lengthscales share."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from torch.distributions import MultivariateNormal

from botorch_binary_context.models.priors import PooledLogNormalPrior
from tests.tensors import double, uniform

LOC, COMMON, OWN = -0.5, 0.6, 0.2


def reference(k: int) -> MultivariateNormal:
    """The distribution of the logarithms."""
    covar = COMMON**2 * torch.ones(k, k).double() + OWN**2 * torch.eye(k).double()
    return MultivariateNormal(torch.full((k,), LOC).double(), covar)


@pytest.mark.parametrize("k", [1, 2, 7])
def test_density_is_that_of_a_multivariate_log_normal(k: int) -> None:
    x = 0.2 + uniform(3, 1, k)
    expected = reference(k).log_prob(x.log()) - x.log().sum(dim=-1)
    found = PooledLogNormalPrior(LOC, COMMON, OWN).log_prob(x)
    torch.testing.assert_close(found, expected)


def test_samples_have_the_mean_and_covariance_they_should() -> None:
    """Logarithms have the variance and the correlation they should."""
    torch.manual_seed(0)
    logs = PooledLogNormalPrior(LOC, COMMON, OWN).rsample(torch.Size([40_000, 3])).log()
    torch.testing.assert_close(logs.mean(dim=0), double([LOC] * 3), atol=0.015, rtol=0)
    torch.testing.assert_close(
        logs.T.cov(), reference(3).covariance_matrix, atol=0.012, rtol=0
    )


def test_shrinks_together() -> None:
    """A common change costs less than one of a single lengthscale."""
    prior = PooledLogNormalPrior(0.0, COMMON, OWN)
    one = torch.ones(8).double()
    all_of_them = torch.full((8,), 2.0).double()
    one[0] = 2.0
    # In logarithms, without the change of variables.
    densities = [float(prior.log_prob(x) + x.log().sum()) for x in (one, all_of_them)]
    assert densities[0] < densities[1] - 2.0


def test_as_a_prior_of_a_kernel() -> None:
    prior = PooledLogNormalPrior(math.log(0.4), COMMON, OWN)
    kernel = RBFKernel(ard_num_dims=3, lengthscale_prior=prior).double()
    kernel.initialize(lengthscale=0.4)
    (_, module, found, closure, _) = next(iter(kernel.named_priors()))
    assert found.log_prob(closure(module)).shape == (1,)


@pytest.mark.parametrize(("common", "own"), [(-0.1, 0.2), (0.1, 0.0)])
def test_refuses_scales_that_are_not_positive(common: float, own: float) -> None:
    with pytest.raises(InputDataError, match="``own`` to be positive, but got"):
        PooledLogNormalPrior(0.0, common, own)
