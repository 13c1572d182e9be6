from __future__ import annotations

import pickle
from copy import deepcopy
from math import log
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction
from botorch.exceptions import UnsupportedError
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    ContextualJointEntropySearch,
    PreferenceLaplaceGP,
    draw_sample_paths,
)
from botorch_binary_context.acquisition.entropy_search import (
    MAX_FEATURES,
    ROUGH_PATH_SEARCH,
    maximize_paths,
)
from tests.acquisition.by_hand import Array
from tests.acquisition.problems import (
    KINDS,
    Problem,
    assert_batch_equals_loop,
    assert_close,
    assert_right_gradient,
    assert_takes_t_batches,
    optimize,
)
from tests.devices import RequireDevice
from tests.small_models import MODEL_CLASSES, ModelClass, simple_kernel
from tests.strategies import binary_data, duel_data, tensors
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)
M = 5


# -------------------------------------------------------------------- optima, by choice


def optima_of(problem: Problem) -> tuple[Tensor, Tensor]:
    """``batch_shape x M x d`` points in the reference context, and values there."""
    batch_shape = problem.model.batch_shape
    low, high = problem.space.parameter_bounds
    elements = torch.tensor(problem.elements).reshape(*batch_shape, 1, 1)
    unit = uniform(M, problem.parameters, seed=5) * (1 - 0.05 * elements)
    values = double([0.5, 1.5, 2.5, -0.2, 4.0]) + 0.1 * elements.squeeze(-1)
    return problem.space.at_reference(low + (high - low) * unit), values


def search(problem: Problem, mixture: bool = False) -> ContextualJointEntropySearch:
    """About optima that are the same for an element in a batch and on its own."""
    acqf = ContextualJointEntropySearch(
        problem.model, problem.space, num_paths=1, mixture=mixture, seed=0
    )
    acqf.set_optima(*optima_of(problem))
    return acqf


# -------------------------------------------------------------------------- brute force


def entropy(p: Array) -> Array:
    return -p * np.log(p) - (1 - p) * np.log(1 - p)


def predictions_given_optimum(
    problem: Problem, trials: Array, optimum: Array, value: float
) -> Array:
    """Success probabilities, with the optimum as one more, noiseless observation.

    A Laplace posterior is that of a regression with targets ``f̂ + a/W`` and noise
    ``1/W``.
    """
    by_hand = problem.by_hand
    a, W = by_hand.gradient_and_information
    points = optimum.reshape(1, 1, -1)
    K = by_hand.prior(by_hand.trials, by_hand.trials)
    k = by_hand.prior(by_hand.trials, points)
    gram = np.block([[K + np.diag(1 / W), k], [k.T, by_hand.prior(points, points)]])
    targets = np.append(K @ a + a / W, value - by_hand.constant)
    cross = np.hstack([by_hand.prior(trials, by_hand.trials)])
    cross = np.hstack([cross, by_hand.prior(trials, points)])
    mean = by_hand.prior_mean(trials) + cross @ np.linalg.solve(gram, targets)
    covariance = by_hand.prior(trials, trials) - cross @ np.linalg.solve(gram, cross.T)
    return by_hand.probability(mean, np.diag(covariance))


def entropy_search_by_hand(problem: Problem, X: Tensor, mixture: bool) -> Array:
    optima, values = (part.numpy() for part in optima_of(problem))
    trials = X.numpy()
    p = np.stack(
        [
            predictions_given_optimum(problem, trials, optimum, value)
            for optimum, value in zip(optima, values, strict=True)
        ]
    )
    first = p.mean(axis=0) if mixture else problem.by_hand.success(trials)
    return entropy(first) - entropy(p).mean(axis=0)


@both_models
@pytest.mark.parametrize("mixture", [True, False])
@pytest.mark.parametrize("parameters", [1, 2])
class TestBruteForce:
    @pytest.mark.parametrize("kind", KINDS)
    def test_agrees_for_every_kernel(
        self, model_class: ModelClass, mixture: bool, parameters: int, kind: str
    ) -> None:
        for constant, normalized in ((0.0, False), (0.4, True)):
            problem = Problem(
                kind, parameters, model_class, constant=constant, normalized=normalized
            )
            X = problem.candidates(6)
            expected = entropy_search_by_hand(problem, X, mixture)
            assert np.abs(expected).max() > 1e-3
            assert_close(search(problem, mixture)(X), expected, 1e-8)

    def test_more_contexts(
        self, model_class: ModelClass, mixture: bool, parameters: int
    ) -> None:
        problem = Problem("additive", parameters, model_class, contexts=3)
        X = problem.candidates(6)
        expected = entropy_search_by_hand(problem, X, mixture)
        assert_close(search(problem, mixture)(X), expected, 1e-8)

    def test_without_data(
        self, model_class: ModelClass, mixture: bool, parameters: int
    ) -> None:
        problem = Problem("product", parameters, model_class, n=0, constant=0.2)
        X = problem.candidates(6)
        expected = entropy_search_by_hand(problem, X, mixture)
        assert_close(search(problem, mixture)(X), expected, 1e-8)


class TestOutcomes:
    def test_guesses_agree_with_brute_force(self) -> None:
        for mixture in (True, False):
            problem = Problem("product", 2, guess_rate=0.25, constant=0.3)
            X = problem.candidates(6)
            expected = entropy_search_by_hand(problem, X, mixture)
            assert_close(search(problem, mixture)(X), expected, 1e-8)

    def test_at_an_optimum(self) -> None:
        # There the latent value is known.
        problem = Problem("product", 2)
        optima, values = optima_of(problem)
        acqf = search(problem, mixture=True)
        acqf.set_optima(optima[:1].expand(2, -1), values[:2])
        p = torch.special.ndtr(values[:2]).numpy()
        expected = entropy(p.mean()) - entropy(p).mean()
        assert_close(acqf(optima[:1].unsqueeze(-2)), [expected], 1e-8)

    def test_one_optimum_says_nothing_in_mixture_form(self) -> None:
        problem = Problem("product", 2)
        optima, values = optima_of(problem)
        acqf = search(problem, mixture=True)
        acqf.set_optima(optima[:1], values[:1])
        assert_close(acqf(problem.candidates(4)), torch.zeros(4), 1e-15)


class TestMixture:
    """Never negative, up to rounding, whatever the optima; and never above one bit."""

    def assert_in_range(self, model: Any, X: Tensor, values: Tensor) -> None:
        dim = X.shape[-1]
        bounds = double([[-2.0] * dim, [2.0] * dim])
        acqf = ContextualJointEntropySearch(
            model, ContextSpace(bounds), 1, mixture=True, seed=0
        )
        rows = model.datapoints[: len(values)]
        acqf.set_optima(rows, values[: len(rows)])
        with torch.no_grad():
            found = acqf(X)
        assert bool((found >= -1e-15).all())
        assert bool((found <= log(2)).all())

    @given(data=binary_data(batched=False), values=tensors(st.floats(-9.0, 9.0), (M,)))
    def test_outcomes_give_from_zero_to_one_bit(
        self, data: tuple[Tensor, Tensor], values: Tensor
    ) -> None:
        kernel = simple_kernel(data[0].shape[-1])
        model = BinaryLaplaceGP(*data, covar_module=kernel)
        self.assert_in_range(model, data[0].unsqueeze(-2) + 0.3, values)

    @given(data=duel_data(batched=False), values=tensors(st.floats(-9.0, 9.0), (M,)))
    def test_duels_give_from_zero_to_one_bit(
        self, data: tuple[Tensor, Tensor], values: Tensor
    ) -> None:
        kernel = simple_kernel(data[0].shape[-1])
        model = PreferenceLaplaceGP(*data, covar_module=kernel)
        self.assert_in_range(model, data[0] + 0.3, values)


# --------------------------------------------------------- derivatives, batches, shapes


@both_models
class TestContract:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mixture", [True, False])
    def test_gradient_equals_finite_differences(
        self, model_class: ModelClass, kind: str, mixture: bool
    ) -> None:
        problem = Problem(kind, 2, model_class)
        acqf = search(problem, mixture)
        assert_right_gradient(acqf, problem.candidates(3), 1e-8)

    def test_gradient_with_everything(self, model_class: ModelClass) -> None:
        problem = Problem(
            "product", 2, model_class, [0, 1], constant=0.3, normalized=True
        )
        assert_right_gradient(search(problem), problem.candidates(3, 2), 1e-8)

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("mixture", [True, False])
    def test_batch_equals_loop(
        self, model_class: ModelClass, kind: str, mixture: bool
    ) -> None:
        problem = Problem(kind, 2, model_class, [[0, 1, 2], [3, 4, 5]], constant=0.2)
        assert_batch_equals_loop(lambda p: search(p, mixture), problem, 1e-10)

    def test_t_batches(self, model_class: ModelClass) -> None:
        for elements in (0, [0, 1, 2], [[0, 1, 2], [3, 4, 5]]):
            problem = Problem("additive", 1, model_class, elements)
            assert_takes_t_batches(search, problem)

    def test_single_precision(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class)
        X = problem.candidates(4)
        optima = optima_of(problem)
        expected = search(problem)(X)
        problem.model.float()
        acqf = ContextualJointEntropySearch(
            problem.model, problem.space, num_paths=2, seed=0
        )
        acqf.set_optima(*(part.float() for part in optima))
        found = acqf(X.float())
        assert found.dtype == torch.float
        assert_close(found.double(), expected, 1e-3)

    def test_makes_nothing_on_the_default_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4).requires_grad_()
        with RequireDevice():
            acqf = ContextualJointEntropySearch(
                problem.model, problem.space, num_paths=4, seed=0
            )
            acqf(X).sum().backward()

    def test_copies_and_pickles_give_the_same_values(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4)
        acqf = search(problem)
        expected = acqf(X)
        for copy in (deepcopy(acqf), pickle.loads(pickle.dumps(acqf))):
            assert_close(copy(X), expected, 1e-14)

    def test_of_a_model_in_train_mode(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, normalized=True)
        X = problem.candidates(4)
        acqf = search(problem)
        expected = acqf(X)
        problem.model.train()
        acqf.set_optima(*optima_of(problem))
        assert_close(acqf(X), expected, 1e-12)

    def test_number_of_rows(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        q = problem.rows_per_trial
        message = "one row, but got 2" if q == 1 else "a duel, two rows, but got 1"
        with pytest.raises(UnsupportedError, match=message):
            search(problem)(uniform(4, 3 - q, 2))

    def test_one_dimension(self, model_class: ModelClass) -> None:
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            search(Problem("product", 1, model_class))(uniform(2))


# ------------------------------------------------------------------- optima, as sampled


def dense_grid(problem: Problem) -> Tensor:
    """Points of the box in the reference context."""
    size = 2001 if problem.parameters == 1 else 101
    low, high = problem.space.parameter_bounds
    unit = torch.linspace(0, 1, size, dtype=torch.double)
    grid = torch.cartesian_prod(*[unit] * len(low)).reshape(-1, len(low))
    return problem.space.at_reference(low + (high - low) * grid)


@both_models
class TestMaximizePaths:
    @pytest.mark.parametrize("parameters", [1, 2])
    def test_dense_grid(self, model_class: ModelClass, parameters: int) -> None:
        for kind in KINDS:
            problem = Problem(kind, parameters, model_class, normalized=True)
            space = problem.space
            paths = draw_sample_paths(problem.model, 16, space.bounds, seed=1)
            x, values = maximize_paths(paths, space)
            assert x.shape == (16, parameters)
            assert values.shape == (16,)
            low, high = space.parameter_bounds
            assert bool(((x >= low) & (x <= high)).all())
            with torch.no_grad():
                at_optima = paths(space.at_reference(x).unsqueeze(-2)).squeeze(-1)
                on_grid = paths(dense_grid(problem)).amax(dim=-1)
            assert_close(values, at_optima, 1e-12)
            assert bool((values >= on_grid - 1e-9).all())
            assert bool((values <= on_grid + 2e-3).all())

    def test_of_a_batch(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, [0, 1, 2])
        space = problem.space
        paths = draw_sample_paths(problem.model, 8, space.bounds, seed=1)
        x, values = maximize_paths(paths, space)
        assert x.shape == (8, 3, 1)
        assert values.shape == (8, 3)
        with torch.no_grad():
            on_grid = paths(dense_grid(problem)).amax(dim=-1)
        assert on_grid.shape == (8, 3)
        assert bool((values >= on_grid - 1e-9).all())


@both_models
class TestSampledOptima:
    def test_are_those_of_the_paths(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class, [0, 1])
        model, space = problem.model, problem.space
        acqf = ContextualJointEntropySearch(model, space, num_paths=6, seed=3)
        paths = draw_sample_paths(model, 6, space.bounds, MAX_FEATURES, seed=3)
        x, values = maximize_paths(paths, space, options=ROUGH_PATH_SEARCH)
        expected = ContextualJointEntropySearch(model, space, num_paths=1, seed=0)
        expected.set_optima(space.at_reference(x).movedim(0, -2), values.mT)
        X = problem.candidates(4, 2)
        assert_close(acqf(X), expected(X), 1e-12)

    def test_rough_maxima_are_mostly_exact(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class, [0, 1])
        paths = draw_sample_paths(problem.model, 32, problem.space.bounds, seed=1)
        _, exact = maximize_paths(paths, problem.space)
        _, rough = maximize_paths(paths, problem.space, options=ROUGH_PATH_SEARCH)
        assert bool((rough <= exact + 1e-6).all())
        assert ((exact - rough) < 1e-3).double().mean() >= 0.95

    def test_seed_repeats_values_and_leaves_the_global_state(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.candidates(4)

        def values(seed: int | None) -> Tensor:
            acqf = ContextualJointEntropySearch(
                problem.model, problem.space, num_paths=4, seed=seed
            )
            return acqf(X).detach()

        state = torch.random.get_rng_state()
        first = values(1)
        again = values(1)
        other = values(2)
        assert torch.equal(torch.random.get_rng_state(), state)
        assert torch.equal(first, again)
        assert not torch.allclose(first, other)
        results = []
        for _ in range(2):
            torch.manual_seed(5)
            results.append(values(None))
        assert torch.equal(*results)

    def test_prefers_trials_near_the_reference_optimum(
        self, model_class: ModelClass
    ) -> None:
        # Nothing is learned of the optimum where f is known: f(0, x) = 0.
        problem = Problem("multiplicative", 1, model_class)
        acqf = ContextualJointEntropySearch(
            problem.model, problem.space, num_paths=8, seed=0
        )
        X = problem.candidates(16)
        uninformative = X.clone()
        uninformative[..., 0] = 0.0
        assert acqf(uninformative).max() < 1e-9
        assert acqf(X).max() > 1e-2

    def test_optimizing_finds_no_less_than_random_trials(
        self, model_class: ModelClass
    ) -> None:
        problem = Problem("product", 1, model_class)
        acqf = ContextualJointEntropySearch(
            problem.model, problem.space, num_paths=16, seed=0
        )
        fixed = FixedFeatureAcquisitionFunction(acqf, 2, columns=[0], values=[0.3])
        q = problem.rows_per_trial
        for function, bounds, others in (
            (acqf, problem.bounds, problem.candidates(64)),
            (fixed, problem.bounds[:, 1:], uniform(64, q, 1)),
        ):
            _, value = optimize(function, bounds, q)
            with torch.no_grad():
                assert value >= function(others).max()
