r"""Stock acquisition functions improve on latent values, not on labels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    qExpectedImprovement,
    qLogExpectedImprovement,
)
from botorch.acquisition.analytic import LogProbabilityOfImprovement
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import (
    GenericMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor

from botorch_binary_context import BinaryGP, PreferenceGP
from botorch_binary_context.acquisition import best_latent_value

STOCK = (
    LogProbabilityOfImprovement,
    LogExpectedImprovement,
    qExpectedImprovement,
    qLogExpectedImprovement,
)


def make_data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(15, 2, dtype=torch.double, generator=generator)
    return X, (X[:, :1] > 0.4).double()


def construct(model: Any, acqf: type[AcquisitionFunction], **kwargs: Any) -> Tensor:
    X, Y = make_data()
    data = SupervisedDataset(X, Y, feature_names=["a", "b"], outcome_names=["y"])
    inputs = get_acqf_input_constructor(acqf)(model=model, training_data=data, **kwargs)
    return inputs["best_f"]


@pytest.mark.parametrize("acqf", STOCK)
def test_best_f_is_a_latent_value(acqf: type[AcquisitionFunction]) -> None:
    X, Y = make_data()
    model = BinaryGP(X, Y, input_transform=Normalize(d=2))
    expected = model.posterior(X).mean.max()
    assert expected != 1.0
    torch.testing.assert_close(construct(model, acqf), expected)


@pytest.mark.parametrize("acqf", STOCK)
def test_other_models_and_given_values_are_left_alone(
    acqf: type[AcquisitionFunction],
) -> None:
    X, Y = make_data()
    assert construct(SingleTaskGP(X, Y), acqf) == 1.0
    assert construct(BinaryGP(X, Y), acqf, best_f=0.25) == 0.25


def test_objectives_and_transforms_are_applied() -> None:
    model = BinaryGP(*make_data())
    mean = model.posterior(make_data()[0]).mean
    halved = GenericMCObjective(lambda samples, X=None: 0.5 * samples.squeeze(-1))
    found = construct(model, qLogExpectedImprovement, objective=halved)
    torch.testing.assert_close(found, 0.5 * mean.max())
    negative = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=torch.double))
    found = construct(model, LogExpectedImprovement, posterior_transform=negative)
    torch.testing.assert_close(found, -mean.min())


def test_batches_of_duels() -> None:
    generator = torch.Generator().manual_seed(1)
    duels = torch.rand(3, 8, 2, 2, dtype=torch.double, generator=generator)
    winners = (duels[..., 0, :1] > duels[..., 1, :1]).double()
    model = PreferenceGP(duels, winners)
    best = best_latent_value(model)
    assert best.shape == (3,)
    for i in range(3):
        single = PreferenceGP(duels[i], winners[i])
        rows = duels[i].reshape(-1, 2)
        torch.testing.assert_close(best[i], single.posterior(rows).mean.max())
