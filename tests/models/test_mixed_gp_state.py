r"""Models of several kinds of trials: errors, states, bounds and fits."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.exceptions.errors import BotorchTensorDimensionError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context import (
    DIFFERENCE,
    ApproximateMarginalLogLikelihood,
    MixedGP,
    Observations,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Laplace,
)
from tests.closeness import assert_all_close
from tests.models.mixed_trials import (
    INFERENCES,
    TEST_X,
    assert_same,
    duels,
    evidence,
    mixed,
    moments,
    offset_kernel,
    outcomes,
)
from tests.tensors import double, uniform


class TestLearnedBounds:
    """A transform that learns its bounds learns one set of them, from all kinds."""

    def data(self) -> tuple[Observations, Observations]:
        """Outcomes in a small part of the box of the duels."""
        fights = duels()
        return outcomes(), Observations(10 * fights.X - 3, fights.Y, fights.likelihood)

    def rows(self) -> Tensor:
        first, second = self.data()
        return torch.cat([first.X, second.X.reshape(-1, 2)])

    def model(self, learn: bool = True) -> MixedGP:
        bounds = torch.stack(self.rows().aminmax(dim=0))
        transform = Normalize(2, bounds=None if learn else bounds)
        return mixed(*self.data(), input_transform=transform)

    def test_posterior_equals_that_with_the_bounds_given(self) -> None:
        assert_same(self.model(), self.model(learn=False), self.rows())

    def test_prior_in_training(self) -> None:
        low, high = self.rows().aminmax(dim=0)
        K = offset_kernel()((self.rows() - low) / (high - low)).to_dense()
        pairs = torch.kron(torch.eye(5), torch.tensor([[1.0, -1.0]])).double()
        D = torch.block_diag(torch.eye(6, dtype=torch.double), pairs)
        model = self.model().train()
        found: Any = model(*model.train_inputs)
        expected = D @ K @ D.mT
        torch.testing.assert_close(
            found.covariance_matrix, expected, rtol=0, atol=1e-12
        )

    def test_posterior_after_training(self) -> None:
        model = self.model().train()
        model(*model.train_inputs)
        assert_same(model, self.model(learn=False), self.rows())

    def test_training_without_trials_of_a_kind(self) -> None:
        model = mixed(outcomes(), duels(0), input_transform=Normalize(2)).train()
        alone = mixed(outcomes(), input_transform=Normalize(2)).train()
        first, second = (m(*m.train_inputs) for m in (model, alone))
        assert_same_distribution(first, second)


def assert_same_distribution(first: Any, second: Any) -> None:
    for name in ("mean", "covariance_matrix"):
        values = getattr(first, name), getattr(second, name)
        torch.testing.assert_close(*values, rtol=0, atol=1e-12)


class TestErrors:
    def test_none_at_all(self) -> None:
        with pytest.raises(InputDataError, match="at least one kind, but got none"):
            MixedGP([])

    def test_observations_that_do_not_match(self) -> None:
        pairs = duels()
        wide = Observations(uniform(5, 2, 3), pairs.Y, pairs.likelihood)
        with pytest.warns(InputDataWarning, match="double precision"):
            single = Observations(pairs.X.float(), pairs.Y.float(), pairs.likelihood)
        for other, message in (
            (wide, "number of columns, but got 2 and 3"),
            (duels(5, 2), r"batch shape, but got \[\] and \[2\]"),
            (single, "dtype, but got torch.float64 and torch.float32"),
        ):
            with pytest.raises(InputDataError, match=message):
                MixedGP([outcomes(), other])

    def test_trials_of_another_shape(self) -> None:
        X = uniform(4, 2)
        Y = double([[1.0]] * 4)
        for inputs, labels, likelihood in (
            (X, Y, PreferenceLikelihood()),
            (uniform(4, 3, 2), Y, PreferenceLikelihood()),
            (uniform(4, 2, 2), Y, ProbitLikelihood()),
            (X, Y[:3], ProbitLikelihood()),
            (X, Y.squeeze(-1), ProbitLikelihood()),
        ):
            with pytest.raises(BotorchTensorDimensionError):
                Observations(inputs, labels, likelihood)
        for inputs, labels in ((X / 0, Y), (X, 2 * Y)):
            with pytest.raises(InputDataError):
                Observations(inputs, labels, ProbitLikelihood())

    def test_unknown_likelihood(self) -> None:
        new = outcomes(2)
        for likelihood in (
            ProbitLikelihood(),
            ProbitLikelihood(0.5, 0.02),
            ProbitLikelihood(0.5, learn_lapse_rate=True),
        ):
            other = Observations(new.X, new.Y, likelihood)
            with pytest.raises(UnsupportedError, match="another ProbitLikelihood"):
                mixed().condition_on_observations(other)

    def test_new_trials_of_another_shape(self) -> None:
        model = mixed()
        Y = double([[1.0]])
        with pytest.raises(BotorchTensorDimensionError, match="x n x 2``"):
            model.condition_on_observations(uniform(1, 3), Y)
        with pytest.raises(BotorchTensorDimensionError, match="x n x 2 x 2``"):
            model.asking(1).condition_on_observations(uniform(1, 2), Y)
        with pytest.raises(InputDataError, match="labels, but got None"):
            model.condition_on_observations(uniform(1, 2))

    def test_new_observations_of_another_dtype(self) -> None:
        new = outcomes(2)
        with pytest.warns(InputDataWarning, match="double precision"):
            single = Observations(new.X.float(), new.Y.float(), new.likelihood)
        found = mixed().condition_on_observations(single)
        assert moments(found)[0].dtype == torch.double

    def test_odd_number_of_rows(self) -> None:
        with pytest.raises(UnsupportedError, match="come in pairs"):
            mixed().asking(1).posterior(uniform(3, 2), observation_noise=True)


class TestState:
    def test_single_precision(self) -> None:
        for inference in (ExpectationPropagation(), Laplace()):
            model = mixed(inference=inference)
            expected = moments(model)
            single = deepcopy(model).to(torch.float)
            found = moments(single, TEST_X.float())
            for first, second in zip(found, expected, strict=True):
                assert first.dtype == torch.float
                assert_all_close(first.double(), second, rtol=0, atol=5e-4)
            again = moments(single.double())
            assert_all_close(again[0], expected[0], rtol=0, atol=1e-5)

    def test_state_dict(self) -> None:
        model = mixed()
        other = mixed()
        kernel: Any = model.covar_module
        kernel.kernels[0].outputscale = 7.0
        model.eval()
        moments(other)  # a cache that loading has to drop
        other.load_state_dict(model.state_dict())
        assert_same(other, model)

    def test_deepcopy_shares_nothing(self) -> None:
        model = mixed()
        copy = deepcopy(model)
        expected = moments(model)[0].detach().clone()
        kernel: Any = copy.covar_module
        kernel.kernels[0].outputscale = 7.0
        copy.train()
        assert (moments(copy)[0] - expected).abs().max().item() > 1e-3
        assert_all_close(moments(model)[0], expected, rtol=0, atol=0)

    def test_set_train_data(self) -> None:
        model = mixed()
        data = (outcomes(6, seed=60), duels(5, seed=70))
        inputs, labels = [o.X for o in data], [o.Y.squeeze(-1) for o in data]
        model.set_train_data(inputs, torch.cat(labels))
        assert_same(model, mixed(*data))

    def test_with_inference(self) -> None:
        changed = mixed().asking(1).with_inference(Laplace())
        assert changed.functional == DIFFERENCE
        assert_same(changed, mixed(inference=Laplace()))


def objective(mll: ApproximateMarginalLogLikelihood) -> Tensor:
    mll.train()
    model: Any = mll.model
    value: Any = mll(model(*model.train_inputs), model.train_targets)
    return value


class TestFit:
    def test_objective_is_the_evidence_per_trial(self) -> None:
        for inference in INFERENCES:
            model = mixed(inference=inference)
            mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
            found = 11 * objective(mll)
            assert_all_close(found, evidence(model), rtol=0, atol=1e-9)

    def test_increases_the_evidence(self) -> None:
        for inference in (ExpectationPropagation(), Laplace()):
            for batch_shape in ((), (2,)):
                data = outcomes(15, *batch_shape), duels(15, *batch_shape)
                model = MixedGP(data, inference=inference)
                mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
                before = objective(mll).item()
                fit_gpytorch_mll(mll)
                assert objective(mll).item() > before + 1e-4

    def test_learns_the_rates_of_every_kind(self) -> None:
        likelihood = ProbitLikelihood(0.5, 0.02, learn_lapse_rate=True)
        X = uniform(60, 2)
        Y = (uniform(60, 1, seed=1) > 0.25).double()  # a quarter fails, everywhere
        lapsing = Observations(X, Y, likelihood)
        mean = ConstantMean()
        mean.constant = double(3.0)
        mean.requires_grad_(False)
        kernel = ScaleKernel(RBFKernel()).double().requires_grad_(False)
        # The rates are those of the second kind.
        model = MixedGP([duels(), lapsing], kernel, mean)
        fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        found = torch.as_tensor(likelihood.lapse_rate).item()
        assert found > 0.08
