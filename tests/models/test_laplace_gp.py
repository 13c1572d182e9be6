r"""What both models share: everything here is true of outcomes and of duels."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from botorch import settings
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelList
from botorch.models.transforms import Normalize
from gpytorch.means import ConstantMean
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradgradcheck

from botorch_binary_context import (
    BinaryLaplaceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
    ProbitLikelihood,
)
from tests.helpers import (
    MODEL_CLASSES,
    AnyModel,
    ModelClass,
    RequireDevice,
    StrictTestCase,
    double,
    finite_difference,
    jacobian,
    join_rows,
    label_posterior,
    latent,
    latent_covariance,
    random_model,
    random_trials,
    simple_kernel,
    uniform,
)
from tests.strategies import binary_data, duel_data

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def element(model: AnyModel, index: tuple[int, ...]) -> AnyModel:
    """One element of a batch of models of ``random_model``, on its own."""
    batched: Any = model.covar_module
    kernel = simple_kernel(model.train_inputs[0].shape[-1])
    if batched.outputscale.ndim:
        batched_scale, batched_length = batched.outputscale, batched.base_kernel
        kernel.outputscale = batched_scale[index].detach()
        kernel.base_kernel.lengthscale = batched_length.lengthscale[index].detach()
    mean_module: Any = ConstantMean().double()
    constant: Any = getattr(model.mean_module, "constant", double(0.0))
    mean_module.constant = (constant[index] if constant.ndim else constant).detach()
    return type(model)(
        model.train_inputs[0][index],
        model.train_targets[index].unsqueeze(-1),
        likelihood=model.likelihood,  # pyright: ignore[reportArgumentType]
        covar_module=kernel,
        mean_module=mean_module,
    )


def assert_same_posterior(
    first: AnyModel, second: AnyModel, X: Tensor, second_X: Tensor | None = None
) -> None:
    """Both moments of the latent posterior agree to 1e-10."""
    second_X = X if second_X is None else second_X
    means = latent(first, X).mean, latent(second, second_X).mean
    torch.testing.assert_close(*means, rtol=0, atol=1e-10)
    covariances = latent_covariance(first, X), latent_covariance(second, second_X)
    torch.testing.assert_close(*covariances, rtol=0, atol=1e-10)


# --------------------------------------------------------------------------- batches


class TestBatch(StrictTestCase):
    def assert_equals_loop(self, model: AnyModel) -> None:
        batch_shape = model.batch_shape
        X = uniform(*batch_shape, 4, 2, seed=3)
        mean, covariance = latent(model, X).mean, latent_covariance(model, X)
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
                self.assertAllClose(found, wanted, rtol=0, atol=1e-10)

    def test_equals_loop(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((1,), (3,), (2, 3)):
                for kernel_shape in ((), batch_shape):
                    with self.subTest(batch_shape, kernel_shape=kernel_shape):
                        mean_module = ConstantMean(batch_shape=torch.Size(kernel_shape))
                        mean_module.constant = uniform(*kernel_shape, seed=9)
                        model = random_model(
                            model_class,
                            batch_shape=batch_shape,
                            covar_module=simple_kernel(batch_shape=kernel_shape),
                            mean_module=mean_module,
                        )
                        self.assertEqual(model.batch_shape, batch_shape)
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
            mean, covariance = latent(model, X).mean, latent_covariance(model, X)
            self.assertEqual(mean.shape, (5, 4, 2, 3, 2, 1))
            for index in ((0, 0), (4, 3)):
                found = latent(model, X[index])
                self.assertAllClose(mean[index], found.mean)
                found_covariance = latent_covariance(model, X[index])
                self.assertAllClose(covariance[index], found_covariance)

    def test_points_are_shared_by_the_batch(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(2, 3))
            X = uniform(4, 2, seed=3)
            for shape in ((), (1,), (3,), (2, 1), (7, 1, 1)):
                found = latent(model, X.expand(*shape, 4, 2)).mean
                expected = latent(model, X.expand(2, 3, 4, 2)).mean
                self.assertAllClose(found, expected.expand(found.shape))

    def test_one_point_at_a_time_equals_jointly(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(6, 2, seed=3)
            jointly, apart = latent(model, X), latent(model, X.unsqueeze(-2))
            self.assertAllClose(jointly.mean, apart.mean.squeeze(-1))
            self.assertAllClose(jointly.variance, apart.variance.squeeze(-1))


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


class TestConditionOnObservations(StrictTestCase):
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
                self.assertAllClose(
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
            self.assertAllClose(latent(model, X).mean, before)
            self.assertEqual(model.train_targets.shape, (8,))
            self.assertEqual(conditioned.train_targets.shape, (10,))
            self.assertIs(type(conditioned), model_class)

    def test_extra_batch_dimensions(self) -> None:
        for model_class in MODEL_CLASSES:
            for batch_shape in ((), (3,)):
                model = random_model(model_class, batch_shape=batch_shape)
                shape = (4, 2, *batch_shape)
                X, Y = random_trials(model_class, 2, batch_shape=shape, seed=5)
                conditioned = model.condition_on_observations(X, Y)
                self.assertEqual(conditioned.batch_shape, shape)
                test_X = uniform(3, 2, seed=3)
                found = latent(conditioned, test_X).mean
                self.assertEqual(found.shape, (*shape, 3, 1))
                for index in ((0, 0), (3, 1)):
                    single = model.condition_on_observations(X[index], Y[index])
                    expected = latent(single, test_X).mean
                    self.assertAllClose(found[index], expected, rtol=0, atol=1e-10)

    def test_labels_with_more_dimensions_than_trials(self) -> None:
        # As in a fantasy: many outcomes of the same trials.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, _ = random_trials(model_class, 1, seed=5)
            Y = double([0.0, 1.0]).reshape(2, 1, 1)
            conditioned = model.condition_on_observations(X, Y)
            self.assertEqual(conditioned.batch_shape, (2,))
            shown = join_rows(model, X)
            failed, passed = label_posterior(conditioned, shown).mean.flatten()
            self.assertGreater(passed.item(), failed.item())

    def test_batch_broadcasts_over_new_trials(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(3,))
            X, Y = random_trials(model_class, 2, seed=5)
            conditioned = model.condition_on_observations(X, Y)
            self.assertEqual(conditioned.batch_shape, (3,))
            test_X = uniform(3, 4, 2, seed=3)
            for i in range(3):
                single = element(model, (i,)).condition_on_observations(X, Y)
                self.assertAllClose(
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
        self.assertEqual(conditioned.likelihood.guess_rate, 0.1)
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(conditioned.state_dict()[name], value))

    def test_new_model_can_be_trained(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 12)
            model = model_class(X[:8], Y[:8])
            conditioned = model.condition_on_observations(X[8:], Y[8:])
            full = model_class(X, Y)
            for m in (conditioned, full):
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(m.likelihood, m))
            test_X = uniform(3, 2, seed=3)
            self.assertAllClose(
                latent(conditioned, test_X).mean, latent(full, test_X).mean, atol=1e-4
            )


# -------------------------------------------------------------------- parts for others


class TestParts(StrictTestCase):
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
                self.assertAllClose(model.posterior_mean(X), expected)

    def test_datapoints(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, input_transform=Normalize(2))
            rows = join_rows(model, model.train_inputs[0])
            for m in (model.train(), model.eval()):
                self.assertTrue(torch.equal(m.original_datapoints, rows))
            transformed = model.transform_inputs(rows)
            self.assertAllClose(model.datapoints, transformed)

    def test_training_covariance(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, batch_shape=(3,))
            prior: Any = model.train()(*model.train_inputs)
            self.assertAllClose(model.training_covariance, prior.covariance_matrix)

    def test_evaluation_without_a_graph_does_not_cut_the_next(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 5)
            model = model_class(X.requires_grad_(), Y, covar_module=simple_kernel())
            test_X = uniform(2, 2, seed=3)
            with torch.no_grad():
                without = latent(model, test_X).mean
            with_graph = latent(model, test_X).mean
            self.assertAllClose(without, with_graph)
            gradient = torch.autograd.grad(with_graph.sum(), X)[0]
            self.assertGreater(gradient.abs().max().item(), 0)


# ----------------------------------------------------------------- state and switching


class TestTrainEval(StrictTestCase):
    def test_train_mode_gives_the_prior_of_contrasts(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, mean_module=ConstantMean())
            model.train()
            prior: Any = model(*model.train_inputs)
            rows = join_rows(model, model.train_inputs[0])
            K = simple_kernel()(rows).to_dense()
            if model_class is PreferenceLaplaceGP:
                A = torch.kron(torch.eye(8), double([[1.0, -1.0]]))
                K = A @ K @ A.mT
            self.assertAllClose(prior.covariance_matrix, K)
            self.assertEqual(prior.mean.shape, (8,))

    def test_switching_changes_nothing(self) -> None:
        for model_class in MODEL_CLASSES:
            for transform in (None, Normalize(2)):
                model = random_model(model_class, input_transform=transform)
                X = uniform(3, 2, seed=3)
                before = latent(model, X).mean
                for _ in range(2):
                    model.train()
                    model.eval()
                self.assertAllClose(latent(model, X).mean, before)
                model.train()
                self.assertAllClose(latent(model, X).mean, before)  # posterior evals

    def test_hyperparameters_set_in_train_mode_count(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(3, 2, seed=3)
            model.posterior(X)
            model.train()
            kernel: Any = model.covar_module
            kernel.outputscale = double(7.0)
            model.eval()
            fresh = random_model(model_class, covar_module=kernel)
            assert_same_posterior(model, fresh, X)

    def test_set_train_data(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            test_X = uniform(3, 2, seed=3)
            model.posterior(test_X)
            X, Y = random_trials(model_class, 8, seed=5)
            fresh = model_class(X, Y, covar_module=simple_kernel())
            model.set_train_data(X, Y.squeeze(-1))
            assert_same_posterior(model, fresh, test_X)
            model.set_train_data((X[:3],), Y[:3].squeeze(-1), strict=False)
            fresh = model_class(X[:3], Y[:3], covar_module=simple_kernel())
            assert_same_posterior(model, fresh, test_X)

    def test_set_train_data_messages(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X, Y = random_trials(model_class, 7)
            with self.assertRaisesRegex(InputDataError, "``inputs`` to have shape"):
                model.set_train_data(X)
            with self.assertRaisesRegex(InputDataError, "``targets`` to have shape"):
                model.set_train_data(targets=Y.squeeze(-1))
            same = model.train_inputs[0]
            with self.assertRaisesRegex(InputDataError, "``inputs`` to have dtype"):
                model.set_train_data(same.float())
            with self.assertRaisesRegex(InputDataError, "``targets`` .* got 0.5"):
                model.set_train_data(targets=torch.full_like(model.train_targets, 0.5))


class TestStateDict(StrictTestCase):
    def test_round_trip_onto_other_data(self) -> None:
        for model_class in MODEL_CLASSES:
            source = random_model(model_class, n=6)
            target = random_model(
                model_class, n=9, seed=5, covar_module=changed_kernel()
            )
            X = uniform(3, 2, seed=3)
            target.posterior(X)  # the cache of the old hyperparameters must go
            target.load_state_dict(source.state_dict())
            expected = random_model(model_class, n=9, seed=5)
            assert_same_posterior(target, expected, X)

    def test_through_a_list_of_models(self) -> None:
        sources = [random_model(m, n=6) for m in MODEL_CLASSES]
        targets = [
            random_model(m, n=9, seed=5, covar_module=changed_kernel())
            for m in MODEL_CLASSES
        ]
        X = uniform(3, 2, seed=3)
        target_list = ModelList(*targets)
        target_list.posterior(X)
        target_list.load_state_dict(ModelList(*sources).state_dict())
        for model_class, target in zip(MODEL_CLASSES, targets, strict=True):
            expected = random_model(model_class, n=9, seed=5)
            assert_same_posterior(target, expected, X)

    def test_with_a_learned_transform(self) -> None:
        # The transform is part of the state: training inputs follow it.
        for model_class in MODEL_CLASSES:
            source = random_model(model_class, n=6, input_transform=Normalize(2))
            X = uniform(3, 2, seed=3)
            results = []
            for evaluate_first in (True, False):
                target = random_model(
                    model_class, n=9, seed=5, input_transform=Normalize(2)
                )
                if evaluate_first:
                    target.posterior(X)
                target.load_state_dict(source.state_dict())
                results.append(latent(target, X).mean)
            self.assertAllClose(*results)


def changed_kernel() -> Any:
    kernel = simple_kernel()
    kernel.outputscale = double(9.0)
    kernel.base_kernel.lengthscale = double(0.1)
    return kernel


def copies(model: AnyModel) -> list[AnyModel]:
    return [deepcopy(model), pickle.loads(pickle.dumps(model))]


class TestCopies(StrictTestCase):
    def assert_copies_equal(self, model: AnyModel) -> None:
        X = uniform(3, 2, seed=3)
        for copy in copies(model):
            assert_same_posterior(copy, model, X)
            self.assertIsNot(copy.covar_module, model.covar_module)

    def test_new(self) -> None:
        for model_class in MODEL_CLASSES:
            self.assert_copies_equal(random_model(model_class))

    def test_after_a_posterior(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, input_transform=Normalize(2))
            model.posterior(uniform(3, 2).requires_grad_())
            self.assert_copies_equal(model)

    def test_after_a_posterior_with_gradients(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            with settings.propagate_grads(True):
                model.posterior(uniform(3, 2))
            self.assert_copies_equal(model)

    def test_after_a_fit(self) -> None:
        for model_class in MODEL_CLASSES:
            model = model_class(*random_trials(model_class, 10))
            mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
            fit_gpytorch_mll(mll)
            self.assert_copies_equal(model)
            pickle.loads(pickle.dumps(mll))
            deepcopy(mll)

    def test_after_conditioning(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, input_transform=Normalize(2))
            model.posterior(uniform(3, 2))
            trials = random_trials(model_class, 2, seed=5)
            conditioned = model.condition_on_observations(*trials)
            self.assert_copies_equal(conditioned)
            conditioned.posterior(uniform(3, 2))
            self.assert_copies_equal(conditioned)

    def test_of_trainable_inputs(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 6)
            model = model_class(X.requires_grad_(), Y, covar_module=simple_kernel())
            model.posterior(uniform(3, 2))  # the cache has a graph
            self.assert_copies_equal(model)

    def test_copy_is_independent(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class)
            X = uniform(3, 2, seed=3)
            before = latent(model, X).mean
            copy: Any = deepcopy(model)
            copy.train()
            copy.covar_module.outputscale = 0.1
            copy.train_targets.fill_(1.0)
            self.assertAllClose(latent(model, X).mean, before)


class TestTransforms(StrictTestCase):
    def by_hand(self, model: AnyModel, X: Tensor) -> Tensor:
        transform: Any = model.input_transform
        return (X - transform.offset) / transform.coefficient

    def test_equals_normalising_by_hand(self) -> None:
        bounds = double([[-1.0, 2.0], [4.0, 7.0]])
        for model_class in MODEL_CLASSES:
            for transform in (Normalize(2, bounds=bounds), Normalize(2)):
                X, Y = random_trials(model_class, 8)
                X = 3 * X + 2
                kernel = simple_kernel()
                model = model_class(
                    X, Y, covar_module=kernel, input_transform=transform
                )
                plain = model_class(self.by_hand(model, X), Y, covar_module=kernel)
                test_X = 3 * uniform(4, 2, seed=3) + 2
                hand_X = self.by_hand(model, test_X)
                assert_same_posterior(model, plain, test_X, hand_X)
                new_X, new_Y = random_trials(model_class, 2, seed=5)
                model = model.condition_on_observations(new_X, new_Y)
                plain = plain.condition_on_observations(
                    self.by_hand(model, new_X), new_Y
                )
                assert_same_posterior(model, plain, test_X, hand_X)
                model.train()
                self.assertTrue(torch.equal(model.train_inputs[0][:8], X))
                self.assertTrue(torch.equal(model.train_inputs[0][8:], new_X))
                model.eval()
                assert_same_posterior(model, plain, test_X, hand_X)

    def test_learns_from_the_training_data(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 8)
            X = 3 * X + 2
            arguments: list[dict[str, Any]] = [{}, {"covar_module": simple_kernel()}]
            for kwargs in arguments:
                transform = Normalize(2)
                model = model_class(X, Y, input_transform=transform, **kwargs)
                rows = join_rows(model, X)
                self.assertAllClose(transform.offset.squeeze(0), rows.amin(dim=0))
                model.eval()
                inputs = join_rows(model, model.train_inputs[0])
                self.assertAllClose(inputs.amin(dim=0), torch.zeros(2).double())
                self.assertAllClose(inputs.amax(dim=0), torch.ones(2).double())

    def test_of_a_batch(self) -> None:
        # As many duels as elements of the batch, which must not be mistaken.
        for model_class in MODEL_CLASSES:
            for n in (3, 5):
                X, Y = random_trials(model_class, n, batch_shape=(3,))
                X = X * double([1.0, 2.0, 3.0]).reshape(3, *(1,) * (X.ndim - 1))
                transform = Normalize(2, batch_shape=torch.Size([3]))
                model = model_class(
                    X,
                    Y,
                    covar_module=simple_kernel(batch_shape=(3,)),
                    input_transform=transform,
                )
                test_X = uniform(3, 4, 2, seed=3)
                for i in range(3):
                    single = model_class(
                        X[i],
                        Y[i],
                        covar_module=element(model, (i,)).covar_module,
                        input_transform=Normalize(2),
                    )
                    self.assertAllClose(
                        latent(model, test_X).mean[i],
                        latent(single, test_X[i]).mean,
                        rtol=0,
                        atol=1e-10,
                    )

    def test_marginal_likelihood_sees_transformed_inputs(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, input_transform=Normalize(2))
            model.train()
            prior: Any = model(*model.train_inputs)
            inputs = self.by_hand(model, model.train_inputs[0])
            Y = model.train_targets.unsqueeze(-1)
            plain = model_class(inputs, Y, covar_module=simple_kernel())
            expected: Any = plain.train()(*plain.train_inputs)
            self.assertAllClose(prior.covariance_matrix, expected.covariance_matrix)


class TestDtype(StrictTestCase):
    def test_single_precision_warns_and_works(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 8)
            kernel = simple_kernel()
            expected = latent(model_class(X, Y, covar_module=kernel), uniform(3, 2))
            with self.assertWarnsRegex(InputDataWarning, "torch.float32") as caught:
                model = model_class(
                    X.float(), Y.float(), covar_module=deepcopy(kernel).float()
                )
            self.assertEqual(caught.filename, __file__)
            found = latent(model, uniform(3, 2).float())
            self.assertEqual(found.mean.dtype, torch.float)
            self.assertAllClose(found.mean.double(), expected.mean, atol=1e-4)
            self.assertAllClose(found.variance.double(), expected.variance, atol=1e-4)
            probability = model.probability_posterior(uniform(4, 2).float())
            self.assertEqual(probability.mean.dtype, torch.float)

    def test_conversion(self) -> None:
        for model_class in MODEL_CLASSES:
            X = uniform(3, 2, seed=3)
            for convert in (
                lambda m: m.to(torch.float),
                lambda m: m.float(),
                lambda m: m.to(torch.zeros(1)),
            ):
                model = random_model(model_class, input_transform=Normalize(2))
                expected = latent(model, X)  # fills the cache
                single = convert(model)
                found = latent(single, X.float())
                self.assertEqual(found.mean.dtype, torch.float)
                self.assertAllClose(found.mean.double(), expected.mean, atol=1e-4)
                single.train()
                self.assertEqual(single.train_inputs[0].dtype, torch.float)
                self.assertEqual(single.train_targets.dtype, torch.float)
                found = latent(single.double(), X)
                self.assertEqual(found.mean.dtype, torch.double)
                self.assertAllClose(found.mean, expected.mean, atol=1e-4)

    def test_follows_the_data_not_the_default(self) -> None:
        # GPyTorch makes its parameters in torch's default dtype, single precision.
        for model_class in MODEL_CLASSES:
            model = model_class(
                *random_trials(model_class, 5), mean_module=ConstantMean()
            )
            for tensor in (*model.parameters(), *model.buffers()):
                self.assertEqual(tensor.dtype, torch.double)
            self.assertEqual(latent(model, uniform(2, 2)).mean.dtype, torch.double)


@both_models
@pytest.mark.parametrize("batch_shape", [(), (2,)])
def test_every_tensor_names_its_device(
    model_class: ModelClass, batch_shape: tuple[int, ...]
) -> None:
    X, Y = random_trials(model_class, 6, batch_shape=batch_shape)
    new = random_trials(model_class, 1, batch_shape=batch_shape, seed=5)
    test_X = uniform(*batch_shape, 4, 2, seed=3)
    with RequireDevice():
        model = model_class(X, Y, input_transform=Normalize(2, bounds=double(UNIT)))
        mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        model.train()
        loss: Any = mll(model(*model.train_inputs), model.train_targets)
        loss.backward()
        model.posterior(test_X)
        model.probability_posterior(test_X).rsample(torch.Size([2]))
        label_posterior(model, test_X).rsample(torch.Size([2]))
        conditioned = model.condition_on_observations(*new)
        latent(conditioned, test_X.clone().requires_grad_()).mean.sum().backward()
        fit_gpytorch_mll(mll)
    assert loss.device == X.device


UNIT = [[0.0, 0.0], [1.0, 1.0]]


# ---------------------------------------------------------------- hard but legal data


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
        X, Y = X.expand(200, *X.shape[1:]), Y.expand(200, 1)
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
        kernel, mean_module = simple_kernel(batch_shape=batch_shape), ConstantMean()
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
