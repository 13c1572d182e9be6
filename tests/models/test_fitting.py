from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.optim.fit import fit_gpytorch_mll_scipy
from gpytorch.constraints import Interval
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_binary_context import (
    BinaryGP,
    BinaryLaplaceGP,
    PreferenceGP,
    PreferenceLaplaceGP,
)
from botorch_binary_context.inference import Laplace
from botorch_binary_context.models import fitting
from botorch_binary_context.models.mll import ApproximateMarginalLogLikelihood
from botorch_binary_context.numerics import descent
from tests.closeness import assert_all_close
from tests.small_models import random_trials


def learned(model: Any) -> torch.Tensor:
    """The raw hyperparameters."""
    free = [p for p in model.parameters() if p.requires_grad]
    return torch.cat([p.detach().flatten() for p in free])


def objective(model: Any) -> ApproximateMarginalLogLikelihood:
    return ApproximateMarginalLogLikelihood(model.likelihood, model)


class TestFit:
    def test_ends_where_botorch_ends(self) -> None:
        for model_class, kind in (
            (BinaryGP, BinaryLaplaceGP),
            (BinaryLaplaceGP, BinaryLaplaceGP),
            (PreferenceGP, PreferenceLaplaceGP),
        ):
            X, Y = random_trials(kind, 15)
            model = model_class(X, Y)
            other = model_class(X, Y)
            mll = fit_gpytorch_mll(objective(model))
            assert not mll.training
            # An optimizer that is named is BoTorch's affair.
            with mock.patch.object(fitting, "_climb") as climb:
                fit_gpytorch_mll(objective(other), optimizer=fit_gpytorch_mll_scipy)
            climb.assert_not_called()
            assert_all_close(learned(model), learned(other), rtol=0, atol=1e-4)

    def test_the_value_is_that_of_a_call(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 10, batch_shape=(2,))
        mll = objective(BinaryGP(X, Y)).train()
        expected = mll(mll.model(*mll.model.train_inputs), mll.model.train_targets)
        assert_all_close(mll.at_training_data(), expected, rtol=0, atol=1e-12)

    def test_options_are_those_of_scipy(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 15)
        begin = learned(BinaryGP(X, Y))
        few = BinaryGP(X, Y)
        many = BinaryGP(X, Y)
        options = {"options": {"maxiter": 1}}
        fit_gpytorch_mll(objective(few), optimizer_kwargs=options)
        fit_gpytorch_mll(objective(many))
        assert (learned(few) - begin).abs().max().item() > 0.0
        assert (learned(few) - learned(many)).abs().max().item() > 1e-3

    def test_bounds_hold(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 15)
        bounds = Interval(0.4, 0.5, transform=None, initial_value=0.45)
        kernel = ScaleKernel(RBFKernel(lengthscale_constraint=bounds))
        model = BinaryGP(X, Y, covar_module=kernel, inference=Laplace())
        fit_gpytorch_mll(objective(model))
        lengthscale = kernel.base_kernel.lengthscale.item()
        assert 0.4 <= lengthscale <= 0.5

    def test_a_failure_is_left_to_botorch(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 8)
        model = BinaryGP(X, Y)
        begin = learned(model)
        error = RuntimeError("no factor")
        mll = objective(model)
        with (
            mock.patch.object(fitting.SmallObjective, "of", return_value=None),
            mock.patch.object(mll, "at_training_data", side_effect=error),
            mock.patch.object(fitting, "_fit_fallback") as fallback,
        ):
            fallback.side_effect = ModelFittingError
            with pytest.raises(ModelFittingError):
                fit_gpytorch_mll(mll)
        assert torch.equal(learned(model), begin)

    def test_nothing_to_learn(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 5)
        model = BinaryGP(X, Y).requires_grad_(False)
        with mock.patch.object(fitting, "_fit_fallback") as fallback:
            fit_gpytorch_mll(objective(model))
        fallback.assert_called_once()


class TestBatch:
    @pytest.mark.parametrize(
        "model_class", [BinaryGP, BinaryLaplaceGP, PreferenceLaplaceGP]
    )
    def test_ends_where_single_fits_end(self, model_class: Any) -> None:
        torch.manual_seed(3)
        kind = (
            PreferenceLaplaceGP if "Pref" in model_class.__name__ else BinaryLaplaceGP
        )
        X, Y = random_trials(kind, 20, batch_shape=(6,))
        batch = model_class(X, Y)
        found = []

        def minimize_each(*arguments: Any) -> Any:
            found.append(descent.minimize_each(*arguments))
            return found[-1]

        with (
            mock.patch.object(fitting, "minimize_each", minimize_each),
            mock.patch.object(fitting, "minimize") as joint,
        ):
            fit_gpytorch_mll(objective(batch))
        joint.assert_not_called()
        values = batch.log_posterior_of_hyperparameters()
        for x, y, value in zip(X, Y, values, strict=True):
            single = model_class(x, y)
            fit_gpytorch_mll(objective(single))
            expected = single.log_posterior_of_hyperparameters()
            assert value.item() == pytest.approx(expected.item(), abs=1e-4)
        assert found[0].num_evaluations.mean() <= 12

    def test_options_make_the_search_a_joint_one(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 12, batch_shape=(2,))
        model = BinaryLaplaceGP(X, Y)
        with mock.patch.object(fitting, "minimize_each") as each:
            options = {"options": {"maxiter": 50}}
            fit_gpytorch_mll(objective(model), optimizer_kwargs=options)
        each.assert_not_called()

    def test_what_is_not_found_is_left_to_a_joint_search(self) -> None:
        X, Y = random_trials(BinaryLaplaceGP, 12, batch_shape=(2,))
        model = BinaryLaplaceGP(X, Y)
        other = BinaryLaplaceGP(X, Y)
        lost = mock.Mock(is_found=torch.tensor([True, False]).numpy())
        with mock.patch.object(fitting, "minimize_each", return_value=lost):
            fit_gpytorch_mll(objective(model))
        fit_gpytorch_mll(objective(other))
        assert_all_close(learned(model), learned(other), rtol=0, atol=2e-2)
