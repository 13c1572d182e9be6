from __future__ import annotations

import math

import pytest
import torch
from botorch.exceptions import InputDataError
from linear_operator import to_dense

from botorch_binary_context import (
    ContextSpace,
    PsychometricDraws,
    draw_psychometric_functions,
    draw_sample_paths,
    psychometric_gp,
    suggest,
    threshold_map,
)
from botorch_binary_context.models.defaults import varying_slope_covar_module
from tests.closeness import assert_all_close
from tests.tensors import double, uniform

SPACE = ContextSpace(double([[-1.0, 0.0], [1.0, 1.0]]), [0], [0.0])


def answers(n: int = 300) -> tuple[torch.Tensor, torch.Tensor]:
    """A slope that rises from 2 to 10 with the parameter, and a threshold of 0.2."""
    X = torch.lerp(SPACE.bounds[0], SPACE.bounds[1], uniform(n, 2))
    f = (2 + 8 * X[:, 1]) * (X[:, 0] - 0.2)
    generator = torch.Generator().manual_seed(0)
    Y = torch.bernoulli(torch.special.ndtr(f), generator=generator)
    return X, Y.unsqueeze(-1)


class TestVaryingSlope:
    def test_kernel_equals_its_formula(self) -> None:
        X = uniform(5, 3)
        kernel = varying_slope_covar_module(3, [0], torch.Size()).double()
        r = 5**0.5 * torch.cdist(X[:, 1:], X[:, 1:]) / 0.4
        matern = (1 + r + r.square() / 3) * (-r).exp()
        contexts = X[:, :1] @ X[:, :1].T
        expected = contexts * (4 + 4 * matern) + 9 * matern + 25
        assert_all_close(to_dense(kernel(X)), expected)

    def test_finds_the_slopes(self) -> None:
        X, Y = answers()
        at = double([[0.05], [0.95]])
        draws = {}
        for slope in ("constant", "varies"):
            model = psychometric_gp(X, Y, SPACE, slope=slope).eval()
            draws[slope] = draw_psychometric_functions(model, SPACE, at, 512).slope
        varies = draws["varies"]
        error = (varies.mean(dim=0) - double([2.4, 9.6])).abs()
        assert bool((error < 3 * varies.std(dim=0)).all())
        flat, steep = varies.mean(dim=0).tolist()
        assert steep > flat + 1.5
        at_first, at_second = draws["constant"].unbind(dim=-1)
        assert_all_close(at_first, at_second, atol=1e-3)  # but for rounding

    def test_batches_and_rules(self) -> None:
        X, Y = answers(20)
        batched = psychometric_gp(
            torch.stack([X, X.flip(0)]), torch.stack([Y, Y.flip(0)]), SPACE,
            slope="varies",
        ).eval()  # fmt: skip
        single = psychometric_gp(X, Y, SPACE, slope="varies").eval()
        test = uniform(3, 2, seed=1)
        mean = batched.posterior(test.expand(2, 3, 2)).mean
        assert_all_close(mean[0], single.posterior(test).mean, atol=1e-5)
        assert_all_close(mean[0], mean[1], atol=1e-5)
        assert suggest(single, SPACE, seed=0).shape == (1, 2)
        paths = draw_sample_paths(single, 4096, SPACE.bounds, seed=0)
        with torch.no_grad():
            values = paths(test)
            posterior = single.posterior(test)
            error = (values.mean(dim=0) - posterior.mean.squeeze(-1)).abs()
            deviation = posterior.variance.squeeze(-1).sqrt()
        assert float((error / deviation).max()) < 4 / 64

    def test_wrong_slope(self) -> None:
        X, Y = answers(5)
        with pytest.raises(InputDataError, match="one of constant, varies, but got"):
            psychometric_gp(X, Y, SPACE, slope="steep")
        line = ContextSpace(double([[-1.0], [1.0]]), [0], [0.0])
        with pytest.raises(InputDataError, match="'constant' without parameters"):
            psychometric_gp(X[:, :1], Y, line, slope="varies")


class TestDraws:
    def test_same_thresholds_as_the_map(self) -> None:
        """With a constant slope quantiles of the function have those of the ratio."""
        X, Y = answers(40)
        model = psychometric_gp(X, Y, SPACE).eval()
        at = double([[0.5]])
        draws = draw_psychometric_functions(model, SPACE, at, 2048)
        expected = threshold_map(model, SPACE, parameters=at, num_samples=2048)
        for mine, theirs in zip(draws.threshold_band(), expected, strict=True):
            assert_all_close(mine, theirs, atol=0.01, rtol=0)

    def test_ratio_in_units_of_the_context(self) -> None:
        """A known line in a box that is not centered."""
        bounds = double([[10.0, 0.0], [30.0, 1.0]])
        space = ContextSpace(bounds, [0], [20.0])
        X, Y = answers(40)
        model = psychometric_gp(X, Y, SPACE).eval()
        moved = torch.cat([20 + 10 * X[:, :1], X[:, 1:]], dim=-1)
        other = psychometric_gp(moved, Y, space).eval()
        at = double([[0.5]])
        first = draw_psychometric_functions(model, SPACE, at, 512)
        second = draw_psychometric_functions(other, space, at, 512)
        assert_all_close(second.slope, first.slope / 10)
        assert_all_close(second.threshold(), 20 + 10 * first.threshold())

    def test_normal_ratio(self) -> None:
        """Geary's transform of ``-b/a`` is standard normal where ``a`` is positive."""
        generator = torch.Generator().manual_seed(0)
        z = torch.randn(2, 20000, generator=generator, dtype=torch.double)
        draws = PsychometricDraws(6 + z[0], 1 + 0.5 * z[1], center=0.0)
        t = draws.threshold()
        geary = (6 * t + 1) / (t.square() + 0.25).sqrt()
        assert abs(float(geary.mean())) < 4 / math.sqrt(20000)
        assert abs(float(geary.var()) - 1) < 0.05
        _, low, high = draws.threshold_band(credible=0.9)
        assert_all_close(((low <= t) & (t <= high)).double().mean().item(), 0.9,
                            atol=1e-3)  # fmt: skip

    def test_slopes_of_the_wrong_sign(self) -> None:
        slope = double([1.0, 1.0, 1.0, -1.0, -1.0])
        intercept = double([0.0, 0.5, -0.5, 2.0, -2.0])
        draws = PsychometricDraws(slope, intercept, center=0.0)
        assert draws.threshold().tolist() == [-0.0, -0.5, 0.5, -math.inf, math.inf]
        falling = PsychometricDraws(-slope, intercept, center=0.0)
        assert falling.threshold().tolist() == [0.0, 0.5, -0.5, math.inf, -math.inf]

    def test_needs_one_context(self) -> None:
        X, Y = answers(5)
        model = psychometric_gp(X, Y, SPACE)
        both = ContextSpace(SPACE.bounds, [0, 1], [0.0, 0.5])
        with pytest.raises(InputDataError, match="to have one context, along which"):
            draw_psychometric_functions(model, both)
