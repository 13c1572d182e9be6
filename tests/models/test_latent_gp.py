r"""What both models share: everything here is true of outcomes and of duels."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from botorch import settings
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from gpytorch.means import ConstantMean
from torch import Tensor
from torch.autograd import gradgradcheck

from botorch_binary_context import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    ProbitLikelihood,
)
from tests.closeness import assert_all_close
from tests.derivatives import finite_difference, jacobian
from tests.latent_posteriors import (
    assert_same_posterior,
    label_posterior,
    latent,
    latent_covariance,
)
from tests.small_models import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    element,
    join_rows,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


# --------------------------------------------------------------------------- batches


class TestBatch:
    def assert_equals_loop(self, model: AnyModel) -> None:
        batch_shape = model.batch_shape
        X = uniform(*batch_shape, 4, 2, seed=3)
        mean = latent(model, X).mean
        covariance = latent_covariance(model, X)
        probability = model.probability_posterior(X)
        approximation = model.laplace_approximation
        for index in np.ndindex(*batch_shape):
            single = element(model, index)
            expected = single.laplace_approximation
            single_probability = single.probability_posterior(X[index])
            for found, wanted in (
                (mean[index], latent(single, X[index]).mean),
                (covariance[index], latent_covariance(single, X[index])),
                (probability.mean[index], single_probability.mean),
                (probability.variance[index], single_probability.variance),
                (approximation.mode[index], expected.mode),
                (approximation.log_evidence[index], expected.log_evidence),
            ):
                assert_all_close(found, wanted, rtol=0, atol=1e-10)

    def test_equals_loop(self, subtests: pytest.Subtests) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((1,), (3,), (2, 3)):
                for kernel_shape in ((), batch_shape):
                    with subtests.test(
                        batch_shape=batch_shape, kernel_shape=kernel_shape
                    ):
                        mean_module = ConstantMean(batch_shape=torch.Size(kernel_shape))
                        mean_module.constant = uniform(*kernel_shape, seed=9)
                        model = random_model(
                            model_class,
                            batch_shape=batch_shape,
                            covar_module=simple_kernel(batch_shape=kernel_shape),
                            mean_module=mean_module,
                        )
                        assert model.batch_shape == batch_shape
                        self.assert_equals_loop(model)

    def test_equals_loop_with_rates(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.1, lapse_rate=0.05)
        model = random_model(BinaryLaplaceGP, batch_shape=(3,), likelihood=likelihood)
        self.assert_equals_loop(model)

    def test_t_batches(self) -> None:
        # Any leading dimensions of X, broadcast with the batch of the model.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(2, 3))
            X = uniform(5, 4, 2, 3, 2, 2, seed=3)
            mean = latent(model, X).mean
            covariance = latent_covariance(model, X)
            assert mean.shape == (5, 4, 2, 3, 2, 1)
            for index in ((0, 0), (4, 3)):
                found = latent(model, X[index])
                assert_all_close(mean[index], found.mean)
                found_covariance = latent_covariance(model, X[index])
                assert_all_close(covariance[index], found_covariance)

    def test_points_are_shared_by_the_batch(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(2, 3))
            X = uniform(4, 2, seed=3)
            for shape in ((), (1,), (3,), (2, 1), (7, 1, 1)):
                found = latent(model, X.expand(*shape, 4, 2)).mean
                expected = latent(model, X.expand(2, 3, 4, 2)).mean
                assert_all_close(found, expected.expand(found.shape))

    def test_one_point_at_a_time_equals_jointly(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(6, 2, seed=3)
            jointly = latent(model, X)
            apart = latent(model, X.unsqueeze(-2))
            assert_all_close(jointly.mean, apart.mean.squeeze(-1))
            assert_all_close(jointly.variance, apart.variance.squeeze(-1))


# ------------------------------------------------------------------------- gradients


def moment(name: str, posterior: Any) -> Tensor:
    """The mean or the variance of a posterior, as a ``... x n`` tensor."""
    return getattr(posterior, name).squeeze(-1)


def assert_gradient(func: Callable[[Tensor], Tensor], x: Tensor) -> None:
    """Autograd and finite differences agree (to a hundredth of what is asked)."""
    expected = finite_difference(func, x)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(jacobian(func, x), expected, rtol=0, atol=1e-8)


@both_models
@pytest.mark.parametrize("name", ["mean", "variance"])
class TestGradient:
    def test_of_posterior_in_X(self, model_class: ModelClass, name: str) -> None:
        model = random_model(model_class)
        assert_gradient(
            lambda X: moment(name, model.posterior(X)), uniform(2, 2, seed=3)
        )
        assert_gradient(
            lambda X: moment(name, model.probability_posterior(X)),
            uniform(2, 2, seed=3),
        )

    def test_of_batched_posterior_in_X(
        self, model_class: ModelClass, name: str
    ) -> None:
        model = random_model(model_class, batch_shape=(2,))
        X = uniform(3, 2, 1, 2, seed=3)
        assert_gradient(lambda X: moment(name, model.posterior(X)), X)

    def test_in_a_conditioned_location(
        self, model_class: ModelClass, name: str
    ) -> None:
        model = random_model(model_class)
        X, Y = random_trials(model_class, 2, seed=5)
        test_X = uniform(3, 2, seed=3)

        def value(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return moment(name, conditioned.posterior(test_X))

        assert_gradient(value, X)

    def test_in_a_conditioned_location_in_batches(
        self, model_class: ModelClass, name: str
    ) -> None:
        model = random_model(model_class, batch_shape=(2,))
        X, Y = random_trials(model_class, 1, batch_shape=(3, 2), seed=5)

        def value(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return moment(name, conditioned.posterior(uniform(2, 2, seed=3)))

        assert_gradient(value, X)

    def test_in_a_conditioned_location_through_a_transform(
        self, model_class: ModelClass, name: str
    ) -> None:
        transform = Normalize(2, bounds=double([[-1.0, -2.0], [1.0, 3.0]]))
        model = random_model(model_class, input_transform=transform)
        X, Y = random_trials(model_class, 1, seed=5)

        def value(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return moment(name, conditioned.posterior(uniform(2, 2, seed=3)))

        assert_gradient(value, X)

    def test_in_a_chain_of_conditioned_locations(
        self, model_class: ModelClass, name: str
    ) -> None:
        model = random_model(model_class)
        X, Y = random_trials(model_class, 2, seed=5)

        def value(X: Tensor) -> Tensor:
            first = model.condition_on_observations(X[:1], Y[:1])
            first.posterior(uniform(1, 2))
            second = first.condition_on_observations(X[1:], Y[1:])
            return moment(name, second.posterior(uniform(2, 2, seed=3)))

        assert_gradient(value, X)

    def test_in_training_inputs(self, model_class: ModelClass, name: str) -> None:
        X, Y = random_trials(model_class, 4)

        def value(X: Tensor) -> Tensor:
            model = model_class(X, Y, covar_module=simple_kernel())
            return moment(name, model.posterior(uniform(2, 2, seed=3)))

        assert_gradient(value, X)

    def test_in_hyperparameters_if_asked(
        self, model_class: ModelClass, name: str
    ) -> None:
        model = random_model(model_class)
        kernel: Any = model.covar_module
        X = uniform(3, 2, seed=3)
        model.posterior(X)  # a cache without a graph must not be in the way
        raw = kernel.raw_outputscale

        def value(parameter: Tensor) -> Tensor:
            copy = deepcopy(model)
            copy.load_state_dict(
                {**copy.state_dict(), "covar_module.raw_outputscale": parameter}
            )
            return moment(name, copy.posterior(X)).sum()

        expected = finite_difference(value, raw.detach())
        for _ in range(2):  # and the graph is not kept for the next time
            with settings.propagate_grads(True):
                total = moment(name, model.posterior(X)).sum()
            (found,) = torch.autograd.grad(total, raw)
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)

    def test_double_backward(self, model_class: ModelClass, name: str) -> None:
        model = random_model(model_class, n=4)
        X, Y = random_trials(model_class, 1, seed=5)

        def in_X(test_X: Tensor) -> Tensor:
            return moment(name, model.posterior(test_X))

        def in_conditioned(X: Tensor) -> Tensor:
            conditioned = model.condition_on_observations(X, Y)
            return moment(name, conditioned.posterior(uniform(1, 2, seed=3)))

        test_X = uniform(2, 2, seed=4).requires_grad_()
        assert gradgradcheck(in_X, (test_X,), atol=1e-6, rtol=1e-5)
        assert gradgradcheck(
            in_conditioned, (X.requires_grad_(),), atol=1e-6, rtol=1e-5
        )


# ---------------------------------------------------------------------- conditioning


class TestConditionOnObservations:
    def test_equals_a_model_of_all_data(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,), (2, 3)):
                X, Y = random_trials(model_class, 10, batch_shape=batch_shape)
                kernel = simple_kernel(batch_shape=batch_shape)
                event = X.ndim - len(batch_shape)
                old_X, new_X = X.split([7, 3], dim=-event)
                old_Y, new_Y = Y.split([7, 3], dim=-2)
                model = model_class(old_X, old_Y, covar_module=kernel)
                full = model_class(X, Y, covar_module=kernel)
                test_X = uniform(*batch_shape, 4, 2, seed=3)
                cold = model.condition_on_observations(new_X, new_Y)
                assert_same_posterior(cold, full, test_X)
                model.posterior(test_X)  # now the mode is known: a warm start
                warm = model.condition_on_observations(new_X, new_Y)
                assert_same_posterior(warm, full, test_X)
                assert_all_close(
                    warm.laplace_approximation.log_evidence,
                    full.laplace_approximation.log_evidence,
                    rtol=0,
                    atol=1e-10,
                )

    def test_leaves_the_model_alone(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(3, 2, seed=3)
            before = latent(model, X).mean
            conditioned = model.condition_on_observations(
                *random_trials(model_class, 2, seed=5)
            )
            conditioned.posterior(X)
            assert_all_close(latent(model, X).mean, before)
            assert model.train_targets.shape == (8,)
            assert conditioned.train_targets.shape == (10,)
            assert type(conditioned) is model_class

    def test_extra_batch_dimensions(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,)):
                model = random_model(model_class, batch_shape=batch_shape)
                shape = (4, 2, *batch_shape)
                X, Y = random_trials(model_class, 2, batch_shape=shape, seed=5)
                conditioned = model.condition_on_observations(X, Y)
                assert conditioned.batch_shape == shape
                test_X = uniform(3, 2, seed=3)
                found = latent(conditioned, test_X).mean
                assert found.shape == (*shape, 3, 1)
                for index in ((0, 0), (3, 1)):
                    single = model.condition_on_observations(X[index], Y[index])
                    expected = latent(single, test_X).mean
                    assert_all_close(found[index], expected, rtol=0, atol=1e-10)

    def test_labels_with_more_dimensions_than_trials(self) -> None:
        # As in a fantasy: many outcomes of the same trials.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, _ = random_trials(model_class, 1, seed=5)
            Y = double([0.0, 1.0]).reshape(2, 1, 1)
            conditioned = model.condition_on_observations(X, Y)
            assert conditioned.batch_shape == (2,)
            shown = join_rows(model, X)
            failed, passed = label_posterior(conditioned, shown).mean.flatten()
            assert passed.item() > failed.item()

    def test_batch_broadcasts_over_new_trials(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(3,))
            X, Y = random_trials(model_class, 2, seed=5)
            conditioned = model.condition_on_observations(X, Y)
            assert conditioned.batch_shape == (3,)
            test_X = uniform(3, 4, 2, seed=3)
            for i in range(3):
                single = element(model, (i,)).condition_on_observations(X, Y)
                assert_all_close(
                    latent(conditioned, test_X).mean[i],
                    latent(single, test_X[i]).mean,
                    rtol=0,
                    atol=1e-10,
                )

    def test_from_no_trials(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 5)
            kernel = simple_kernel()
            empty = model_class(X[:0], Y[:0], covar_module=kernel)
            conditioned = empty.condition_on_observations(X, Y)
            full = model_class(X, Y, covar_module=kernel)
            assert_same_posterior(conditioned, full, uniform(3, 2, seed=3))

    def test_keeps_hyperparameters_and_parts(self) -> None:
        likelihood = ProbitLikelihood(guess_rate=0.1)
        model = random_model(BinaryLaplaceGP, likelihood=likelihood)
        conditioned = model.condition_on_observations(
            *random_trials(BinaryLaplaceGP, 1, seed=5)
        )
        assert conditioned.likelihood.guess_rate == 0.1
        for name, value in model.state_dict().items():
            assert torch.equal(conditioned.state_dict()[name], value)

    def test_new_model_can_be_trained(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 12)
            model = model_class(X[:8], Y[:8])
            conditioned = model.condition_on_observations(X[8:], Y[8:])
            full = model_class(X, Y)
            for m in (conditioned, full):
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(m.likelihood, m))
            test_X = uniform(3, 2, seed=3)
            assert_all_close(
                latent(conditioned, test_X).mean, latent(full, test_X).mean, atol=1e-4
            )


# -------------------------------------------------------------------- parts for others


class TestParts:
    def test_posterior_mean(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (2, 3)):
                model = random_model(
                    model_class,
                    batch_shape=batch_shape,
                    mean_module=ConstantMean(),
                    input_transform=Normalize(2),
                )
                constant: Any = model.mean_module
                constant.constant = double(0.3)
                X = uniform(4, *batch_shape, 3, 2, seed=3)
                expected = latent(model, X).mean.squeeze(-1)
                model.train()
                assert_all_close(model.posterior_mean(X), expected)

    def test_datapoints_are_the_rows_before_and_after_the_transform(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, input_transform=Normalize(2))
            rows = join_rows(model, model.train_inputs[0])
            for m in (model.train(), model.eval()):
                assert torch.equal(m.original_datapoints, rows)
            transformed = model.transform_inputs(rows)
            assert_all_close(model.datapoints, transformed)

    def test_prior_covariance(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(3,))
            prior: Any = model.train()(*model.train_inputs)
            K = model.laplace_approximation.prior_covariance
            assert_all_close(K, prior.covariance_matrix)

    def test_evaluation_without_a_graph_does_not_cut_the_next(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 5)
            model = model_class(X.requires_grad_(), Y, covar_module=simple_kernel())
            test_X = uniform(2, 2, seed=3)
            with torch.no_grad():
                without = latent(model, test_X).mean
            with_graph = latent(model, test_X).mean
            assert_all_close(without, with_graph)
            gradient = torch.autograd.grad(with_graph.sum(), X)[0]
            assert gradient.abs().max().item() > 0
