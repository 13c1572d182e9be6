from __future__ import annotations

from typing import Any

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ConstantKernel

from botorch_binary_context import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
)
from botorch_binary_context.models.defaults import (
    binary_covar_module,
    default_covar_module,
    duel_covar_module,
    offset_covar_module,
)
from tests.closeness import assert_all_close
from tests.latent_posteriors import latent
from tests.small_models import AnyModel, random_trials
from tests.tensors import uniform


def offsets(model: AnyModel) -> list[ConstantKernel]:
    return [k for k in model.modules() if isinstance(k, ConstantKernel)]


class TestBinaryKernel:
    def test_is_the_default_and_a_constant(self) -> None:
        for batch_shape in ((), (3,)):
            X = uniform(*batch_shape, 5, 2)
            shape = torch.Size(batch_shape)
            smooth = default_covar_module(2, shape).to(X)(X).to_dense()
            binary = binary_covar_module(2, shape).to(X)(X).to_dense()
            assert_all_close(binary, smooth + 4.0)
            offset = offset_covar_module(2.5, shape).to(X)(X).to_dense()
            assert_all_close(offset, torch.full_like(smooth, 2.5))

    def test_which_models_have_an_offset(self) -> None:
        """Duels tell nothing about it."""
        binary = BinaryLaplaceGP(*random_trials(BinaryLaplaceGP, 5))
        assert len(offsets(binary)) == 1
        duels = PreferenceLaplaceGP(*random_trials(PreferenceLaplaceGP, 5))
        assert offsets(duels) == []

    def test_stays_as_it_is(self) -> None:
        model = BinaryLaplaceGP(*random_trials(BinaryLaplaceGP, 20))
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        (offset,) = offsets(model)
        assert_all_close(offset.constant.item(), 4.0)

    def test_failures_everywhere(self) -> None:
        """Whoever failed wherever tested is expected to fail elsewhere, too."""
        X = 0.5 * uniform(20, 2)
        for label, sign in ((0.0, -1.0), (1.0, 1.0)):
            model = BinaryLaplaceGP(X, torch.full_like(X[:, :1], label)).eval()
            far = latent(model, torch.ones(1, 2).to(X)).mean.item()
            assert sign * far > 1.0


class TestDuelKernel:
    def test_differs_by_its_prior_alone(self) -> None:
        for batch_shape in ((), (3,)):
            X = uniform(*batch_shape, 5, 2)
            shape = torch.Size(batch_shape)
            kernel = duel_covar_module(2, shape).to(X)
            default = default_covar_module(2, shape).to(X)
            assert_all_close(kernel(X).to_dense(), default(X).to_dense())
            prior: Any = kernel.base_kernel.lengthscale_prior
            at = torch.tensor(1.2, dtype=X.dtype)
            # The density of a log-normal number times the number is highest there.
            peak = prior.log_prob(at) + at.log()
            for other in (0.9 * at, 1.1 * at):
                assert prior.log_prob(other) + other.log() < peak
        duels = PreferenceLaplaceGP(*random_trials(PreferenceLaplaceGP, 5))
        trained: Any = duels.covar_module
        found = trained.base_kernel.lengthscale_prior
        assert_all_close(found.loc.exp().item(), 1.2, rtol=1e-5)
