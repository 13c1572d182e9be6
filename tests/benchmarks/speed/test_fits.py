r"""Tests of how the speed of fits is measured."""

from __future__ import annotations

import time
import warnings

import pytest
import torch

from benchmarks.speed import fits
from benchmarks.speed.data import kernel, outcomes
from botorch_binary_context import BinaryLaplaceGP


def test_time_until_close() -> None:
    def search(trace: fits.Trace) -> None:
        start = time.process_time()
        trace += [(start + 1, 5.0), (start + 2, 1.0005), (start + 3, 1.0)]

    assert fits.time_until_close(search) == pytest.approx(2.0, abs=0.5)


def test_traces_end_at_the_objective() -> None:
    torch.manual_seed(0)
    X, Y = outcomes(20)
    model = BinaryLaplaceGP(X, Y, covar_module=kernel())
    trace: fits.Trace = []
    fits.fit(model, trace)
    best = min(value for _, value in trace)
    assert best == pytest.approx(-model.approximation.log_evidence.item(), abs=1e-6)
    assert trace[0][1] > best
    other: fits.Trace = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a lengthscale is at its bound
        fits.fit_sklearn(X.numpy(), Y.numpy(), other)
    assert min(value for _, value in other) < other[0][1]
