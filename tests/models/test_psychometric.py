from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    ContextSpace,
    LaplaceMarginalLogLikelihood,
    psychometric_gp,
    recommend,
    suggest,
)
from botorch_binary_context.models.coordinates import (
    CombineParameters,
    center_contexts,
)
from botorch_binary_context.models.defaults import psychometric_covar_module
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem, blur
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.tensors import double, uniform

SPACE = RefractionProblem().space


def trials(*shape: int, seed: int = 0) -> Tensor:
    """Letters and lenses."""
    low, high = SPACE.bounds
    return torch.lerp(low, high, uniform(*shape, 3, seed=seed))


def patient_model(n: int, **kwargs: Any) -> BinaryGP:
    """Of a simulated patient."""
    X = trials(n)
    Y = RefractionProblem(prescription=(1.0, -2.0)).observe(
        X, torch.Generator().manual_seed(0)
    )
    return psychometric_gp(X, Y, SPACE, **kwargs)


class TestPrior:
    def test_kernel_equals_its_formula(self) -> None:
        X = uniform(5, 3)
        kernel = psychometric_covar_module(3, [0], torch.Size()).double()
        r = 5**0.5 * torch.cdist(X[:, 1:], X[:, 1:]) / 0.4
        smooth = 9 * (1 + r + r.square() / 3) * (-r).exp()
        expected = 4 * X[:, :1] @ X[:, :1].T + smooth + 25
        assert_all_close(to_dense(kernel(X)), expected)

    def test_lengthscale_grows_with_the_dimension(self) -> None:
        for num_parameters, expected in ((1, 0.4 / 2**0.5), (8, 0.8)):
            dim = num_parameters + 1
            kernel: Any = psychometric_covar_module(dim, [0], torch.Size())
            found = kernel.base_kernel.kernels[0].base_kernel.lengthscale
            assert_all_close(found, torch.full((1, num_parameters), expected))

    def test_coordinates_of_contexts_are_centered(self) -> None:
        transform = center_contexts(SPACE)
        corners = double([[-1.0, -4.0, -4.0], [2.0, 4.0, 4.0], [0.5, 0.0, 0.0]])
        expected = double([[-1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.5, 0.5]])
        assert_all_close(transform(corners), expected)

    def test_contexts_in_any_column(self) -> None:
        bounds = double([[-4.0, 0.0, -1.0], [4.0, 9.0, 1.0]])
        space = ContextSpace(bounds, context_dims=[1], reference_context=3.0)
        found = center_contexts(space)(double([[0.0, 4.5, 0.0], [4.0, 9.0, 1.0]]))
        assert_all_close(found, double([[0.5, 0.0, 0.5], [1.0, 1.0, 1.0]]))

    def test_before_the_first_trial(self) -> None:
        X = trials(6)
        for harder, sign in (("down", 1.0), ("up", -1.0)):
            model = psychometric_gp(X[:0], X[:0, :1], SPACE, harder=harder)
            expected = sign * 6.0 * (X[:, 0] - 0.5) / 1.5
            assert_all_close(model.posterior(X).mean.squeeze(-1), expected)
        assert suggest(model, SPACE, seed=0).shape == (1, 3)

    @pytest.mark.parametrize(
        ("harder", "signs"),
        [
            (["up", "down"], [-1.0, 1.0]),
            (["down", "up"], [1.0, -1.0]),
            ("up", [-1.0, -1.0]),
        ],
    )
    def test_each_context_has_its_direction(
        self, harder: str | Sequence[str], signs: list[float]
    ) -> None:
        """In the order of ``space.context_dims``, whatever order it was made with."""
        space = ContextSpace(double([[-1.0] * 3, [1.0] * 3]), [2, 0], [0.0, 0.5])
        assert space.context_dims == (0, 2)
        X = 2 * uniform(6, 3) - 1
        model = psychometric_gp(X[:0], X[:0, :1], space, harder=harder)
        expected = 6 * (signs[0] * X[:, 0] + signs[1] * X[:, 2])
        assert_all_close(model.posterior(X).mean.squeeze(-1), expected)

    @pytest.mark.parametrize("slope", ["constant", "varies"])
    def test_answers_do_not_turn_the_directions(self, slope: str) -> None:
        """Noise rises and letters shrink: both make tests harder."""
        space = ContextSpace(double([[-1.0] * 3, [1.0] * 3]), [0, 1], [0.0, 0.0])
        X = 2 * uniform(40, 3) - 1
        Y = (X[:, 1:2] > X[:, :1]).double()
        model = psychometric_gp(X, Y, space, harder=["up", "down"], slope=slope)
        test_X = double([[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]])
        quiet, noisy = model.posterior(test_X).mean.flatten()
        small, large = model.posterior(test_X[:, [1, 0, 2]]).mean.flatten()
        assert quiet > noisy + 3.0
        assert large > small + 3.0

    def test_rates_are_passed_to_the_likelihood(self) -> None:
        model = patient_model(5, guess_rate=0.25, lapse_rate=0.01)
        assert model.likelihood.guess_rate == 0.25
        assert model.likelihood.lapse_rate == 0.01


class TestLearning:
    def fit(self, model: BinaryGP) -> BinaryGP:
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        return model

    def test_few_trials_do_not_overrule_the_priors(self) -> None:
        model: Any = self.fit(patient_model(10, guess_rate=1 / 26))
        smooth = model.covar_module.base_kernel.kernels[0]
        for found, prior, deviation in (
            (smooth.base_kernel.lengthscale, 0.4, 0.4),
            (smooth.outputscale, 9.0, 0.7),
            (model.mean_module.slope, 6.0, 0.5),
        ):
            shift = (found / prior).log().abs().max().item()
            assert shift < 2 * deviation

    def test_what_is_not_learned(self) -> None:
        model: Any = self.fit(patient_model(30))
        kernel = model.covar_module
        assert_all_close(kernel.context_variance, double(4.0))
        offset = kernel.base_kernel.kernels[1]
        assert_all_close(offset.constant, double([25.0]))

    def test_many_trials_teach_the_slope(self) -> None:
        slopes = []
        for slope in (2.0, 8.0):
            X = trials(400)
            Y = RefractionProblem(slope).observe(X, torch.Generator().manual_seed(1))
            model = self.fit(psychometric_gp(X, Y, SPACE, guess_rate=1 / 26))
            low, high = model.posterior(double([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])).mean
            slopes.append((high - low).item())
        assert abs(slopes[0] - 2.0) < 1.0
        assert abs(slopes[1] - 8.0) < 3.0

    def test_batch_equals_loop(self) -> None:
        problem = RefractionProblem(prescription=double([[1.0, 1.0], [-2.0, 0.5]]))
        X = trials(2, 12)
        Y = problem.observe(X, torch.Generator().manual_seed(0))
        batch = self.fit(psychometric_gp(X, Y, SPACE))
        test_X = trials(2, 5, seed=1)
        for i in range(2):
            alone = self.fit(psychometric_gp(X[i], Y[i], SPACE))
            found = batch.posterior(test_X).mean[i]
            expected = alone.posterior(test_X[i]).mean
            assert_all_close(found, expected, rtol=0.05, atol=0.05)

    def test_finds_a_prescription(self) -> None:
        problem = RefractionProblem(prescription=(1.0, -2.0))
        X = trials(500)
        Y = problem.observe(X, torch.Generator().manual_seed(0))
        model = psychometric_gp(X, Y, SPACE, guess_rate=1 / 26)
        acuity = -problem.score(recommend(model, SPACE))
        assert acuity.item() < 0.1


class TestSurroundings:
    def test_single_precision(self) -> None:
        space = ContextSpace(SPACE.bounds.float(), [0], 0.5)
        X = trials(5).float()
        Y = (X[:, :1] > math.log10(2.0)).float()
        with pytest.warns(InputDataWarning, match="float32"):
            model = psychometric_gp(X, Y, space)
        assert model.posterior(X).mean.dtype == torch.float

    def test_makes_nothing_on_the_default_device(self) -> None:
        X = trials(5)
        Y = (X[:, :1] > 0.5).double()
        with RequireDevice():
            psychometric_gp(X, Y, SPACE).posterior(X)


class TestCombinations:
    def test_coordinates_equal_the_power_vector_by_hand(self) -> None:
        X = trials(7)
        found = CombineParameters(SPACE, POWER_VECTOR)(X)
        sphere, cylinder = X[:, 1], X[:, 2]
        assert_all_close(found[:, 0], (X[:, 0] - 0.5) / 1.5)
        assert_all_close(found[:, 1], (sphere + cylinder / 2) / 8.0)
        assert_all_close(found[:, 2], cylinder / 2 / 8.0)

    def test_contexts_in_any_column(self) -> None:
        bounds = double([[-4.0, 0.0, -1.0, 2.0], [4.0, 9.0, 1.0, 3.0]])
        space = ContextSpace(bounds, context_dims=[1], reference_context=3.0)
        A = double([[1.0, 2.0, 0.0], [0.5, -1.0, 0.0], [0.3, 0.0, -3.0]])
        transform = CombineParameters(space, A)
        free = torch.tensor([0, 2, 3])
        W = transform.weights[free.unsqueeze(-1), free]
        assert_all_close(W, A / (8.0 * 2.0 * 1.0) ** (1 / 3))
        ends = transform(double([[0.0, 0.0, 0.0, 2.5], [0.0, 9.0, 0.0, 2.5]]))
        assert_all_close(ends[:, 1], double([-1.0, 1.0]))
        assert_all_close(ends[:, free], double([[0.0] * 3] * 2))

    def test_parameters_themselves(self) -> None:
        X = trials(7)
        found = CombineParameters(SPACE, [[1.0, 0.0], [0.0, 1.0]])(X)
        shift = double([0.0, 0.5, 0.5])
        assert_all_close(found, center_contexts(SPACE)(X) - shift)

    def test_untransform_inverts_the_transform(self) -> None:
        transform = CombineParameters(SPACE, POWER_VECTOR)
        X = trials(2, 7)
        assert_all_close(transform.untransform(transform(X)), X)

    def test_model_is_alike_in_lenses_of_the_same_blur(self) -> None:
        X = double([[0.5, 1.0, -0.5]])
        model = psychometric_gp(X, double([[1.0]]), SPACE, combinations=POWER_VECTOR)
        error = double([[1.0, 0.0], [1.0, -2.0], [-1.0, 0.0], [-1.0, 2.0]])
        assert_all_close(blur(error), double([1.0] * 4))
        means = model.posterior(SPACE.at_reference(X[:, 1:] + error)).mean
        assert_all_close(means, means[:1].expand_as(means))
        other = SPACE.at_reference(X[:, 1:] + double([[0.0, 1.0]]))  # less blur
        assert model.posterior(other).mean.item() > means[0].item()

    def test_wrong_space(self) -> None:
        X = trials(5)
        with pytest.raises(InputDataError, match="``space``"):
            psychometric_gp(X, X[:, :1].sign().relu(), ContextSpace(SPACE.bounds))
        with pytest.raises(BotorchTensorDimensionError, match="``train_X``.*5, 2"):
            psychometric_gp(X[:, :2], X[:, :1].sign().relu(), SPACE)

    @pytest.mark.parametrize("harder", [True, False, None, "rising", ["up", "down"]])
    def test_wrong_directions(self, harder: Any) -> None:
        X = trials(5)
        with pytest.raises(
            InputDataError, match="``harder`` to be 'up' or 'down', but"
        ):
            psychometric_gp(X, X[:, :1].sign().relu(), SPACE, harder=harder)

    def test_wrong_combinations(self) -> None:
        wrong: Any
        for wrong in (
            [[1.0, 0.5]],
            [[1.0, 0.5], [2.0, 1.0]],
            [[1.0, math.nan]] * 2,
            [[1.0], [1.0, 2.0]],
            "MJ",
        ):
            with pytest.raises(InputDataError, match="``combinations``.*2 x 2"):
                CombineParameters(SPACE, wrong)

    def test_makes_nothing_on_the_default_device(self) -> None:
        X = trials(5)
        Y = (X[:, :1] > 0.5).double()
        with RequireDevice():
            model = psychometric_gp(X, Y, SPACE, combinations=POWER_VECTOR)
            suggest(model, SPACE, "ts-ald", seed=0)
