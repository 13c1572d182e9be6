r"""Tests of what experiments know of lenses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.experiment import (
    Context,
    Lens,
    NamedSpace,
    Real,
    Settings,
)
from botorch_binary_context.experiment.coordinates import predicting_coordinates
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.surrogate import Surrogate
from tests.tensors import double

LINEAR = Context("size", reference=0.0, low=-0.3, high=1.2, harder="down")
LOG = Context("height", reference=1.0, low=0.5, high=50.0, scale="log", harder="down")
POWERS = [Real("sphere", -6.0, 4.0, step=0.25), Real("cylinder", -4.0, 0.0)]
LENS = Lens("lens", (-6, 4), (-4, 0), axis_step=None)
OTHER = Context("noise", reference=2.0, low=0.0, high=4.0, harder="up")


@pytest.mark.parametrize(
    ("context", "decades", "best"),
    [(LINEAR, 1.5, -0.05 - 0.45), (LOG, 2.0, 0.0)],
    ids=["linear", "log"],
)
@pytest.mark.parametrize(
    ("parameters", "options", "middle"),
    [
        ([LENS], {}, [-2.0, 0.0, 0.0]),
        (POWERS, {"combinations": "power-vector"}, [-2.0, -1.0]),
    ],
    ids=["lens", "powers"],
)
def test_functions_fall_by_the_acuity(
    parameters: list[Any],
    options: dict[str, Any],
    middle: list[float],
    context: Context,
    decades: float,
    best: float,
) -> None:
    """Of people who need other lenses; models' coordinates begin in the middle."""
    space = NamedSpace(parameters, [context])
    settings = Settings(space, priors="blur", **options)
    peaks: Any = make_prior(settings)["mean"].peaks
    needed = peaks.centers * math.sqrt(10.0 * 4.0) + double(middle)
    names = [part.name for part in space.parts]
    for sphere, cylinder in [(-1.0, -1.0), (-2.25, 0.0)]:
        # With an axis of 90 degrees, J0 is half the cylinder and J45 is zero.
        sides = [dict(zip(names, (sphere, cylinder, 90.0), strict=False))]
        row = settings.encoder().encode(space.reference_context(), sides)
        coordinates: Any = predicting_coordinates(settings)
        found = peaks(coordinates(row)[:, 1:]).squeeze(0)
        vector = [sphere + cylinder / 2, cylinder / 2, 0.0][: len(middle)]
        blur = (needed - double(vector)).square().sum(dim=-1)
        slope = 6.0 * 2 / decades
        expected = -slope * (torch.log10(1 + blur) + best)
        torch.testing.assert_close(found.detach(), expected)


def test_slope_has_one_name() -> None:
    settings = Settings(NamedSpace([LENS], [LINEAR]), priors="blur")
    assert Settings.from_dict(settings.to_dict()) == settings
    fixed = replace(settings, hyperparameters={"slope": 9.0})
    model: Any = Surrogate(fixed).predicting_model([], {})
    assert model.mean_module.peaks.context_mean.slope.item() == pytest.approx(9.0)
    assert model.mean_module.base_mean.slope.item() == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("space", "options", "expected"),
    [
        (NamedSpace([LENS], [LINEAR, OTHER]), {}, "one context"),
        (NamedSpace([LENS], [Context("size", 0, -1, 1)]), {}, "one context"),
        (NamedSpace(POWERS, [LINEAR]), {}, "'power-vector'"),
        (NamedSpace([LENS, Real("x", 0, 1)], [LINEAR]), {}, "a ``Lens``"),
        (NamedSpace([LENS], [LINEAR]), {"kernel": "product"}, "'product'"),
    ],
)
def test_refuses_what_is_no_eye_examination(
    space: NamedSpace, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises((InputDataError, UnsupportedError), match=expected):
        Settings(space, **options, priors="blur")
