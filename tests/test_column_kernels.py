from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, RBFKernel, ScaleKernel
from torch import Tensor

from botorch_binary_context import (
    BinaryGP,
    ColumnKernel,
    ContextSpace,
    DriftKernel,
    SubjectKernel,
    draw_sample_paths,
    hold_column,
    recommend,
    suggest,
)
from tests.closeness import assert_all_close
from tests.stationary_kernels import matrix_of
from tests.tensors import double, uniform


def smooth(scale: float, batch_shape: tuple[int, ...] = ()) -> Kernel:
    kernel = ScaleKernel(
        RBFKernel(batch_shape=torch.Size(batch_shape)),
        batch_shape=torch.Size(batch_shape),
    )
    kernel.outputscale = scale
    return kernel.double()


def subjects(n: int) -> Tensor:
    """Rows of one number and one of three subjects."""
    return torch.cat([uniform(n, 1), (torch.arange(n) % 3).double()[:, None]], dim=-1)


class TestKernels:
    def test_same_subject_adds_a_kernel_of_its_own(self) -> None:
        X = subjects(7)
        kernel = SubjectKernel(smooth(2.0), smooth(0.5), num_subjects=3).double()
        base = matrix_of(smooth(1.0), X[:, :1])
        same = X[:, 1:] == X[:, 1]
        assert_all_close(matrix_of(kernel, X), (2 + 0.5 * same) * base)
        assert_all_close(kernel(X).to_dense(), (2 + 0.5 * same) * base)
        assert_all_close(kernel(X, diag=True), torch.full((7,), 2.5).double())

    def test_drift_decays_with_the_time_between(self) -> None:
        X = uniform(7, 3)
        kernel = DriftKernel(smooth(2.0), smooth(0.5), timescale=0.3, column=1).double()
        base = matrix_of(smooth(1.0), X[:, [0, 2]])
        decay = (-(X[:, 1:2] - X[:, 1]).abs() / 0.3).exp()
        assert_all_close(matrix_of(kernel, X), (2 + 0.5 * decay) * base)
        assert_all_close(kernel.timescale.item(), 0.3)

    def test_batch_equals_a_loop(self) -> None:
        X = uniform(4, 5, 2)
        kernel = DriftKernel(smooth(2.0, (4,)), smooth(0.5, (4,)), 0.3).double()
        single = DriftKernel(smooth(2.0), smooth(0.5), 0.3).double()
        assert kernel.batch_shape == (4,)
        for i in range(4):
            assert_all_close(matrix_of(kernel, X)[i], matrix_of(single, X[i]))

    def test_single_precision_stays_single(self) -> None:
        kernel = SubjectKernel(smooth(2.0), smooth(0.5), 3).float()
        assert matrix_of(kernel, subjects(4).float()).dtype == torch.float32

    def test_paths_have_the_moments_of_the_posterior(self) -> None:
        X = subjects(12)
        Y = (X[:, :1] > 0.5).double()
        bounds = double([[0.0, 0.0], [1.0, 2.0]])
        kernels = (
            SubjectKernel(smooth(2.0), smooth(1.0), 3),
            DriftKernel(smooth(2.0), smooth(1.0), timescale=1.0),
        )
        test = subjects(5)
        for kernel in kernels:
            model = BinaryGP(X, Y, covar_module=kernel.double()).eval()
            paths = draw_sample_paths(model, 4096, bounds, seed=0)
            with torch.no_grad():
                values = paths(test)
                posterior = model.posterior(test)
            error = values.mean(dim=0) - posterior.mean.squeeze(-1)
            deviation = posterior.variance.squeeze(-1).sqrt()
            assert float((error / deviation).abs().max()) < 5 / 64
            ratio = values.std(dim=0) / deviation
            assert float((ratio - 1).abs().max()) < 0.06

    def test_wrong_number_of_subjects(self) -> None:
        with pytest.raises(InputDataError, match="``num_values``"):
            SubjectKernel(smooth(1.0), smooth(1.0), num_subjects=0)


class TestOneSubject:
    space = ContextSpace(double([[0.0, 0.0], [1.0, 2.0]]))

    def model(self) -> BinaryGP:
        """Two subjects are best at 0.2 and 0.8; nothing is known of the third."""
        X = torch.cat([uniform(60, 1), (torch.arange(60) % 2)[:, None]], dim=-1)
        peak = 0.2 + 0.6 * X[:, 1]
        Y = ((X[:, 0] - peak).abs() < 0.15).double().unsqueeze(-1)
        own = smooth(4.0)
        own.base_kernel.lengthscale = 0.2  # pyright: ignore
        kernel = SubjectKernel(smooth(1.0), own, num_subjects=3)
        return BinaryGP(X, Y, covar_module=kernel)

    def test_recommends_for_each(self) -> None:
        model = self.model()
        for subject, best in ((0, 0.2), (1, 0.8)):
            held, constraint = hold_column(self.space, -1, subject)
            assert abs(float(recommend(model, held)) - best) < 0.1
            for rule in ("ucb-ald", "bald", "mkg", "ts-ald"):
                trial = suggest(model, held, rule, seed=0, constraints=constraint)
                assert trial.shape == (1, 2)
                assert float(trial[0, 1]) == subject
                model.condition_on_observations(trial, torch.ones_like(trial[:, :1]))

    def test_held_column_becomes_a_context_within_the_box(self) -> None:
        space = ContextSpace(
            double([[0.0, 1.0, 0.0], [1.0, 5.0, 9.0]]), [1], reference_context=[2.0]
        )
        moved, constraint = hold_column(space, 2, 12.0)
        assert moved.context_dims == (1, 2)
        assert moved.reference_context.tolist() == [2.0, 12.0]
        assert moved.bounds[:, 2].tolist() == [0.0, 12.0]
        assert constraint.fixed_features == {2: 12.0}


class TestDrift:
    def test_recommends_for_now(self) -> None:
        """The best parameter has moved from 0.2 to 0.8."""
        t = torch.linspace(0.0, 1.0, 120, dtype=torch.double).unsqueeze(-1)
        X = torch.cat([uniform(120, 1), t], dim=-1)
        Y = ((X[:, :1] - (0.2 + 0.6 * t)).abs() < 0.15).double()
        own = smooth(4.0)
        own.base_kernel.lengthscale = 0.2  # pyright: ignore
        kernel = DriftKernel(smooth(0.5), own, timescale=0.5).double()
        model = BinaryGP(X, Y, covar_module=kernel)
        space = ContextSpace(double([[0.0, 0.0], [1.0, 1.0]]))
        first = recommend(model, hold_column(space, 1, 0.0)[0])
        last = recommend(model, hold_column(space, 1, 1.0)[0])
        assert abs(float(first) - 0.2) < 0.15
        assert abs(float(last) - 0.8) < 0.15

    def test_is_a_sum(self) -> None:
        X = uniform(5, 2)
        kernel = ColumnKernel(smooth(1.0), smooth(0.0 + 1e-9), RBFKernel().double())
        assert_all_close(matrix_of(kernel, X), matrix_of(smooth(1.0), X[:, :1]),
                            atol=1e-8)  # fmt: skip
