r"""Stock variational inference on our likelihoods."""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from gpytorch.mlls import VariationalELBO
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy
from torch import Tensor

from botorch_binary_context import PreferenceLikelihood, ProbitLikelihood
from tests.closeness import assert_all_close
from tests.tensors import uniform


class SmallVariationalGP(ApproximateGP):
    def __init__(self, inducing: Tensor) -> None:
        distribution = CholeskyVariationalDistribution(inducing.shape[-2])
        strategy = VariationalStrategy(
            self, inducing, distribution, learn_inducing_locations=False
        )
        super().__init__(strategy)
        self.mean_module = ConstantMean()
        self.covar_module = ScaleKernel(RBFKernel())

    def forward(self, x: Tensor) -> MultivariateNormal:
        mean: Any = self.mean_module(x)
        return MultivariateNormal(mean, self.covar_module(x))


class TestVariationalELBO:
    def train(
        self, likelihood: ProbitLikelihood, rows: Tensor, labels: Tensor
    ) -> SmallVariationalGP:
        model = SmallVariationalGP(uniform(10, 1, seed=3)).double()
        mll = VariationalELBO(likelihood, model, num_data=rows.shape[0])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        values = []
        for _ in range(60):
            optimizer.zero_grad()
            value: Any = mll(model(rows), labels)
            (-value).backward()
            optimizer.step()
            values.append(value.item())
        assert values[-1] > values[0] + 0.05
        self.check_value(mll, model, rows, labels)
        return model.eval()

    def check_value(
        self, mll: VariationalELBO, model: Any, rows: Tensor, labels: Tensor
    ) -> None:
        """The bound is the sum over trials of the fit, less the divergence."""
        latent = model(rows)
        likelihood: Any = mll.likelihood
        fit = likelihood.expected_log_prob(labels, latent)
        assert fit.shape == labels.shape
        divergence = model.variational_strategy.kl_divergence()
        value: Any = mll(latent, labels)
        assert_all_close(value * rows.shape[0], fit.sum() - divergence, rtol=1e-10)

    def test_outcomes_are_predicted_after_training(self) -> None:
        X = uniform(40, 1)
        labels = (X > 0.5).double().squeeze(-1)
        for rates in ((0.0, 0.0), (1 / 26, 0.0)):
            likelihood = ProbitLikelihood(*rates)
            model = self.train(likelihood, X, labels)
            predicted: Any = likelihood(model(X))
            right = (predicted.probs > 0.5).double() == labels
            assert float(right.double().mean()) > 0.9

    def test_duels_are_predicted_after_training(self) -> None:
        pairs = uniform(40, 2, 1)
        labels = (pairs[:, 0, 0] > pairs[:, 1, 0]).double()
        likelihood = PreferenceLikelihood()
        model = self.train(likelihood, pairs.flatten(0, 1), labels)
        predicted: Any = likelihood(model(pairs.flatten(0, 1)))
        assert predicted.probs.shape == (40,)
        right = (predicted.probs > 0.5).double() == labels
        assert float(right.double().mean()) > 0.9
        grid = torch.linspace(0.1, 0.9, 5, dtype=torch.double).unsqueeze(-1)
        value = model(grid).mean
        assert bool((value.diff() > 0).all())
