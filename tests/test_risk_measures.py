r"""BoTorch's own way to goals over contexts: transforms and risk measures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.acquisition import qSimpleRegret, qUpperConfidenceBound
from botorch.acquisition.risk_measures import (
    CVaR,
    Expectation,
    RiskMeasureMCObjective,
    VaR,
    WorstCase,
)
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms.input import (
    AppendFeatures,
    ChainedInputTransform,
    InputPerturbation,
    Normalize,
)
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Tensor

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    ContextSpace,
    PreferenceLaplaceGP,
    WorstContext,
    recommend,
)
from botorch_binary_context.models.latent_gp import LatentGP
from tests.small_models import MODEL_CLASSES, ModelClass, random_model
from tests.tensors import double, uniform

CONTEXTS = double([[0.1], [0.4], [0.8], [0.9]])
MEASURES: dict[str, Callable[[], RiskMeasureMCObjective]] = {
    "expectation": lambda: Expectation(n_w=4),
    "worst": lambda: WorstCase(n_w=4),
    "var": lambda: VaR(alpha=0.5, n_w=4),
    "cvar": lambda: CVaR(alpha=0.5, n_w=4),
}


def with_contexts(model_class: ModelClass) -> LatentGP:
    """The last column is a context, of which the model knows four values."""
    plain = random_model(model_class, 12)
    return model_class(
        plain.train_inputs[0],
        plain.train_targets.unsqueeze(-1),
        covar_module=plain.covar_module,
        input_transform=AppendFeatures(feature_set=CONTEXTS),
    )


def by_hand(name: str, values: Tensor) -> Tensor:
    """The risk measure of ``S x 4`` values."""
    ordered = values.sort(dim=-1).values
    return {
        "expectation": values.mean(dim=-1),
        "worst": ordered[:, 0],
        "var": ordered[:, 2],  # at least as good as half of them
        "cvar": ordered[:, :3].mean(dim=-1),
    }[name]


@pytest.mark.parametrize("model_class", MODEL_CLASSES)
class TestAppendFeatures:
    @pytest.mark.parametrize("name", MEASURES)
    def test_risk_measures(self, model_class: ModelClass, name: str) -> None:
        model = with_contexts(model_class)
        sampler = SobolQMCNormalSampler(torch.Size([512]), seed=0)
        acqf = qSimpleRegret(model, sampler, objective=MEASURES[name]())
        plain = random_model(model_class, 12)
        for x in (0.2, 0.7):
            rows = torch.cat([torch.full_like(CONTEXTS, x), CONTEXTS], dim=-1)
            draws = plain.posterior(rows).rsample(torch.Size([20000])).squeeze(-1)
            expected = by_hand(name, draws).mean()
            assert abs(acqf(double([[x]])) - expected) < 0.05

    def test_optimizing_finds_the_setting_of_our_goal(
        self, model_class: ModelClass
    ) -> None:
        """The same setting as that of our own goal."""
        model = with_contexts(model_class)
        sampler = SobolQMCNormalSampler(torch.Size([256]), seed=0)
        acqf = qSimpleRegret(model, sampler, objective=WorstCase(n_w=4))
        unit = double([[0.0], [1.0]])
        best, _ = optimize_acqf(acqf, unit, q=1, num_restarts=4, raw_samples=64)
        space = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]), [1], [0.5])
        plain = random_model(model_class, 12)
        goal = WorstContext(CONTEXTS)
        ours = recommend(plain, space, goal=goal)
        values = [goal.mean(plain, space, x) for x in (best[0], ours)]
        assert abs(values[0] - values[1]) < 0.02

    def test_bounds_of_cvar_have_a_value_for_each_trial(
        self, model_class: ModelClass
    ) -> None:
        objective = CVaR(alpha=0.5, n_w=4)
        acqf = qUpperConfidenceBound(
            with_contexts(model_class), 1.0, objective=objective
        )
        assert acqf(uniform(5, 2, 1)).shape == (5,)

    def test_trials_are_told_with_their_context(self, model_class: ModelClass) -> None:
        model = with_contexts(model_class)
        plain = random_model(model_class, 12)
        sides = () if model_class is BinaryLaplaceGP else (2,)
        X = uniform(2, *sides, 2, seed=3)
        Y = double([[1.0], [0.0]])
        model = model.condition_on_observations(X, Y)
        plain = plain.condition_on_observations(X, Y)
        assert model.train_inputs[0].shape == plain.train_inputs[0].shape
        rows = torch.cat([torch.full_like(CONTEXTS, 0.3), CONTEXTS], dim=-1)
        found = model.posterior(double([[0.3]])).mean
        torch.testing.assert_close(found, plain.posterior(rows).mean)

    def test_wrong_width(self, model_class: ModelClass) -> None:
        with pytest.raises(InputDataError, match=r"x q x 2``, but got shape \[4, 3\]"):
            with_contexts(model_class).posterior(uniform(4, 3))

    def test_our_acquisition_functions_refuse(self, model_class: ModelClass) -> None:
        """A candidate would be four trials."""
        acqf = BernoulliMutualInformation(with_contexts(model_class))
        q = 1 if model_class is BinaryLaplaceGP else 2
        with pytest.raises(UnsupportedError, match=f"but got {4 * q} rows"):
            acqf(uniform(3, q, 1))


@pytest.mark.parametrize("model_class", MODEL_CLASSES)
@pytest.mark.parametrize("name", MEASURES)
def test_perturbed_inputs_give_the_risk_measures_by_hand(
    model_class: ModelClass, name: str
) -> None:
    plain = random_model(model_class, 12)
    shifts = double([[0.0, 0.0], [0.1, -0.1], [-0.05, 0.1], [-0.1, -0.1]])
    bounds = double([[0.0, 0.0], [1.0, 1.0]])
    chain = ChainedInputTransform(
        perturb=InputPerturbation(shifts), scale=Normalize(2, bounds=bounds)
    )
    model = model_class(
        plain.train_inputs[0],
        plain.train_targets.unsqueeze(-1),
        covar_module=plain.covar_module,
        input_transform=chain,
    )
    sampler = SobolQMCNormalSampler(torch.Size([512]), seed=0)
    acqf = qSimpleRegret(model, sampler, objective=MEASURES[name]())
    x = double([0.4, 0.6])
    draws = plain.posterior(x + shifts).rsample(torch.Size([20000])).squeeze(-1)
    assert abs(acqf(x.unsqueeze(0)) - by_hand(name, draws).mean()) < 0.05


def test_scaled_contexts() -> None:
    """A context is appended first, and then scaled with the rest."""
    bounds = double([[0.0, -1.0], [2.0, 3.0]])
    X = double([[0.5, 0.0], [1.5, 2.0], [1.0, 1.0]])
    Y = double([[1.0], [0.0], [1.0]])
    contexts = double([[-0.5], [2.5]])
    chain = ChainedInputTransform(
        append=AppendFeatures(feature_set=contexts),
        scale=Normalize(2, bounds=bounds),
    )
    kernel = random_model(BinaryLaplaceGP).covar_module
    model = BinaryLaplaceGP(X, Y, covar_module=kernel, input_transform=chain)
    plain = BinaryLaplaceGP(
        X, Y, covar_module=kernel, input_transform=Normalize(2, bounds=bounds)
    )
    rows = torch.cat([torch.full_like(contexts, 1.2), contexts], dim=-1)
    found = model.posterior(double([[1.2]])).mean
    torch.testing.assert_close(found, plain.posterior(rows).mean)


def test_duels_without_appended_features_keep_their_rows() -> None:
    model = random_model(PreferenceLaplaceGP, 6)
    with pytest.raises(InputDataError, match=r"but got shape \[3, 1\]"):
        model.posterior(uniform(3, 1))
