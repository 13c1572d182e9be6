r"""Draws from the exact posterior: their errors, and models given more trials."""

from __future__ import annotations

import pickle
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms import Normalize
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    MixedGP,
    Observations,
    PreferenceGP,
    PreferenceLaplaceGP,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
)
from botorch_binary_context.posteriors import ExactPosterior
from tests.derivatives import finite_difference, jacobian
from tests.devices import RequireDevice
from tests.inference.exact_cases import (
    BY_NAME,
    GUESSES,
    LARGEST_Z,
    ROWS,
    SETTINGS,
    SHARES,
    array,
    assert_agree,
    assert_equals_grid,
    assert_equals_record,
    both_inferences,
    model_of,
    observations_of,
)
from tests.sampling_errors import largest_z
from tests.small_models import (
    MODEL_CLASSES,
    ModelClass,
    element,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def assert_same(first: ExactPosterior, second: ExactPosterior) -> None:
    """Mean, variance and probability of two samples agree."""
    for name in ("mean", "variance", "probability"):
        found = getattr(first, name)
        other = array(getattr(second, name))
        errors = [getattr(draws, f"{name}_error") for draws in (first, second)]
        assert_agree(found, errors[0], other, array(errors[1]))


class TestSamples:
    setting = SETTINGS["an outcome and a duel"]

    def test_joint_moments(self) -> None:
        # More draws than samples: the error is that of the samples.
        exact = self.setting.exact
        posterior = self.setting.model().exact_posterior(ROWS, num_samples=16384)
        with manual_seed(0):
            samples = posterior.rsample(torch.Size([2000])).detach().squeeze(-1)
        assert largest_z(samples, double(exact.mean)) < LARGEST_Z
        deviations = samples - double(exact.mean)
        products = deviations.unsqueeze(-1) * deviations.unsqueeze(-2)
        assert largest_z(products, double(exact.joint_covariance)) < LARGEST_Z
        third = torch.from_numpy(exact.means - exact.mean[:, None]) ** 3
        expected = third @ torch.from_numpy(exact.weights)
        assert largest_z(deviations**3, expected) < LARGEST_Z

    def test_values_and_samples_have_the_shapes_of_the_batches(self) -> None:
        for batch_shape in ((), (3,), (2, 3)):
            for model_class in MODEL_CLASSES:
                model = random_model(model_class, 5, batch_shape=batch_shape)
                for t in ((), (4,), (5, 4)):
                    X = uniform(*t, *batch_shape, 6, 2, seed=3)
                    posterior = model.exact_posterior(X, num_samples=64)
                    shape = (*t, *batch_shape, 6, 1)
                    for value in (posterior.mean, posterior.variance_error):
                        assert value.shape == shape
                    num_trials = 6 // model.functional.num_rows
                    trials = (*t, *batch_shape, num_trials, 1)
                    assert posterior.probability.shape == trials
                    assert posterior.rsample().shape == (1, *shape)
                    samples = posterior.rsample(torch.Size([2, 7]))
                    assert samples.shape == (2, 7, *shape)
                    quantile = posterior.quantile(SHARES)
                    assert quantile.shape == (3, *shape)

    def test_one_sample(self) -> None:
        # As of every posterior of BoTorch, without a sample dimension.
        posterior = self.setting.model().exact_posterior(ROWS, num_samples=64)
        assert posterior.rsample(torch.Size()).shape == (4, 1)

    def test_samples_of_trials(self) -> None:
        # In rows of the data, some of them twice: nothing is left between draws.
        X = double([[0.3], [0.7], [0.3]])
        posterior = SETTINGS["two outcomes"].model().exact_posterior(X)
        samples = posterior.rsample(torch.Size([50])).detach()
        assert (samples[:, 0] - samples[:, 2]).abs().max().item() < 1e-3

    def test_samples_of_more_trials(self) -> None:
        # In the rows of outcomes, samples are draws; of duels they win by as much.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5)
            posterior = model.exact_posterior(model.datapoints, num_samples=64)
            samples = posterior.rsample(torch.Size([50])).detach().squeeze(-1)
            found, drawn = map(model.functional, (samples, posterior.means.detach()))
            distance = (found.unsqueeze(1) - drawn).abs().amax(dim=-1)
            assert distance.amin(dim=1).max().item() < 1e-3

    def test_sampler_of_botorch_gives_samples_of_its_shape(self) -> None:
        posterior: Any = self.setting.model().exact_posterior(ROWS, num_samples=64)
        sampler = get_sampler(posterior, torch.Size([16]), seed=5)
        assert sampler(posterior).shape == (16, 4, 1)

    def test_seed_of_sampler(self) -> None:
        posterior: Any = self.setting.model().exact_posterior(ROWS, num_samples=64)
        first, again, other = (
            get_sampler(posterior, torch.Size([16]), seed=seed)(posterior)
            for seed in (5, 5, 6)
        )
        assert torch.equal(again, first)
        assert not torch.equal(other, first)

    def test_t_batches_equal_loop(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5, batch_shape=(3,))
            X = uniform(4, 3, 6, 2)
            together = model.exact_posterior(X, num_samples=64)
            for i in range(4):
                alone = model.exact_posterior(X[i], num_samples=64)
                for name in ("mean", "variance", "probability"):
                    pair = getattr(together, name)[i], getattr(alone, name)
                    torch.testing.assert_close(*pair, rtol=0, atol=1e-10)

    def test_gradients_equal_finite_differences(self) -> None:
        model = self.setting.model()

        def posterior(X: Tensor) -> ExactPosterior:
            return model.exact_posterior(X, num_samples=64)

        def sample(X: Tensor) -> Tensor:
            with manual_seed(0):
                return posterior(X).rsample(torch.Size([3]))

        def quantile(X: Tensor) -> Tensor:
            return posterior(X).quantile(SHARES)

        functions = [
            lambda X: posterior(X).mean,
            lambda X: posterior(X).variance,
            lambda X: posterior(X).probability,
            sample,
            quantile,
        ]
        for function in functions:
            found = jacobian(function, ROWS)
            expected = finite_difference(function, ROWS)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)

    def test_makes_nothing_on_the_default_device(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 5)
            X, Y = random_trials(model_class, 2)
            with RequireDevice():
                model.exact_posterior(uniform(4, 2, seed=3), num_samples=64)
                model = model.condition_on_observations(X, Y)
                posterior = model.exact_posterior(uniform(4, 2, seed=3), num_samples=64)
                posterior.quantile_error(SHARES)
                posterior.rsample(torch.Size([3]))

    def test_refuses_rows_of_another_shape(self) -> None:
        for X in (uniform(4, 2), uniform(1)):
            with pytest.raises(InputDataError, match="``batch_shape x q x 1``"):
                self.setting.model().exact_posterior(X)


SEEDS = 30


# The standard deviation of so many numbers is known to 13 %.
ERROR_RANGE = 0.6, 1.5


def assert_right_errors(posteriors: list[ExactPosterior]) -> None:
    """The spread between seeds is that which every posterior states."""
    for name in ("mean", "variance", "probability"):
        values = np.stack([array(getattr(p, name)) for p in posteriors])
        errors = np.stack([array(getattr(p, f"{name}_error")) for p in posteriors])
        ratio = values.std(axis=0, ddof=1) / np.sqrt((errors**2).mean(axis=0))
        assert ratio.min() > ERROR_RANGE[0], (name, ratio)
        assert ratio.max() < ERROR_RANGE[1], (name, ratio)


class TestStatedErrors:
    X = uniform(6, 2, seed=9)

    @both_models
    def test_of_one_posterior(self, model_class: ModelClass) -> None:
        model = random_model(model_class, 10)
        model = model.with_inference(ExpectationPropagation())
        draws = [model.exact_posterior(self.X, 256, seed) for seed in range(SEEDS)]
        assert_right_errors(draws)
        found = np.stack([array(draw.quantile(SHARES)) for draw in draws])
        stated = np.stack([array(draw.quantile_error(SHARES)) for draw in draws])
        ratio = found.std(axis=0, ddof=1) / np.sqrt((stated**2).mean(axis=0))
        assert ERROR_RANGE[0] < ratio.min() < ratio.max() < ERROR_RANGE[1], ratio

    def test_after_conditioning(self) -> None:
        # Draws chosen anew must be as good as independent.
        kernel = simple_kernel(2)
        kernel.outputscale = 9.0
        X, Y = random_trials(BinaryLaplaceGP, 10, seed=1)
        model = BinaryGP(X, Y, ProbitLikelihood(*GUESSES), kernel)
        draws = []
        for seed in range(SEEDS):
            model.exact_posterior(self.X, 256, seed)
            # Labels that nobody expects.
            known = model.condition_on_observations(X[:2], 1 - Y[:2])
            draws.append(known.exact_posterior(self.X, 256, seed))
        assert_right_errors(draws)
        full = BinaryGP(
            torch.cat([X, X[:2]]), torch.cat([Y, 1 - Y[:2]]), model.likelihood, kernel
        )
        expected = full.exact_posterior(self.X, 16384, seed=SEEDS)
        together = torch.stack([draw.mean for draw in draws]).detach()
        error = together.std(dim=0) / SEEDS**0.5
        expected_error = array(expected.mean_error)
        assert_agree(together.mean(dim=0), error, array(expected.mean), expected_error)


def split(
    record: dict[str, Any], drop: dict[str, int]
) -> tuple[dict[str, Any], list[Observations]]:
    """The record without the last trials of some kinds, and these trials."""
    early, late = dict(record), []
    for kind, count in drop.items():
        both = [slice(None, -count), slice(-count, None)]
        parts = [
            record[kind] | {key: record[kind][key][part] for key in ("X", "Y")}
            for part in both
        ]
        early[kind] = parts[0]
        late.append(observations_of(record | {kind: parts[1]}, kind))
    return early, late


class TestConditioning:
    @pytest.mark.parametrize("name", ["mixed", "mixed_two_choices"])
    @pytest.mark.parametrize(
        "drop",
        [{"duels": 2}, {"outcomes": 3}, {"duels": 2, "outcomes": 1}],
        ids=str,
    )
    def test_equals_record(self, name: str, drop: dict[str, int]) -> None:
        record = BY_NAME[name]
        early, late = split(record, drop)
        model = model_of(early)
        X = double(record["test_X"])
        model.exact_posterior(X)
        for trials in late:
            model = model.condition_on_observations(trials)
        assert_equals_record(model, record)

    @pytest.mark.parametrize("name", ["two_choices_n30", "duels_variance_25"])
    def test_one_by_one(self, name: str) -> None:
        record = BY_NAME[name]
        kind = "outcomes" if record["outcomes"] else "duels"
        early, (late,) = split(record, {kind: 3})
        model = model_of(early)
        X = double(record["test_X"])
        for i in range(3):
            model.exact_posterior(X)
            one = replace(late, X=late.X[i : i + 1], Y=late.Y[i : i + 1])
            model = model.condition_on_observations(one)
        assert_equals_record(model, record)

    @both_inferences
    @pytest.mark.parametrize(
        "name",
        ["two choices", "two duels", "an outcome and a duel", "the same guesses"],
    )
    def test_from_nothing(self, name: str, inference: Inference) -> None:
        setting = SETTINGS[name]
        model = MixedGP(
            [
                replace(part, X=part.X[:0], Y=part.Y[:0])
                for part in setting.observations
            ],
            setting.kernel,
            inference=inference,
        )
        for part in setting.observations:
            for i in range(len(part.Y)):
                model.exact_posterior(ROWS)
                one = replace(part, X=part.X[i : i + 1], Y=part.Y[i : i + 1])
                model = model.condition_on_observations(one)
        assert_equals_grid(model.exact_posterior(ROWS), setting)

    def test_not_asked_between(self) -> None:
        # Draws of the first model serve the third.
        setting = SETTINGS["two outcomes"]
        (data,) = setting.observations
        empty = replace(data, X=data.X[:0], Y=data.Y[:0])
        model = MixedGP([empty], setting.kernel)
        model.exact_posterior(ROWS)
        for i in range(2):
            one = replace(data, X=data.X[i : i + 1], Y=data.Y[i : i + 1])
            model = model.condition_on_observations(one)
        assert_equals_grid(model.exact_posterior(ROWS), setting)

    def test_other_seed_and_number(self) -> None:
        # Draws of another seed or number are of no use, and do no harm.
        setting = SETTINGS["two outcomes"]
        (data,) = setting.observations
        model = MixedGP([replace(data, X=data.X[:1], Y=data.Y[:1])], setting.kernel)
        model.exact_posterior(ROWS, 100, seed=3)
        model = model.condition_on_observations(data.X[1:], data.Y[1:])
        assert_equals_grid(model.exact_posterior(ROWS, 4096, seed=3), setting)

    @both_models
    def test_elements_of_a_batch_equal_models_alone(
        self, model_class: ModelClass
    ) -> None:
        # Every element of a batch of models, before and after.
        model = random_model(model_class, 6, batch_shape=(2,))
        more, labels = random_trials(model_class, 2, batch_shape=(2,), seed=5)
        X = uniform(2, 4, 2, seed=3)
        model.exact_posterior(X)
        known = model.condition_on_observations(more, labels)
        for batch in (model, known):
            together = batch.exact_posterior(X)
            for i in range(2):
                alone = element(batch, (i,)).exact_posterior(X[i], seed=7)
                covariance = together.covariance[i]
                part = ExactPosterior(
                    together.means[:, i], covariance, together.likelihood
                )
                assert_same(part, alone)

    @both_models
    def test_new_batch(self, model_class: ModelClass) -> None:
        # One model with fantasies of both labels.
        model = random_model(model_class, 6)
        more, _ = random_trials(model_class, 1, seed=5)
        X = uniform(4, 2, seed=3)
        labels = double([0.0, 1.0]).view(2, 1, 1)
        model.exact_posterior(X)
        together = model.condition_on_observations(more, labels).exact_posterior(X)
        assert together.mean.shape == (2, 4, 1)
        for i in range(2):
            known = model.condition_on_observations(more, labels[i])
            alone = known.exact_posterior(X)
            part = ExactPosterior(
                together.means[:, i], together.covariance[i], together.likelihood
            )
            assert_same(part, alone)


class TestRepeats:
    X = uniform(4, 2, seed=3)

    def test_seed_repeats_itself_and_leaves_the_global_state(self) -> None:
        for model_class in MODEL_CLASSES:
            first, second = (random_model(model_class, 6) for _ in range(2))
            expected = first.exact_posterior(self.X, 64).means
            state = torch.random.get_rng_state()
            found = second.exact_posterior(self.X, 64).means
            assert torch.equal(torch.random.get_rng_state(), state)
            assert torch.equal(found, expected)
            other = second.exact_posterior(self.X, 64, seed=1).means
            assert (other - expected).abs().min().item() > 0.0
            again = second.exact_posterior(self.X, 64).means
            assert torch.equal(again, expected)

    def test_seed_after_conditioning(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 2, seed=5)
        draws = []
        for _ in range(2):
            model = random_model(BinaryLaplaceGP, 6)
            model.exact_posterior(self.X, 64)
            known = model.condition_on_observations(X, Y)
            draws.append(known.exact_posterior(self.X, 64).means)
        assert torch.equal(*draws)

    def test_copies_have_the_same_draws(self) -> None:
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 6)
            expected = model.exact_posterior(self.X, 256).means
            for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
                found = copy.exact_posterior(self.X, 256).means
                torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)

    def test_copies_after_conditioning(self) -> None:
        # Copies leave the draws behind; theirs are others of the same posterior.
        for model_class in MODEL_CLASSES:
            model = random_model(model_class, 6)
            model.exact_posterior(self.X)
            X, Y = random_trials(model_class, 2, seed=5)
            model = model.condition_on_observations(X, Y)
            for copy in (deepcopy(model), pickle.loads(pickle.dumps(model))):
                found = copy.exact_posterior(self.X)
                assert_same(found, model.exact_posterior(self.X))

    def test_changes_of_the_model(self) -> None:
        # Draws of other data or other hyperparameters are not used again.
        X, Y = random_trials(BinaryLaplaceGP, 6)
        model = BinaryGP(X, Y, covar_module=simple_kernel(2))
        model.exact_posterior(self.X, 64)
        model.train()
        model.covar_module.outputscale = double(7.0)
        kernel = simple_kernel(2)
        kernel.outputscale = 7.0
        other = BinaryGP(X, 1 - Y, covar_module=kernel)
        for change, expected in (
            (lambda: None, BinaryGP(X, Y, covar_module=kernel)),
            (lambda: model.set_train_data(targets=1 - Y.squeeze(-1)), other),
            (lambda: model.load_state_dict(other.state_dict()), other),
        ):
            change()
            found = model.exact_posterior(self.X, 64).means
            assert torch.equal(found, expected.exact_posterior(self.X, 64).means)

    def test_input_transform(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 6)
        plain = BinaryGP(X, Y, covar_module=simple_kernel(2))
        bounds = double([[-1.0, -1.0], [2.0, 2.0]])
        transform = Normalize(2, bounds=bounds)
        kernel = simple_kernel(2)
        stretched = BinaryGP(
            3 * X - 1, Y, covar_module=kernel, input_transform=transform
        )
        found = stretched.exact_posterior(3 * self.X - 1, 64).means
        expected = plain.exact_posterior(self.X, 64).means
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


class TestInference:
    """Where the chains begin does not matter."""

    def test_laplace_gives_the_same_posterior(self) -> None:
        for pair in ((BinaryGP, BinaryLaplaceGP), (PreferenceGP, PreferenceLaplaceGP)):
            X, Y = random_trials(pair[1], 12)
            first, second = (
                model_class(X, Y, covar_module=simple_kernel(2)).exact_posterior(
                    uniform(8, 2, seed=3), seed=seed
                )
                for seed, model_class in enumerate(pair)
            )
            assert_same(first, second)

    def test_laplace_with_guesses(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 12)
        kernel = simple_kernel(2)
        kernel.outputscale = 25.0
        first, second = (
            model_class(X, Y, ProbitLikelihood(*GUESSES), kernel).exact_posterior(
                uniform(8, 2, seed=3), seed=seed
            )
            for seed, model_class in enumerate((BinaryGP, BinaryLaplaceGP))
        )
        assert_same(first, second)

    def test_training_mode(self) -> None:
        model = SETTINGS["two outcomes"].model().train()
        assert_equals_grid(model.exact_posterior(ROWS), SETTINGS["two outcomes"])

    def test_single_precision(self) -> None:
        setting = SETTINGS["two choices"]
        model = setting.model().float()
        posterior = model.exact_posterior(ROWS.float())
        assert posterior.mean.dtype == torch.float
        assert_equals_grid(posterior, setting)
        assert posterior.rsample(torch.Size([3])).dtype == torch.float
