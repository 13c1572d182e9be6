r"""A constraint of a single bit beside a measured objective, in Ax and in BoTorch."""

from __future__ import annotations

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from botorch.acquisition.analytic import LogProbabilityOfFeasibility
from botorch.acquisition.logei import (
    qLogNoisyExpectedImprovement,
    qLogProbabilityOfFeasibility,
)
from botorch.acquisition.objective import GenericMCObjective
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.model import ModelList
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler

from botorch_binary_context import BinaryGP
from botorch_binary_context.ax import PassProbabilityModel, feasibility_strategy

X = torch.linspace(0, 1, 16, dtype=torch.double).unsqueeze(-1)
FEASIBLE = (X > 0.4).double()
COST = (X - 0.1).square() + 0.2  # the cheapest feasible setting is at the border
# Points of a smooth model that come near each other, and draws of it in which no trial
# is feasible: both must be expected.
OF_BOTORCH = pytest.mark.filterwarnings(
    "ignore:A not p.d., added jitter", "ignore:When all training points are infeasible"
)
BOUNDS = torch.tensor([[0.0], [1.0]], dtype=torch.double)


@pytest.fixture(scope="module")
def binary() -> BinaryGP:
    return BinaryGP(X, FEASIBLE).requires_grad_(False)


def test_probability_of_feasibility(binary: BinaryGP) -> None:
    """That success is likelier than 0.8, by quantiles of the latent function."""
    contrast = binary.likelihood.contrast_at(0.8)
    acqf = LogProbabilityOfFeasibility(binary, {0: (contrast, None)})
    points = torch.tensor([[[0.1]], [[0.5]], [[0.9]]], dtype=torch.double)
    draws = binary.probability_posterior(points.squeeze(1)).rsample(torch.Size([20000]))
    frequency = (draws > 0.8).double().mean(dim=0).squeeze(-1)
    torch.testing.assert_close(acqf(points).exp(), frequency, atol=0.01, rtol=0)


def test_probability_of_feasibility_by_draws(binary: BinaryGP) -> None:
    """The same of probabilities, as Ax asks it, with ``constraints``."""
    contrast = binary.likelihood.contrast_at(0.8)
    points = torch.tensor([[[0.3]], [[0.5]], [[0.9]]], dtype=torch.double)
    exact = LogProbabilityOfFeasibility(binary, {0: (contrast, None)})(points).exp()
    sampler = SobolQMCNormalSampler(torch.Size([2048]), seed=0)
    acqf = qLogProbabilityOfFeasibility(
        PassProbabilityModel(binary),
        constraints=[lambda Y: 0.8 - Y[..., 0]],
        sampler=sampler,
        eta=1e-4,
        fat=False,
    )
    torch.testing.assert_close(acqf(points).exp(), exact, atol=0.02, rtol=0)


@OF_BOTORCH
@pytest.mark.parametrize("as_probability", [False, True])
def test_constrained_improvement(binary: BinaryGP, as_probability: bool) -> None:
    objective = SingleTaskGP(X, -COST)
    if as_probability:
        model, least = ModelList(objective, PassProbabilityModel(binary)), 0.5
    else:
        model = ModelListGP(objective, binary)  # pyright: ignore
        least = binary.likelihood.contrast_at(0.5)
    acqf = qLogNoisyExpectedImprovement(
        model,
        X_baseline=X[::4],
        objective=GenericMCObjective(lambda Y, X=None: Y[..., 0]),
        constraints=[lambda Y: least - Y[..., 1]],
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        best, _ = optimize_acqf(acqf, BOUNDS, 1, 2, 32)
    assert 0.33 < float(best) < 0.5


@OF_BOTORCH
def test_feasibility_in_ax() -> None:
    client = Client(random_seed=0)
    client.configure_experiment(
        [
            RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0)),
            RangeParameterConfig(name="y", parameter_type="float", bounds=(0.0, 1.0)),
        ],
        name="feasibility",
    )
    client.configure_optimization("-cost", outcome_constraints=["ready >= 0.5"])
    client.set_generation_strategy(feasibility_strategy(["ready"], initial_trials=10))
    for _ in range(13):
        for index, t in client.get_next_trials(1).items():
            x = float(t["x"])
            y = float(t["y"])
            ready = x > 0.4
            outcome = {"ready": float(ready)}
            if ready:  # what is not ready costs nothing that could be measured
                outcome["cost"] = (x - 0.1) ** 2 + (y - 0.5) ** 2
            client.complete_trial(index, outcome)
    trials = client._experiment.trials
    chosen = [trials[i].arms[0].parameters for i in range(10, 13)]
    assert min(abs(float(t["x"]) - 0.4) for t in chosen) < 0.15  # pyright: ignore
    low, high = client.predict([{"x": 0.1, "y": 0.5}, {"x": 0.9, "y": 0.5}])
    assert 0 <= low["ready"][0] < 0.5 < high["ready"][0] <= 1
