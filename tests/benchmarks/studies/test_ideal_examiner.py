r"""The examiner who knows everything but the patient."""

from __future__ import annotations

import torch

from benchmarks.studies.ideal_examiner import Examiner, read_probability
from benchmarks.studies.population import draw_patients
from botorch_binary_context.problems import RefractionProblem
from tests.tensors import double


def test_reads_as_the_problem_says() -> None:
    patients = draw_patients(4, 0)
    X = torch.tensor([[0.3, -1.0, 0.5], [0.8, 2.0, -1.0]], dtype=torch.double)
    found = read_probability(X, patients.prescription, patients.slopes)  # pyright: ignore
    for j in range(4):
        problem = RefractionProblem(
            slope=float(patients.slopes[j]),  # pyright: ignore
            prescription=patients.prescription[j],
        )
        torch.testing.assert_close(found[:, j], problem.success_probability(X))


def test_posterior_against_a_grid() -> None:
    """The mean of the lens after some letters, by a dense grid of the same prior."""
    generator = torch.Generator().manual_seed(0)
    unit = torch.rand(40_000, 2, dtype=torch.double, generator=generator)
    examiner = Examiner(4 * unit - 2, torch.full_like(unit[:, 0], 5.0), generator)
    line = torch.linspace(-2, 2, 201, dtype=torch.double)
    grid = torch.cartesian_prod(line, line)
    weight = torch.ones_like(grid[:, 0])
    patient = double([[0.5, -1.0]])
    for _ in range(12):
        X = examiner.ask()
        p = read_probability(X, patient, double([5.0]))
        passed = bool(torch.rand((), dtype=p.dtype, generator=generator) < p)
        examiner.tell(X, passed)
        p = read_probability(X, grid, torch.full_like(grid[:, 0], 5.0))[0]
        weight = weight * (p if passed else 1 - p)
    expected = weight @ grid / weight.sum()
    found = examiner.log_weights.softmax(dim=0) @ examiner.lenses
    deviation = (weight @ (grid - expected).square() / weight.sum()).sqrt()
    assert ((found - expected).abs() < 0.1 * deviation).all()
    assert torch.linalg.vector_norm(examiner.recommend() - patient) < 1.5
