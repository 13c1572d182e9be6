r"""Tests of the prior of an experiment's performance."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Duels,
    Integer,
    NamedSpace,
    PassFail,
    Periodic,
    Real,
    Settings,
)
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.models.defaults import (
    OUTPUTSCALE,
    PEAK_HEIGHT,
    PEAK_OUTPUTSCALE,
    PEAK_WIDTH,
)
from botorch_binary_context.numerics.covariance import covariance
from tests.tensors import uniform

CONTEXT = Context("noise", reference=2.0, low=0.0, high=4.0, harder="up")
MANY = NamedSpace(
    [
        *[Real(f"x{i}", 0.0, 1.0) for i in range(6)],
        Categorical("window", ["hann", "box", "flat"]),
        Categorical("mode", ["a", "b", "c", "d"]),
        Integer("taps", 1, 9),
    ],
    [CONTEXT],
)
KINDS = [
    Settings(MANY, PassFail()),
    Settings(MANY, PassFail(), kernel="multiplicative"),
    Settings(MANY, Duels()),
    Settings(NamedSpace(MANY.parameters), PassFail()),
    Settings(NamedSpace(MANY.parameters), Duels()),
]


def matrix(settings: Settings, sides: list[dict[str, Any]]) -> Tensor:
    """The prior covariance of parameters in the reference context."""
    kernel: Any = make_prior(settings)["covariance"]
    context = settings.space.reference_context()
    rows = settings.encoder().encode(context, sides)
    return covariance(kernel, rows, rows).detach()


def sides(**changes: Any) -> list[dict[str, Any]]:
    middle = {f"x{i}": 0.5 for i in range(6)}
    first = {**middle, "window": "hann", "mode": "a", "taps": 5}
    return [first, {**first, **changes}]


class TestCategories:
    def test_pooled_values_share_two_thirds_of_the_variance(self) -> None:
        """What was seen of one value is a guess of the others."""
        K = matrix(KINDS[2], sides(window="flat"))
        assert float(K[0, 1] / K[0, 0]) == pytest.approx(2 / 3)
        both = matrix(KINDS[2], sides(window="flat", mode="d"))
        assert float(both[0, 1] / both[0, 0]) == pytest.approx(4 / 9)

    def test_separate_values_are_nearly_uncorrelated(self) -> None:
        """One-hot columns with the lengthscale of numbers are nearly islands."""
        few = [Real("x", 0.0, 1.0), Categorical("window", ["hann", "box", "flat"])]
        settings = Settings(NamedSpace(few, [CONTEXT]), Duels(), priors="separate")
        first = {"x": 0.5, "window": "hann"}
        K = matrix(settings, [first, {**first, "window": "box"}])
        width = 0.25 * math.sqrt(4 / 2)
        assert float(K[0, 1] / K[0, 0]) == pytest.approx(
            math.exp(-1 / width**2), rel=1e-5
        )
        assert float(K[0, 1] / K[0, 0]) < 0.01


class TestThresholdOnly:
    def test_wide_priors_are_the_default(self) -> None:
        settings = Settings(NamedSpace([], [CONTEXT]))
        assert settings.priors == "wide"
        assert Settings(MANY).priors == "pooled"

    def test_settings_that_say_so_keep_the_old_ones(self) -> None:
        settings = Settings(NamedSpace([], [CONTEXT]), priors="pooled")
        again = Settings.from_dict(settings.to_dict())
        assert again.priors == "pooled"
        mean: Any = make_prior(again)["mean"]
        assert mean.slope.item() == pytest.approx(6.0)

    def test_wide_priors_allow_for_flatter_functions(self) -> None:
        """Wide priors allow for flatter functions, and for more of a difference."""
        for kind, median, spread, variance in (
            ("pooled", 6.0, 0.5, 4.0),
            ("wide", 3.0, 1.0, 1.0),
        ):
            settings = Settings(NamedSpace([], [CONTEXT]), priors=kind)
            prior: Any = make_prior(settings)
            assert prior["mean"].slope.item() == pytest.approx(median)
            density = prior["mean"].slope_prior
            assert float(density.mean.log() - 0.5 * density.scale**2) == pytest.approx(
                math.log(median)
            )
            assert float(density.scale) == pytest.approx(spread)
            found = prior["covariance"].context_variance
            assert found.item() == pytest.approx(variance)


class TestPeak:
    @pytest.mark.parametrize("drift", [None, 20])
    def test_moments_of_one_peak(self, drift: int | None) -> None:
        """Of settings that can be shown: categories are one of their values."""
        few = [Real("x", -1.0, 3.0), Categorical("window", ["hann", "box"])]
        space = NamedSpace(few, [CONTEXT])
        settings = {
            kind: Settings(space, PassFail(), priors=kind, drift=drift)
            for kind in ("pooled", "peak")
        }
        rows = (
            settings["peak"]
            .encoder()
            .encode(
                space.reference_context(),
                [{"x": 0.0, "window": "hann"}, {"x": 2.5, "window": "box"}],
            )
        )
        priors: dict[str, Any] = {k: make_prior(v) for k, v in settings.items()}
        means = {k: prior["mean"](rows) for k, prior in priors.items()}
        places = torch.cat(
            [uniform(4000, 1), torch.eye(2).double().repeat(2000, 1)], dim=-1
        )
        points = torch.tensor([[0.25, 1.0, 0.0], [0.875, 0.0, 1.0]]).double()
        squared = (points.unsqueeze(1) - places).square().sum(dim=-1)
        dim = places.shape[-1]
        drawn = -PEAK_HEIGHT * torch.log1p(squared / (PEAK_WIDTH**2 * dim / 2))
        gained = means["peak"] - means["pooled"]
        torch.testing.assert_close(gained, drawn.mean(dim=-1), rtol=0, atol=0.1)
        K = {
            k: covariance(prior["covariance"], rows, rows)
            for k, prior in priors.items()
        }
        more = (K["peak"] - K["pooled"]).diagonal().detach()
        expected = torch.cov(drawn).diagonal() + PEAK_OUTPUTSCALE - OUTPUTSCALE
        torch.testing.assert_close(more, expected, rtol=0, atol=0.3)

    def test_round_trip(self) -> None:
        settings = Settings(NamedSpace([Real("x", 0, 1)], [CONTEXT]), priors="peak")
        assert Settings.from_dict(settings.to_dict()) == settings

    @pytest.mark.parametrize(
        ("space", "options", "expected"),
        [
            (NamedSpace([], [CONTEXT]), {}, "0 parameters"),
            (NamedSpace(MANY.parameters), {}, "the kernel None"),
            (MANY, {"kernel": "multiplicative"}, "'multiplicative'"),
            (MANY, {"feedback": Duels()}, "'product'"),
            (NamedSpace([Periodic("a", 0.0, 180.0)], [CONTEXT]), {}, "'peak' with a"),
        ],
    )
    def test_refuses_spaces_and_kernels_that_have_no_peak(
        self, space: NamedSpace, options: dict[str, Any], expected: str
    ) -> None:
        with pytest.raises((InputDataError, UnsupportedError), match=expected):
            Settings(space, **{"feedback": PassFail(), **options}, priors="peak")


class TestHyperparameters:
    @pytest.mark.parametrize("settings", KINDS)
    def test_a_lengthscale_for_numbers_alone(self, settings: Settings) -> None:
        handles = Surrogate(settings).handles(make_prior(settings))
        module, _ = handles["lengthscale"]
        assert module.lengthscale.shape == (1, 7)
        module, _ = handles["correlation"]
        assert module.correlation.shape == (2,)

    def test_names_are_those_that_the_kernel_and_mean_have(self) -> None:
        """A lengthscale of contexts only where these have one."""
        names = [set(Surrogate(s).handles(make_prior(s))) for s in KINDS]
        shared = {"lengthscale", "correlation", "outputscale"}
        assert names[2] == {*shared, "context_lengthscale"}
        assert names[0] == {*shared, "slope", "context_variance", "constant"}
        assert names[4] == shared

    def test_one_number(self) -> None:
        """A single number is no context, whatever its column."""
        settings = Settings(NamedSpace([Real("x", 0, 1)], [CONTEXT]))
        handles = Surrogate(settings).handles(make_prior(settings))
        assert {"lengthscale", "outputscale"} < set(handles)


@pytest.mark.parametrize("settings", KINDS)
def test_batch_of_priors_begins_with_equal_values(settings: Settings) -> None:
    """A batch has as many sets of hyperparameters, which begin alike."""
    encoder = settings.encoder()
    rows = encoder.snap(uniform(4, encoder.context_space.dim))
    one: Any = make_prior(settings)
    many: Any = make_prior(settings, torch.Size([3]))
    expected = covariance(one["covariance"], rows, rows)
    found = covariance(many["covariance"], rows.expand(3, 4, -1), rows.expand(3, 4, -1))
    torch.testing.assert_close(found, expected.expand(3, 4, 4))
    mean = many["mean"](rows.expand(3, 4, -1))
    torch.testing.assert_close(mean, one["mean"](rows).expand(3, 4))
