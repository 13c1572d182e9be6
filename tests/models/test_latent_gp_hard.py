r"""Hard but legal data, and what holds for any data, for both models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from gpytorch.means import ConstantMean
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    ProbitLikelihood,
)
from tests.latent_posteriors import (
    assert_same_posterior,
    label_posterior,
    latent,
    latent_covariance,
)
from tests.small_models import (
    MODEL_CLASSES,
    UNIT,
    AnyModel,
    ModelClass,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.strategies import binary_data, duel_data
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def assert_sound(model: AnyModel, X: Tensor | None = None) -> None:
    """Finite moments, positive variances and probabilities between 0 and 1."""
    X = uniform(*model.batch_shape, 6, 2, seed=3) if X is None else X
    points = X.movedim(-2, 0).unsqueeze(-2)
    pairs = X.unflatten(-2, (-1, 2)).movedim(-3, 0)
    for posterior in (latent(model, X), latent(model, points)):
        assert posterior.mean.isfinite().all()
        assert posterior.variance.isfinite().all()
        assert (posterior.variance > 0).all()
    for posterior in (
        model.probability_posterior(X),
        model.probability_posterior(pairs),
    ):
        assert posterior.mean.isfinite().all()
        assert ((posterior.mean >= 0) & (posterior.mean <= 1)).all()
        assert posterior.variance.isfinite().all()
        assert (posterior.variance >= 0).all()
    model.eval()
    assert model.laplace_approximation.mode.isfinite().all()
    assert model.laplace_approximation.log_evidence.isfinite().all()
    X = X.clone().requires_grad_()
    total = latent(model, X).mean.sum() + latent(model, X).variance.sum()
    assert torch.autograd.grad(total, X)[0].isfinite().all()


@both_models
class TestHardData:
    @pytest.mark.parametrize("value", [0.0, 1.0])
    def test_one_kind_of_label(self, model_class: ModelClass, value: float) -> None:
        X, Y = random_trials(model_class, 30)
        model = model_class(X, torch.full_like(Y, value), covar_module=simple_kernel())
        assert_sound(model)
        before, after = fit_default(model_class, X, torch.full_like(Y, value))
        assert after > before

    def test_copies_of_one_trial(self, model_class: ModelClass) -> None:
        X, Y = random_trials(model_class, 1)
        X = X.expand(200, *X.shape[1:])
        Y = Y.expand(200, 1)
        for labels in (Y, 1 - Y, (torch.arange(200) % 2).double().unsqueeze(-1)):
            assert_sound(model_class(X, labels, covar_module=simple_kernel()))
        before, after = fit_default(model_class, X, Y)
        assert after > before

    def test_one_trial(self, model_class: ModelClass) -> None:
        X, Y = random_trials(model_class, 1)
        for labels in (Y, 1 - Y):
            assert_sound(model_class(X, labels, covar_module=simple_kernel()))
            fit_default(model_class, X, labels)

    @pytest.mark.parametrize("batch_shape", [(), (3,)])
    def test_no_trials_leave_the_prior(
        self, model_class: ModelClass, batch_shape: tuple[int, ...]
    ) -> None:
        X, Y = random_trials(model_class, 0, batch_shape=batch_shape)
        kernel = simple_kernel(batch_shape=batch_shape)
        mean_module = ConstantMean()
        mean_module.constant = double(0.3)
        for transform in (None, Normalize(2, bounds=double(UNIT))):
            model = model_class(
                X,
                Y,
                covar_module=kernel,
                mean_module=mean_module,
                input_transform=transform,
            )
            assert_sound(model)
            test_X = uniform(*batch_shape, 4, 2, seed=3)
            prior = kernel(test_X).to_dense()
            torch.testing.assert_close(latent_covariance(model, test_X), prior)
            mean = latent(model, test_X).mean
            torch.testing.assert_close(mean, torch.full_like(mean, 0.3))
            label_posterior(model, test_X).rsample(torch.Size([3]))

    @pytest.mark.parametrize("factor", [1e6, 1e-6])
    def test_scaled_inputs(self, model_class: ModelClass, factor: float) -> None:
        X, Y = random_trials(model_class, 20)
        kernel = simple_kernel()
        assert_sound(model_class(factor * X, Y, covar_module=kernel), factor * X_TEST)
        kernel.base_kernel.lengthscale = kernel.base_kernel.lengthscale * factor
        scaled = model_class(factor * X, Y, covar_module=kernel)
        plain = model_class(X, Y, covar_module=simple_kernel())
        means = latent(scaled, factor * X_TEST).mean, latent(plain, X_TEST).mean
        torch.testing.assert_close(*means, rtol=1e-6, atol=1e-9)

    def test_scaled_inputs_with_the_default_kernel(
        self, model_class: ModelClass
    ) -> None:
        X, Y = random_trials(model_class, 20)
        with pytest.warns(InputDataWarning, match="not contained to the unit cube"):
            model = model_class(1e6 * X, Y)
        assert_sound(model, 1e6 * X_TEST)

    @pytest.mark.parametrize("lengthscale", [1e-4, 1e-2, 1e2, 1e4])
    @pytest.mark.parametrize("outputscale", [1e-4, 1.0, 1e4, 1e8])
    def test_extreme_hyperparameters(
        self, model_class: ModelClass, lengthscale: float, outputscale: float
    ) -> None:
        X, Y = random_trials(model_class, 20)
        kernel = simple_kernel()
        kernel.base_kernel.lengthscale = double(lengthscale)
        kernel.outputscale = double(outputscale)
        for labels in (Y, torch.ones_like(Y), torch.zeros_like(Y)):
            assert_sound(model_class(X, labels, covar_module=kernel))

    def test_latent_values_past_thirty(self, model_class: ModelClass) -> None:
        # The prior mean says fail, and by how much; the label says pass.
        X, Y = random_trials(model_class, 10)
        likelihood = ProbitLikelihood()
        for constant in (-40.0, 40.0):
            if model_class is BinaryLaplaceGP:
                mean_module = ConstantMean()
                mean_module.constant = double(constant)
                for outputscale in (1e-2, 1.0, 1e4):
                    kernel = simple_kernel()
                    kernel.outputscale = double(outputscale)
                    model = BinaryLaplaceGP(
                        X,
                        Y,
                        likelihood=likelihood,
                        covar_module=kernel,
                        mean_module=mean_module,
                    )
                    assert_sound(model)
                    model.eval()
                    if outputscale < 1e-1:
                        assert (model.laplace_approximation.mode.abs() > 30).any()
        kernel = simple_kernel()
        kernel.outputscale = double(1e10)
        model = model_class(X, Y, covar_module=kernel)
        assert_sound(model)
        assert latent(model, X_TEST).variance.max().sqrt() > 30

    def test_many_close_points_at_once(self, model_class: ModelClass) -> None:
        # A line of the plot of a posterior: a singular joint covariance.
        model = random_model(model_class)
        X = torch.linspace(0, 1, 200).double().unsqueeze(-1).expand(200, 2)
        posterior = latent(model, X)
        assert (posterior.variance > 0).all()
        apart = latent(model, X.unsqueeze(-2)).variance.squeeze(-1)
        torch.testing.assert_close(posterior.variance, apart, rtol=0, atol=1e-10)
        assert_sound(model, torch.zeros(6, 2).double())


X_TEST = uniform(6, 2, seed=3)


def fit_default(model_class: ModelClass, X: Tensor, Y: Tensor) -> tuple[float, float]:
    """The objective before and after a fit of the default hyperparameters."""
    model = model_class(X, Y)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)

    def objective() -> float:
        model.train()
        value: Any = mll(model(*model.train_inputs), model.train_targets)
        return value.item()

    before = objective()
    fit_gpytorch_mll(mll)
    assert_sound(model)
    return before, objective()


# ------------------------------------------------------------------------- properties


def trials(model_class: ModelClass, batched: bool = False) -> Any:
    if model_class is BinaryLaplaceGP:
        return binary_data(batched=batched)
    return duel_data(batched=batched)


@both_models
class TestProperties:
    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_posterior_is_sound(self, model_class: ModelClass, data: Any) -> None:
        X, Y = data.draw(trials(model_class, batched=True))
        dim = X.shape[-1]
        model = model_class(X, Y, covar_module=simple_kernel(dim))
        assert_sound(model, uniform(*model.batch_shape, 4, dim, seed=3))

    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_data_reduces_the_variance(
        self, model_class: ModelClass, data: Any
    ) -> None:
        X, Y = data.draw(trials(model_class))
        dim = X.shape[-1]
        model = model_class(X, Y, covar_module=simple_kernel(dim))
        prior: Any = simple_kernel(dim).outputscale
        variance = latent(model, uniform(4, dim, seed=3)).variance
        assert (variance <= prior + 1e-12).all()

    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_order_of_trials_does_not_matter(
        self, model_class: ModelClass, data: Any
    ) -> None:
        X, Y = data.draw(trials(model_class))
        order = torch.tensor(data.draw(st.permutations(range(len(Y)))))
        kernel = simple_kernel(X.shape[-1])
        model = model_class(X, Y, covar_module=kernel)
        shuffled = model_class(X[order], Y[order], covar_module=kernel)
        assert_same_posterior(model, shuffled, uniform(4, X.shape[-1], seed=3))

    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_batch_equals_loop(self, model_class: ModelClass, data: Any) -> None:
        X, Y = data.draw(trials(model_class, batched=True))
        kernel = simple_kernel(X.shape[-1])
        model = model_class(X, Y, covar_module=kernel)
        test_X = uniform(3, X.shape[-1], seed=3)
        mean = latent(model, test_X).mean
        for index in np.ndindex(*model.batch_shape):
            single = model_class(X[index], Y[index], covar_module=kernel)
            torch.testing.assert_close(
                mean[index], latent(single, test_X).mean, rtol=0, atol=1e-10
            )

    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_flipping_all_labels_flips_the_sign(
        self, model_class: ModelClass, data: Any
    ) -> None:
        X, Y = data.draw(trials(model_class))
        kernel = simple_kernel(X.shape[-1])
        test_X = uniform(4, X.shape[-1], seed=3)
        mean = latent(model_class(X, Y, covar_module=kernel), test_X).mean
        flipped = latent(model_class(X, 1 - Y, covar_module=kernel), test_X).mean
        torch.testing.assert_close(mean, -flipped, rtol=0, atol=1e-10)

    @hypothesis_settings(max_examples=20)
    @given(data=st.data())
    def test_conditioning_one_by_one_equals_all_at_once(
        self, model_class: ModelClass, data: Any
    ) -> None:
        X, Y = data.draw(trials(model_class))
        kernel = simple_kernel(X.shape[-1])
        test_X = uniform(4, X.shape[-1], seed=3)
        model = model_class(X[:0], Y[:0], covar_module=kernel)
        for i in range(len(Y)):
            model.posterior(test_X)
            model = model.condition_on_observations(X[i : i + 1], Y[i : i + 1])
        full = model_class(X, Y, covar_module=kernel)
        assert_same_posterior(model, full, test_X)
