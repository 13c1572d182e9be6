r"""Tests of draws of the optimum."""

from __future__ import annotations

import torch
from botorch.models.transforms.input import ChainedInputTransform, InputTransform
from torch import Tensor

from botorch_binary_context import (
    AveragedGP,
    ContextSpace,
    Feasibility,
    feasibility_gp,
    psychometric_gp,
    recommend,
)
from botorch_binary_context.optima import OptimumDraws, draw_optima

BOUNDS = torch.tensor([[-1.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SPACE = ContextSpace(BOUNDS, context_dims=[0], reference_context=[0.2])


class Round(InputTransform):
    """Takes a column to the nearest of some even values."""

    transform_on_train = transform_on_eval = transform_on_fantasize = True

    def __init__(self, indices: list[int], num: int) -> None:
        super().__init__()
        self.indices, self.num = indices, num

    def transform(self, X: Tensor) -> Tensor:
        X = X.clone()
        X[..., self.indices] = (X[..., self.indices] * self.num).round() / self.num
        return X


def make_averaged(n: int = 40) -> AveragedGP:
    """After tests whose best parameter is 0.7."""
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand(n, 2, dtype=torch.double, generator=generator)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * unit
    p = torch.special.ndtr(5 * X[:, :1] + 2 - 15 * (X[:, 1:] - 0.7) ** 2)
    Y = (torch.rand(n, 1, generator=generator) < p).double()
    return AveragedGP(psychometric_gp(X, Y, SPACE), num_draws=8)


def draw(averaged: AveragedGP, best: torch.Tensor, num: int = 128) -> OptimumDraws:
    return draw_optima(averaged, SPACE, best, num)


class TestDrawOptima:
    def test_against_maxima_on_a_grid(self):
        """Of joint draws of the true posterior, hyperparameters included."""
        averaged = make_averaged()
        best = recommend(averaged.model, SPACE)
        found = draw(averaged, best, 256)
        grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
        rows = SPACE.at_reference(torch.cat([best.unsqueeze(0), grid]))
        with torch.no_grad():
            posterior = averaged.exact_posterior(rows, 2048)
            torch.manual_seed(0)
            values = posterior.rsample(torch.Size([2000])).squeeze(-1)
        losses = values.amax(dim=-1) - values[:, 0]
        error = losses.std() / 256**0.5
        assert (found.losses.mean() - losses.mean()).abs() < 4 * error
        best_x = torch.cat([best, grid.squeeze(-1)])[values.argmax(dim=-1)]
        for share in (0.1, 0.5, 0.9):
            below = (found.optima.squeeze(-1) <= best_x.quantile(share)).double().mean()
            assert abs(float(below) - share) < 0.13  # four standard errors

    def test_only_what_is_feasible(self):
        """Against the maxima on the part of a grid that is."""
        averaged = make_averaged()
        X = torch.rand(60, 2, dtype=torch.double)
        X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * X
        model = feasibility_gp(X, (X[:, 1:] < 0.5).double(), SPACE)
        feasibility = Feasibility(model)
        best = recommend(averaged.model, SPACE, feasibility=feasibility)
        found = draw_optima(averaged, SPACE, best, 128, feasibility=feasibility)
        grid = torch.linspace(0, 1, 101, dtype=torch.double).unsqueeze(-1)
        with torch.no_grad():
            slack = feasibility.slack(SPACE.at_reference(grid).unsqueeze(-2))
            grid = grid[slack >= 0]
            rows = SPACE.at_reference(torch.cat([best.unsqueeze(0), grid]))
            posterior = averaged.exact_posterior(rows, 2048)
            torch.manual_seed(0)
            values = posterior.rsample(torch.Size([2000])).squeeze(-1)
        limit = float(grid.max())
        assert 0.4 < limit < 0.6
        assert float(found.optima.max()) < limit + 0.01
        assert float(found.near.max()) < limit + 0.01
        losses = values.amax(dim=-1) - values[:, 0]
        error = losses.std() / 128**0.5
        assert (found.losses.mean() - losses.mean()).abs() < 4 * error
        everywhere = draw(averaged, best)
        assert float(everywhere.losses.mean()) > 2 * float(found.losses.mean())

    def test_shapes_and_signs(self):
        averaged = make_averaged(15)
        found = draw(averaged, recommend(averaged.model, SPACE), 20)
        assert found.optima.shape == found.near.shape == (24, 1)  # eight sets of three
        assert (found.losses >= 0).all()
        assert ((found.optima >= 0) & (found.optima <= 1)).all()
        # From one end of the context to the other, of a slope of about 12.
        assert (found.slopes > 0).all()
        assert found.slopes.shape == (24, 1)

    def test_bad_parameters_lose_more(self):
        averaged = make_averaged()
        best = recommend(averaged.model, SPACE)
        worst = torch.zeros_like(best)
        assert (
            draw(averaged, worst).losses.mean() > 2 + draw(averaged, best).losses.mean()
        )

    def test_near_is_on_the_same_hill(self):
        """A local search from the best of a single peak finds the peak."""
        averaged = make_averaged(150)
        found = draw(averaged, recommend(averaged.model, SPACE))
        assert ((found.near - 0.7).abs() < 0.25).double().mean() > 0.9
        assert found.near.std() <= found.optima.std() + 1e-6

    def test_walks_where_there_is_no_slope(self):
        """Of a parameter of which nine values can be shown."""
        averaged = make_averaged(60)
        model = averaged.model
        model.input_transform = ChainedInputTransform(
            snap=Round(indices=[1], num=8), rest=model.input_transform
        )
        model.train()
        snapped = AveragedGP(model.eval(), num_draws=8)
        start = torch.tensor([0.25], dtype=torch.double)
        steps = torch.tensor([1 / 8], dtype=torch.double)
        stuck = draw_optima(snapped, SPACE, start, 32)
        found = draw_optima(snapped, SPACE, start, 32, steps=steps)
        assert (stuck.near == 0.25).all()
        assert ((found.near * 8).round() / 8 - found.near).abs().max() < 1e-9
        assert ((found.near - 0.7).abs() < 0.25).double().mean() > 0.9

    def test_repeats_itself(self):
        averaged = make_averaged(10)
        best = recommend(averaged.model, SPACE)
        first = draw(averaged, best, 8)
        again = draw(averaged, best, 8)
        assert torch.equal(first.optima, again.optima)
        assert torch.equal(first.losses, again.losses)
