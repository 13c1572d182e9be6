from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import torch
from linear_operator import to_dense

from benchmarks.__main__ import main
from benchmarks.studies import paper_surrogate
from benchmarks.studies.paper_surrogate import (
    SLOPES,
    PaperSurrogate,
    draw_responses,
    load,
)
from botorch_binary_context import BinaryLaplaceGP, LaplaceMarginalLogLikelihood
from botorch_binary_context.problems import RefractionProblem
from tests.closeness import assert_all_close
from tests.tensors import double, uniform


def test_kernel_of_the_paper() -> None:
    X = uniform(5, 3)
    kernel = PaperSurrogate(4.0, 9.0, (0.5, 2.0)).covar_module()
    scaled = X[:, 1:] / double([0.5, 2.0])
    smooth = 9 * (-torch.cdist(scaled, scaled).square() / 2).exp()
    assert_all_close(
        to_dense(kernel(X)), 4 * X[:, :1] @ X[:, :1].T + smooth, atol=1e-12
    )


def test_stored_for_every_slope() -> None:
    fitted = [load(slope) for slope in SLOPES]
    for surrogate in fitted:
        assert surrogate.outputscale > 0.1
        assert all(1.0 < x < 20.0 for x in surrogate.lengthscales)
    # A steeper function has a larger slope a priori.
    variances = [surrogate.context_variance for surrogate in fitted]
    assert variances[0] < variances[-1]


def test_stored_maximize_the_likelihood() -> None:
    problem = RefractionProblem(5)
    fitted = load(5)
    kernel = fitted.covar_module()
    X, Y = draw_responses(problem)
    model = BinaryLaplaceGP(X, Y, covar_module=kernel)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    mll.train()
    value: Any = mll(model(*model.train_inputs), model.train_targets)
    value.backward()
    gradients = [p.grad for p in kernel.parameters() if p.grad is not None]
    assert len(gradients) == 3
    assert max(float(g.abs().max()) for g in gradients) < 1e-4


def test_fit() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "paper_surrogate.json"
        with (
            mock.patch.object(paper_surrogate, "NUM_RESPONSES", 40),
            mock.patch.object(paper_surrogate, "SLOPES", (5,)),
        ):
            main(["refraction-hyperparameters", "--output", str(path)])
        with mock.patch.object(paper_surrogate, "PATH", path):
            fitted = load(5)
    assert fitted.context_variance > 0.0
    assert len(fitted.lengthscales) == 2
