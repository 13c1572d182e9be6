from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms import Normalize
from gpytorch import settings

from botorch_binary_context import BinaryLaplaceGP, PreferenceLaplaceGP
from botorch_binary_context.acquisition.analytic import pair_with
from tests.acquisition.problems import KINDS, Problem, assert_close
from tests.latent_posteriors import latent, latent_covariance
from tests.small_models import (
    MODEL_CLASSES,
    ModelClass,
    random_model,
    random_trials,
    simple_kernel,
)
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


@both_models
class TestMoments:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("parameters", [1, 2])
    @pytest.mark.parametrize("normalized", [False, True])
    def test_by_hand(
        self, model_class: ModelClass, kind: str, parameters: int, normalized: bool
    ) -> None:
        problem = Problem(
            kind, parameters, model_class, constant=0.4, normalized=normalized
        )
        X = problem.candidates(5)
        mean, variance = problem.model.moments(X)
        trials = X.numpy()
        by_hand = problem.by_hand
        assert_close(mean, by_hand.mean(trials), 1e-11)
        assert_close(variance, by_hand.variance(trials), 1e-11)

    def test_parts_by_hand(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class, constant=0.4)
        X = problem.candidates(5)
        contrasts = problem.model.values_of(X)
        by_hand, trials = problem.by_hand, X.numpy()
        assert_close(contrasts.cross, by_hand.prior(by_hand.trials, trials), 1e-13)
        assert_close(contrasts.prior_mean, by_hand.prior_mean(trials), 1e-15)
        prior = by_hand.prior(trials, trials).diagonal().copy()
        assert_close(contrasts.prior_variance, prior, 1e-13)

    def test_from_the_joint_posterior(self, model_class: ModelClass) -> None:
        model = random_model(model_class)
        q = model.functional.num_rows
        signs = double([1.0, -1.0][:q])
        X = uniform(4, q, 2, seed=3)
        mean, variance = model.moments(X)
        assert_close(mean, latent(model, X).mean.squeeze(-1) @ signs, 1e-12)
        assert_close(variance, latent_covariance(model, X) @ signs @ signs, 1e-12)

    def test_any_batch_of_candidates(self, model_class: ModelClass) -> None:
        for batch_shape in ((), (3,), (2, 3)):
            model = random_model(model_class, batch_shape=batch_shape)
            q = model.functional.num_rows
            for t in ((), (4,), (1,), (5, 4)):
                X = uniform(*t, *batch_shape, q, 2, seed=3)
                moments = model.moments(X)
                for index in np.ndindex(*t):
                    expected = model.moments(X[index])
                    for found, alone in zip(moments, expected, strict=True):
                        assert found.shape == (*t, *batch_shape)
                        assert_close(found[index], alone, 1e-12)

    def test_candidates_are_shared_by_the_batch(self, model_class: ModelClass) -> None:
        model = random_model(model_class, batch_shape=(2, 3))
        q = model.functional.num_rows
        for shape in ((), (1,), (3,), (2, 1), (7, 1, 1), (7, 2, 1)):
            X = uniform(*shape, q, 2, seed=3)
            full = torch.broadcast_shapes(shape, (2, 3))
            expected = model.moments(X.expand(*full, q, 2))
            for found, alone in zip(model.moments(X), expected, strict=True):
                assert found.shape == full
                assert_close(found, alone, 1e-12)

    def test_batch_equals_loop(self, model_class: ModelClass) -> None:
        for kind in KINDS:
            batched = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]])
            X = batched.candidates(4, 2, 3)
            moments = batched.model.moments(X)
            for i, j in np.ndindex(2, 3):
                alone = batched.element((i, j)).model
                expected = alone.moments(X[:, i, j])
                for found, single in zip(moments, expected, strict=True):
                    assert_close(found[:, i, j], single, 1e-11)

    def test_of_a_model_in_train_mode(self, model_class: ModelClass) -> None:
        X, Y = random_trials(model_class, 6)
        transform = Normalize(2, bounds=double([[-1.0, -2.0], [1.0, 3.0]]))
        model = model_class(
            X, Y, covar_module=simple_kernel(), input_transform=transform
        )
        q = model.functional.num_rows
        candidates = uniform(4, q, 2, seed=3)
        model.eval()
        expected = model.moments(candidates)
        model.train()
        for found, before in zip(model.moments(candidates), expected, strict=True):
            assert_close(found, before, 1e-14)

    def test_without_data_is_the_prior(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 1, model_class, n=0, constant=0.4)
        X = problem.candidates(4)
        mean, variance = problem.model.moments(X)
        assert_close(mean, problem.by_hand.prior_mean(X.numpy()), 1e-15)
        prior = problem.by_hand.prior(X.numpy(), X.numpy())
        assert_close(variance, prior.diagonal().copy(), 1e-13)

    def test_variance_is_positive(self, model_class: ModelClass) -> None:
        # f(s,x) = s g(x) is certain at s = 0, and so is a duel of equals.
        problem = Problem("multiplicative", 1, model_class)
        X = problem.candidates(4)
        X[..., 0] = 0.0
        lowest = settings.min_variance.value(X.dtype)
        _, variance = problem.model.moments(X)
        assert variance.tolist() == [lowest] * 4
        if model_class is PreferenceLaplaceGP:
            equals = problem.candidates(4)[..., :1, :].expand(-1, 2, -1)
            mean, variance = problem.model.moments(equals)
            assert mean.abs().max() < 1e-14
            assert variance.tolist() == [lowest] * 4


class TestMessages:
    def test_number_of_rows(self) -> None:
        binary, duels = (random_model(model_class) for model_class in MODEL_CLASSES)
        with pytest.raises(UnsupportedError, match="one row, but got 2 rows"):
            binary.moments(uniform(4, 2, 2))
        for rows in (1, 3, 4):
            message = f"a duel, two rows, but got {rows} rows"
            with pytest.raises(UnsupportedError, match=message):
                duels.moments(uniform(4, rows, 2))


class TestPairWith:
    def test_candidates_come_first_and_the_opponent_second(self) -> None:
        X = uniform(5, 1, 2, seed=1)
        opponent = uniform(2, seed=2)
        duels = pair_with(X, opponent)
        assert duels.shape == (5, 2, 2)
        assert torch.equal(duels[:, :1], X)
        assert torch.equal(duels[:, 1], opponent.expand(5, 2))

    def test_batches_of_both_sides_are_broadcast(self) -> None:
        for shape, opponents, expected in (
            ((), (3,), (3,)),
            ((5, 3), (3,), (5, 3)),
            ((5, 1), (3,), (5, 3)),
            ((5, 2, 3), (2, 1), (5, 2, 3)),
            ((3,), (), (3,)),
        ):
            X = uniform(*shape, 1, 4, seed=1)
            opponent = uniform(*opponents, 4, seed=2)
            duels = pair_with(X, opponent)
            assert duels.shape == (*expected, 2, 4)
            rows = X.squeeze(-2), opponent
            for found, row in zip(duels.unbind(-2), rows, strict=True):
                assert torch.equal(found, row.expand(*expected, 4))

    def test_gradient_and_dtype(self) -> None:
        X = uniform(5, 1, 2).requires_grad_()
        duels = pair_with(X, uniform(2).float())
        assert duels.dtype == torch.double
        (gradient,) = torch.autograd.grad(duels.sum(), X)
        assert torch.equal(gradient, torch.ones_like(X))


def test_problem_by_hand_is_the_model() -> None:
    """The reference itself: the same class probabilities, with guesses too."""
    for guess_rate in (0.0, 0.2):
        problem = replace(Problem("product", 2), guess_rate=guess_rate)
        assert isinstance(problem.model, BinaryLaplaceGP)
        X = problem.candidates(5)
        found = problem.model.probability_posterior(X).mean.flatten()
        assert_close(found, problem.by_hand.success(X.numpy()), 1e-12)
