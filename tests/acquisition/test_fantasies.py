from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from botorch_binary_context import AdditiveContextKernel, BinaryLaplaceGP
from botorch_binary_context.acquisition.fantasies import (
    COARSE,
    EXACT,
    FINE,
    Accuracy,
    Fantasies,
    Shared,
    fantasy_weights,
)
from tests.acquisition.by_hand import LaplaceByHand
from tests.acquisition.problems import KINDS, Problem, assert_close
from tests.derivatives import finite_difference
from tests.devices import RequireDevice
from tests.small_models import MODEL_CLASSES, AnyModel, ModelClass, simple_kernel
from tests.strategies import inputs, labels
from tests.tensors import double, uniform

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def fantasize(model: AnyModel, X: Tensor, label: float | Tensor) -> Fantasies:
    """Each of ``C x batch_shape x q x d`` trials, added with a label."""
    contrasts = model.values_of(X)
    return Fantasies(
        Shared.of(model),
        contrasts.cross.detach(),
        contrasts.prior_mean.detach(),
        contrasts.prior_variance.detach(),
        torch.zeros_like(contrasts.prior_mean) + label,
    )


def weights_of(fantasies: Fantasies, accuracy: Accuracy = EXACT) -> Tensor:
    """The weights of all trials, ``batch_shape x C x (n + 1)``, the new one last."""
    f = fantasies
    a, a_new = fantasy_weights(
        f.shared, f.cross, f.prior_mean, f.prior_variance, f.labels, accuracy
    )
    return torch.cat([a.mT, a_new.unsqueeze(-1)], dim=-1)


def conditioned_weights(model: AnyModel, X: Tensor, label: float) -> Tensor:
    """The same from models that hold the trials, ``C x batch_shape x (n + 1)``."""
    trials = X if isinstance(model, BinaryLaplaceGP) else X.unsqueeze(-3)
    Y = torch.full((*X.shape[:-2], 1, 1), label, dtype=X.dtype)
    conditioned = model.condition_on_observations(trials, Y)
    with torch.no_grad():
        return conditioned.laplace_approximation.weights


# ------------------------------------------------------------------------------- modes


@both_models
class TestWeights:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("label", [0.0, 1.0])
    def test_equal_those_of_a_conditioned_model(
        self, model_class: ModelClass, kind: str, label: float
    ) -> None:
        problem = Problem(kind, 2, model_class, constant=0.4, n=15)
        X = problem.candidates(30)
        found = weights_of(fantasize(problem.model, X, label))
        assert_close(found, conditioned_weights(problem.model, X, label), 1e-9)

    def test_by_hand(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, n=8, constant=-0.3)
        X = problem.candidates(3)
        for label in (0.0, 1.0):
            found = weights_of(fantasize(problem.model, X, label))
            for weights, trial in zip(found, X.numpy(), strict=True):
                given = problem.by_hand.given(trial, label)
                assert_close(weights, given.gradient_and_information[0], 1e-9)

    def test_of_a_batch(self, model_class: ModelClass) -> None:
        elements = [[0, 1, 2], [3, 4, 5]]
        problem = Problem("additive", 2, model_class, elements, constant=0.4)
        X = problem.candidates(4, 2, 3)
        for label in (0.0, 1.0):
            found = weights_of(fantasize(problem.model, X, label))
            expected = conditioned_weights(problem.model, X, label)
            assert_close(found, expected.movedim(0, -2), 1e-9)

    def test_without_data(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, n=0, constant=0.4)
        X = problem.candidates(5)
        for label in (0.0, 1.0):
            found = weights_of(fantasize(problem.model, X, label))
            assert found.shape == (5, 1)
            assert_close(found, conditioned_weights(problem.model, X, label), 1e-9)

    def test_through_a_transform(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, normalized=True)
        X = problem.candidates(5)
        found = weights_of(fantasize(problem.model, X, 1.0))
        assert_close(found, conditioned_weights(problem.model, X, 1.0), 1e-9)

    def test_repeated_trial(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        X = problem.element_trials(0)[0]
        for label in (0.0, 1.0):
            found = weights_of(fantasize(problem.model, X, label))
            assert_close(found, conditioned_weights(problem.model, X, label), 1e-9)

    def test_single_precision(self, model_class: ModelClass) -> None:
        problem = Problem("product", 2, model_class, n=15)
        X = problem.candidates(10)
        expected = weights_of(fantasize(problem.model, X, 1.0))
        problem.model.float()
        found = weights_of(fantasize(problem.model, X.float(), 1.0))
        assert found.dtype == torch.float
        assert_close(found.double(), expected, 1e-3)

    def test_no_candidates(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        found = weights_of(fantasize(problem.model, problem.candidates(0), 1.0))
        assert found.shape == (0, problem.n + 1)

    def test_makes_nothing_on_the_default_device(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class)
        with RequireDevice():
            weights_of(fantasize(problem.model, problem.candidates(4), 1.0))


class TestGuesses:
    def test_equal_those_of_a_conditioned_model(self) -> None:
        for guess_rate in (0.02, 0.25, 0.5):
            problem = Problem("product", 2, n=15, guess_rate=guess_rate)
            X = problem.candidates(30)
            for label in (0.0, 1.0):
                found = weights_of(fantasize(problem.model, X, label))
                expected = conditioned_weights(problem.model, X, label)
                assert_close(found, expected, 1e-9)

    def test_by_hand(self) -> None:
        problem = Problem("additive", 1, n=8, guess_rate=0.2)
        X = problem.candidates(3)
        for label in (0.0, 1.0):
            found = weights_of(fantasize(problem.model, X, label))
            for weights, trial in zip(found, X.numpy(), strict=True):
                given = problem.by_hand.given(trial, label)
                assert_close(weights, given.gradient_and_information[0], 1e-9)


class TestAnyData:
    @given(
        X=inputs((7, 2)),
        Y=labels((7, 1)),
        candidates=inputs((4, 1, 2)),
        label=st.sampled_from([0.0, 1.0]),
        scale=st.sampled_from([0.1, 3.0, 100.0]),
    )
    def test_equal_those_of_a_conditioned_model(
        self, X: Tensor, Y: Tensor, candidates: Tensor, label: float, scale: float
    ) -> None:
        kernel = simple_kernel()
        kernel.outputscale = double(scale)
        model = BinaryLaplaceGP(X, Y, covar_module=kernel)
        found = weights_of(fantasize(model, candidates, label))
        expected = conditioned_weights(model, candidates, label)
        assert_close(found, expected, 1e-9)


class TestAccuracy:
    """A threshold that outcomes reveal sharply: one more changes all curvatures."""

    def setup_method(self) -> None:
        X = uniform(40, 3)
        kernel = AdditiveContextKernel(simple_kernel(dim=2), context_dims=[0])
        kernel.base_kernel.outputscale = double(9.0)
        kernel.context_variance = double(9.0)
        score = torch.sin(6 * X[:, 1:2]) + X[:, 2:] - 4 * (X[:, :1] - 0.5)
        Y = (3 * score > 0).to(X)
        model = BinaryLaplaceGP(X, Y, covar_module=kernel)
        self.fantasies = fantasize(model, uniform(60, 1, 3, seed=1), 0.0)

    def test_exact_needs_no_repair(self) -> None:
        with recorded("_repair") as failures:
            self.fantasies.solve()
        assert failures[0].double().mean().item() < 0.05

    def test_less_exact(self) -> None:
        exact = weights_of(self.fantasies)
        fine, coarse = (weights_of(self.fantasies, x) for x in (FINE, COARSE))
        assert float((fine - exact).abs().max()) > 1e-12
        assert float((fine - exact).abs().quantile(0.99)) < 1e-5
        assert float((coarse - exact).abs().quantile(0.9)) < 1e-2


class TestShared:
    def test_matrices_equal_those_by_hand(self) -> None:
        for model_class in MODEL_CLASSES:
            problem = Problem("additive", 2, model_class, constant=0.4)
            shared = Shared.of(problem.model)
            by_hand = problem.by_hand
            gradient, W = by_hand.gradient_and_information
            K = by_hand.prior(by_hand.trials, by_hand.trials)
            identity = np.eye(problem.n)
            assert_close(shared.K, K, 1e-13)
            assert_close(shared.P, np.linalg.inv(K + np.diag(1 / W)), 1e-10)
            assert_close(shared.S, np.linalg.inv(identity + W[:, None] * K), 1e-10)
            assert_close(shared.weights.squeeze(-1), gradient, 1e-11)
            mean = by_hand.prior_mean(by_hand.trials)
            assert_close(shared.prior_mean.squeeze(-1), mean, 1e-12)

    def test_has_no_graph(self) -> None:
        shared = Shared.of(Problem("additive").model)
        for name in ("prior_mean", "weights", "K", "P", "S"):
            assert not getattr(shared, name).requires_grad, name


# --------------------------------------------------------------------------- gradients


def moments_of(fantasies: Fantasies) -> tuple[Tensor, Tensor, Tensor]:
    f = fantasies
    parts = (f.cross, f.prior_mean, f.prior_variance)
    return tuple(part.clone().requires_grad_() for part in parts)  # pyright: ignore


def has_right_gradient(fantasies: Fantasies) -> bool:
    """Of the weights, in the prior moments of the new trials."""
    f = fantasies

    def weights(cross: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        parts = fantasy_weights(f.shared, cross, mean, variance, f.labels)
        return tuple(part for part in parts if part.numel())

    return gradcheck(weights, moments_of(f), rtol=1e-6, atol=1e-8)


@both_models
class TestGradient:
    @pytest.mark.parametrize("label", [0.0, 1.0])
    def test_in_the_moments(self, model_class: ModelClass, label: float) -> None:
        problem = Problem("product", 1, model_class, n=4)
        f = fantasize(problem.model, problem.candidates(3), label)
        assert has_right_gradient(f)

    def test_of_a_batch(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, [0, 1], n=3)
        f = fantasize(problem.model, problem.candidates(2, 2), 1.0)
        assert has_right_gradient(f)

    def test_without_data(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, n=0)
        f = fantasize(problem.model, problem.candidates(3), 1.0)
        assert has_right_gradient(f)

    def test_in_the_candidate(self, model_class: ModelClass) -> None:
        problem = Problem("additive", 2, model_class)
        model, shared = problem.model, Shared.of(problem.model)
        target = uniform(problem.n + 1, 2, seed=9)

        def score(X: Tensor) -> Tensor:
            c = model.values_of(X)
            a, a_new = fantasy_weights(
                shared,
                c.cross,
                c.prior_mean,
                c.prior_variance,
                torch.ones_like(c.prior_mean),
            )
            return (a * target[:-1]).sum() + (a_new * target[-1]).sum()

        X = problem.candidates(2).requires_grad_()
        (found,) = torch.autograd.grad(score(X), X)
        assert_close(found, finite_difference(score, X.detach()), 1e-8)

    def test_only_once(self, model_class: ModelClass) -> None:
        problem = Problem("product", 1, model_class, n=4)
        f = fantasize(problem.model, problem.candidates(3), 1.0)
        moments = moments_of(f)
        a, _ = fantasy_weights(f.shared, *moments, f.labels)
        total = a.square().sum()
        (slope,) = torch.autograd.grad(total, moments[0], create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            slope.sum().backward()


class TestAdjoint:
    def assert_solves(self, fantasies: Fantasies, atol: float = 1e-9) -> None:
        """Against a dense system for each candidate."""
        a, a_new = fantasies.solve()
        b = torch.sin(a * 40)
        b_new = torch.cos(a_new * 40)
        Hx, hx = fantasies.solve_adjoint(a, a_new, b, b_new)
        weights = torch.cat([a, a_new.unsqueeze(-2)], dim=-2)
        curvature = fantasies.derivatives(weights).negative_hessian
        for c in range(a.shape[-1]):
            k, kappa = fantasies.cross[:, c], fantasies.prior_variance[c]
            border = torch.cat([k, kappa.reshape(1)])
            K = torch.cat([fantasies.shared.K, k[None]])
            K = torch.cat([K, border[:, None]], dim=1)
            H = curvature[:, c]
            rhs = torch.cat([b[:, c], b_new[c].reshape(1)])
            system = torch.eye(len(H), dtype=H.dtype) + K * H
            expected = H * torch.linalg.solve(system, rhs)
            found = torch.cat([Hx[:, c], hx[c].reshape(1)])
            assert_close(found, expected, atol)

    def test_solution_equals_that_of_a_dense_system(self) -> None:
        for model_class in MODEL_CLASSES:
            problem = Problem("product", 2, model_class, n=12)
            for label in (0.0, 1.0):
                self.assert_solves(
                    fantasize(problem.model, problem.candidates(5), label)
                )

    def test_dense_with_guesses(self) -> None:
        for guess_rate in (0.1, 0.5):
            problem = Problem("product", 2, n=12, guess_rate=guess_rate)
            for label in (0.0, 1.0):
                X = problem.candidates(5)
                self.assert_solves(fantasize(problem.model, X, label))


# ---------------------------------------------------------------------------- fallbacks


# One step, and two for the adjoint system: never enough.
HASTY = replace(EXACT, max_steps=1)


@contextmanager
def recorded(name: str) -> Iterator[list[Tensor]]:
    """Which candidates a fallback is told have failed, call by call."""
    original, failures = getattr(Fantasies, name), []

    def record(self: Fantasies, *args: Tensor) -> Tensor:
        failures.append(args[-1])
        return original(self, *args)

    with mock.patch.object(Fantasies, name, record):
        yield failures


def saturated_model(label: float = 1.0) -> tuple[BinaryLaplaceGP, LaplaceByHand]:
    """Outcomes that are all alike, under a prior that makes them certain."""
    X = double([[0.1], [0.2], [0.3], [0.4], [0.9]])
    kernel = simple_kernel(dim=1)
    kernel.outputscale = double(400.0)
    kernel.base_kernel.lengthscale = double(0.3)
    model = BinaryLaplaceGP(X, torch.full_like(X, label), covar_module=kernel)

    def covariance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return 400.0 * np.exp(-((first - second.T) ** 2) / 0.18)

    trials = X.unsqueeze(-2).numpy()
    labels = np.full(5, label)
    return model, LaplaceByHand(covariance, trials, labels)


SURPRISES = double([[0.15], [0.25], [0.35], [0.6]]).unsqueeze(-2)


class TestFallback:
    def test_saturated_data(self) -> None:
        # One fail among certain passes: the old curvature says nothing of the new one.
        for label in (0.0, 1.0):
            model, by_hand = saturated_model(label)
            with recorded("_repair") as failures:
                found = weights_of(fantasize(model, SURPRISES, 1 - label))
            assert bool(failures[0].any())
            expected = conditioned_weights(model, SURPRISES, 1 - label)
            assert_close(found, expected, 1e-9)
            for weights, trial in zip(found, SURPRISES.numpy(), strict=True):
                given = by_hand.given(trial, 1 - label)
                assert_close(weights, given.gradient_and_information[0], 1e-9)

    def test_saturated_gradient(self) -> None:
        model, _ = saturated_model()
        f = fantasize(model, SURPRISES, 0.0)
        with recorded("_repair_adjoint") as failures:
            TestAdjoint().assert_solves(f)
        assert bool(failures[0].any())
        moments = moments_of(f)
        target = uniform(6, 4, seed=9)

        def score(cross: Tensor) -> Tensor:
            a, a_new = fantasy_weights(f.shared, cross, *moments[1:], f.labels)
            return (a * target[:-1]).sum() + (a_new * target[-1]).sum()

        (found,) = torch.autograd.grad(score(moments[0]), moments[0])
        assert_close(found, finite_difference(score, f.cross, step=0.02), 1e-7)

    def test_some_fail_and_some_do_not(self) -> None:
        model, _ = saturated_model()
        X = torch.cat([SURPRISES, double([[[0.9]], [[-3.0]]])])
        label = double([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
        f = fantasize(model, X, label)
        with recorded("_repair") as failures:
            found = weights_of(f)
        assert bool(failures[0].any())
        assert not bool(failures[0].all())
        for i, weights in enumerate(found):
            expected = conditioned_weights(model, X[i : i + 1], label[i].item())
            assert_close(weights, expected.squeeze(0), 1e-9)

    def test_forced_repair_finds_the_same_solutions(self) -> None:
        for model_class in MODEL_CLASSES:
            for elements in (0, [[0, 1, 2], [3, 4, 5]]):
                problem = Problem("product", 2, model_class, elements, constant=0.4)
                X = problem.candidates(4, *problem.model.batch_shape)
                f = fantasize(problem.model, X, 1.0)
                expected = weights_of(f)
                b = torch.sin(40 * expected[..., :-1].mT)
                b_new = torch.cos(40 * expected[..., -1])
                a = expected[..., :-1].mT, expected[..., -1]
                adjoint = f.solve_adjoint(*a, b, b_new)
                with (
                    recorded("_repair") as failures,
                    recorded("_repair_adjoint") as adjoint_failures,
                ):
                    found = weights_of(f, HASTY)
                    found_adjoint = f.solve_adjoint(*a, b, b_new, HASTY)
                assert bool(failures[0].all())
                assert bool(adjoint_failures[0].all())
                assert_close(found, expected, 1e-9)
                for part, wanted in zip(found_adjoint, adjoint, strict=True):
                    assert_close(part, wanted, 1e-9)

    def test_not_needed(self) -> None:
        # On ordinary data neither fallback is used, in either precision.
        for dtype in (torch.double, torch.float):
            problem = Problem("product", 2, n=15)
            problem.model.to(dtype)
            f = fantasize(problem.model, problem.candidates(20).to(dtype), 1.0)
            with recorded("_repair") as failures:
                a, a_new = f.solve()
            with recorded("_repair_adjoint") as adjoint_failures:
                f.solve_adjoint(a, a_new, torch.sin(40 * a), torch.cos(40 * a_new))
            assert not bool(failures[0].any())
            assert not bool(adjoint_failures[0].any())

    def test_with_guesses(self) -> None:
        problem = replace(Problem("product", 2, n=12), guess_rate=0.5)
        X = problem.candidates(6)
        found = weights_of(fantasize(problem.model, X, 0.0), HASTY)
        assert_close(found, conditioned_weights(problem.model, X, 0.0), 1e-9)
