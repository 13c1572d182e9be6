r"""State and switching of both models: copies, transforms, dtypes, devices."""

from __future__ import annotations

import pickle
from copy import deepcopy
from typing import Any

import pytest
import torch
from botorch import settings
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelList
from botorch.models.transforms import Normalize
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import (
    LaplaceMarginalLogLikelihood,
    PreferenceLaplaceGP,
)
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.latent_posteriors import assert_same_posterior, label_posterior, latent
from tests.small_models import (
    MODEL_CLASSES,
    UNIT,
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


class TestTrainEval:
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
            assert_all_close(prior.covariance_matrix, K)
            assert prior.mean.shape == (8,)

    def test_switching_changes_nothing(self) -> None:
        for model_class in MODEL_CLASSES:
            for transform in (None, Normalize(2)):
                model = random_model(model_class, input_transform=transform)
                X = uniform(3, 2, seed=3)
                before = latent(model, X).mean
                for _ in range(2):
                    model.train()
                    model.eval()
                assert_all_close(latent(model, X).mean, before)
                model.train()
                assert_all_close(latent(model, X).mean, before)  # posterior evals

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
            with pytest.raises(InputDataError, match="``inputs`` to have shape"):
                model.set_train_data(X)
            with pytest.raises(InputDataError, match="``targets`` to have shape"):
                model.set_train_data(targets=Y.squeeze(-1))
            same = model.train_inputs[0]
            with pytest.raises(InputDataError, match="``inputs`` to have dtype"):
                model.set_train_data(same.float())
            with pytest.raises(InputDataError, match="``targets`` .* got 0.5"):
                model.set_train_data(targets=torch.full_like(model.train_targets, 0.5))


class TestStateDict:
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
            assert_all_close(*results)


def changed_kernel() -> Any:
    kernel = simple_kernel()
    kernel.outputscale = double(9.0)
    kernel.base_kernel.lengthscale = double(0.1)
    return kernel


def copies(model: AnyModel) -> list[AnyModel]:
    return [deepcopy(model), pickle.loads(pickle.dumps(model))]


class TestCopies:
    def assert_copies_equal(self, model: AnyModel) -> None:
        X = uniform(3, 2, seed=3)
        for copy in copies(model):
            assert_same_posterior(copy, model, X)
            assert copy.covar_module is not model.covar_module

    def test_copies_of_a_new_model_have_the_same_posterior(self) -> None:
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
            assert_all_close(latent(model, X).mean, before)


class TestTransforms:
    def by_hand(self, model: AnyModel, X: Tensor) -> Tensor:
        transform: Any = model.input_transform
        return (X - transform.offset) / transform.coefficient

    def test_equals_normalizing_by_hand(self) -> None:
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
                assert torch.equal(model.train_inputs[0][:8], X)
                assert torch.equal(model.train_inputs[0][8:], new_X)
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
                assert_all_close(transform.offset.squeeze(0), rows.amin(dim=0))
                model.eval()
                inputs = join_rows(model, model.train_inputs[0])
                assert_all_close(inputs.amin(dim=0), torch.zeros(2).double())
                assert_all_close(inputs.amax(dim=0), torch.ones(2).double())

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
                    assert_all_close(
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
            assert_all_close(prior.covariance_matrix, expected.covariance_matrix)


class TestDtype:
    def test_single_precision_warns_and_works(self) -> None:
        for model_class in MODEL_CLASSES:
            X, Y = random_trials(model_class, 8)
            kernel = simple_kernel()
            expected = latent(model_class(X, Y, covar_module=kernel), uniform(3, 2))
            with pytest.warns(InputDataWarning, match="torch.float32") as caught:
                model = model_class(
                    X.float(), Y.float(), covar_module=deepcopy(kernel).float()
                )
            assert caught[0].filename == __file__
            found = latent(model, uniform(3, 2).float())
            assert found.mean.dtype == torch.float
            assert_all_close(found.mean.double(), expected.mean, atol=1e-4)
            assert_all_close(found.variance.double(), expected.variance, atol=1e-4)
            probability = model.probability_posterior(uniform(4, 2).float())
            assert probability.mean.dtype == torch.float

    def test_conversion_to_single_and_back_keeps_the_posterior(self) -> None:
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
                assert found.mean.dtype == torch.float
                assert_all_close(found.mean.double(), expected.mean, atol=1e-4)
                single.train()
                assert single.train_inputs[0].dtype == torch.float
                assert single.train_targets.dtype == torch.float
                found = latent(single.double(), X)
                assert found.mean.dtype == torch.double
                assert_all_close(found.mean, expected.mean, atol=1e-4)

    def test_follows_the_data_not_the_default(self) -> None:
        # GPyTorch makes its parameters in torch's default dtype, single precision.
        for model_class in MODEL_CLASSES:
            model = model_class(
                *random_trials(model_class, 5), mean_module=ConstantMean()
            )
            for tensor in (*model.parameters(), *model.buffers()):
                assert tensor.dtype == torch.double
            assert latent(model, uniform(2, 2)).mean.dtype == torch.double


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
