from __future__ import annotations

import torch

from botorch_binary_context.numerics.anderson import (
    PATIENCE,
    AndersonMixing,
    Watch,
    column_dot,
)
from tests.closeness import assert_all_close
from tests.tensors import double, uniform


class TestAndersonMixing:
    def test_linear_problem_with_two_slow_directions(self) -> None:
        # x ← x + (b - A x) converges by itself only if the spectrum of A is in (0, 2).
        A = torch.diag(double([1.0, 1.0, 0.05, 2.5]))
        b = uniform(4, 3)
        x = torch.zeros_like(b)
        mixing = AndersonMixing()
        for _ in range(12):
            x = mixing.advance(x, b - A @ x)
        assert_all_close(A @ x, b, atol=1e-9)

    def test_first_steps_by_least_squares(self) -> None:
        d_of = lambda x: torch.cos(x) - x  # noqa: E731
        mixing = AndersonMixing()
        xs = [uniform(5, 2)]
        for _ in range(3):
            xs.append(mixing.advance(xs[-1], d_of(xs[-1])))
        assert_all_close(xs[1], xs[0].cos(), atol=1e-14)
        for k in (1, 2):
            ds = [d_of(x) for x in xs[: k + 1]]
            dd = torch.stack([ds[i + 1] - ds[i] for i in range(k)])
            dx = torch.stack([xs[i + 1] - xs[i] for i in range(k)])
            for c in range(2):
                weights = torch.linalg.lstsq(dd[:, :, c].T, ds[k][:, c, None]).solution
                change = (dx + dd)[:, :, c].T @ weights
                expected = xs[k][:, c] + ds[k][:, c] - change.squeeze(-1)
                assert_all_close(xs[k + 1][:, c], expected, atol=1e-9)

    def test_columns_are_independent(self) -> None:
        A = torch.stack([torch.diag(uniform(3, seed=s) + 0.5) for s in range(2)])
        b = uniform(2, 3, 4, seed=7)

        def run(A: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            x = torch.zeros_like(b)
            mixing = AndersonMixing()
            for _ in range(4):
                x = mixing.advance(x, b - A @ x)
            return x

        together = run(A, b)
        for i in range(2):
            for c in range(4):
                alone = run(A[i], b[i][:, c : c + 1])
                assert_all_close(together[i][:, c : c + 1], alone, atol=1e-12)

    def test_a_column_at_rest_stays(self) -> None:
        x = uniform(3, 2)
        mixing = AndersonMixing()
        still = x[:, 1].clone()
        for _ in range(8):
            d = torch.cos(x) - x
            d[:, 1] = 0.0
            x = mixing.advance(x, d)
        assert torch.equal(x[:, 1], still)
        assert bool(x.isfinite().all())
        assert_all_close(x[:, 0], x[:, 0].cos(), atol=1e-6)


class TestWatch:
    def test_is_over_once_all_are_within_the_tolerance(self) -> None:
        watch = Watch(0.1)
        assert not watch.is_over(double([0.05, 1.0]))
        assert watch.is_over(double([0.05, 0.1]))

    def test_no_progress(self) -> None:
        watch = Watch(double([1e-3, 1e-3]))
        assert not watch.is_over(double([1.0, 0.0]))
        for _ in range(PATIENCE - 1):
            assert not watch.is_over(double([0.6, 0.0]))
        assert watch.is_over(double([0.6, 0.0]))
        assert not watch.is_over(double([0.4, 0.0]))

    def test_not_a_number_is_no_progress(self) -> None:
        watch = Watch(1e-3)
        over = [watch.is_over(double([torch.nan])) for _ in range(PATIENCE + 1)]
        assert over == [False] * (PATIENCE - 1) + [True] * 2


class TestColumnDot:
    def test_sums_over_rows(self) -> None:
        a = uniform(2, 3, 4)
        b = uniform(2, 3, 4, seed=1)
        expected = torch.einsum("bnc,bnc->bc", a, b)
        assert_all_close(column_dot(a, b), expected, atol=1e-14)
