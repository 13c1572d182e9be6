from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import BotorchTensorDimensionError
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_binary_context import suggest
from botorch_binary_context.kernels import AdditiveContextKernel
from botorch_binary_context.models import BinaryLaplaceGP
from botorch_binary_context.problems import RefractionProblem, blur, visual_acuity
from tests.closeness import assert_all_close
from tests.devices import RequireDevice
from tests.small_models import simple_kernel
from tests.tensors import double, uniform

POWERS = st.floats(-8.0, 8.0)


def trials(*shape: int) -> Tensor:
    """Letters and lenses."""
    low, high = RefractionProblem().space.bounds
    return torch.lerp(low, high, uniform(*shape, 3))


class TestAcuity:
    def test_known_values(self) -> None:
        for sphere, cylinder, expected in (
            (0.0, 0.0, 0.0),
            (1.0, 0.0, math.log10(2.0)),  # a sphere alone blurs by itself
            (0.0, 2.0, math.log10(3.0)),
            (1.0, -2.0, math.log10(2.0)),  # the circle of least confusion
            (4.0, 4.0, math.log10(41.0)),  # a corner of the box
        ):
            found = visual_acuity(double([sphere, cylinder]))
            assert_all_close(found, double(expected), rtol=1e-14, atol=0)

    @given(POWERS, POWERS)
    def test_blur_equals_the_formula_of_raasch(
        self, sphere: float, cylinder: float
    ) -> None:
        # The mean power and the cross-cylinder of Raasch's formula.
        expected = math.hypot(sphere + cylinder / 2, cylinder / 2)
        found = blur(double([sphere, cylinder]))
        assert_all_close(found, double(expected), rtol=1e-12, atol=1e-150)

    @given(POWERS, POWERS)
    def test_prescription_is_best(self, sphere: float, cylinder: float) -> None:
        error = double([sphere, cylinder])
        assert float(visual_acuity(error)) >= 0.0
        assert float(visual_acuity(error / 2)) <= float(visual_acuity(error))


class TestProblem:
    def test_space_has_the_context_first_and_two_powers(self) -> None:
        space = RefractionProblem().space
        expected = double([[-1.0, -4.0, -4.0], [2.0, 4.0, 4.0]])
        assert_all_close(space.bounds, expected)
        assert space.context_dims == (0,)
        assert_all_close(space.reference_context, double([0.5]))

    def test_score_is_the_acuity_lost_by_blur(self) -> None:
        problem = RefractionProblem(prescription=(-1.5, 0.75))
        lenses = double([[-1.5, 0.75], [-0.5, 0.75], [-1.5, 2.75]])
        expected = -double([0.0, math.log10(2.0), math.log10(3.0)])
        assert_all_close(problem.score(lenses), expected)
        assert problem.optimal_score == 0.0

    def test_psychometric_function(self) -> None:
        problem = RefractionProblem(slope=4.0, num_alternatives=4, lapse_rate=0.05)
        size = torch.linspace(-1, 2, 7, dtype=torch.double)
        lens = double([1.0, 0.0]).expand(7, 2)
        X = torch.cat([size.unsqueeze(-1), lens], dim=-1)
        margin = 4.0 * (size - math.log10(2.0))
        Phi = 0.5 * torch.erfc(-margin / math.sqrt(2.0))
        assert_all_close(problem.success_probability(X), 0.25 + 0.7 * Phi)
        assert_all_close(problem.latent(X), margin)

    def test_acuity_is_halfway_between_guessing_and_reading(self) -> None:
        problem = RefractionProblem(prescription=(1.0, -2.0))
        lenses = 8 * uniform(5, 2) - 4
        X = torch.cat([-problem.score(lenses).unsqueeze(-1), lenses], dim=-1)
        halfway = torch.full((5,), (1 + 1 / 26) / 2, dtype=torch.double)
        assert_all_close(problem.success_probability(X), halfway)

    def test_large_letters_are_read_and_small_ones_guessed(self) -> None:
        problem = RefractionProblem()
        X = double([[2.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]).unsqueeze(1).expand(2, 4000, 3)
        outcomes = problem.observe(X, torch.Generator().manual_seed(0))
        assert outcomes.shape == (2, 4000, 1)
        rate = outcomes.mean(dim=(1, 2))
        assert float(rate[0]) == 1.0
        assert_all_close(rate[1], double(1 / 26), atol=0.01)

    def test_batch_of_patients(self) -> None:
        prescriptions = 6 * uniform(3, 2) - 3
        X = trials(3, 4)
        batch = RefractionProblem(prescription=prescriptions)
        alone = [RefractionProblem(prescription=p) for p in prescriptions]
        found = batch.success_probability(X)
        expected = [p.success_probability(x) for p, x in zip(alone, X, strict=True)]
        assert_all_close(found, torch.stack(expected))
        assert_all_close(
            batch.score(prescriptions.unsqueeze(-2)), torch.zeros(3, 1).double()
        )

    def test_wrong_arguments(self) -> None:
        for name, value in (
            ("slope", 0.0),
            ("slope", math.inf),
            ("num_alternatives", 1),
            ("num_alternatives", 2.5),
            ("num_alternatives", math.nan),
            ("reference_size", 5.0),
            ("prescription", "ab"),
            ("prescription", [[1.0, 2.0], [3.0]]),
            ("prescription", (5.0, 0.0)),
            ("prescription", (1.0, 2.0, 3.0)),
            ("prescription", (math.nan, 0.0)),
            ("lapse_rate", 1.0),
        ):
            with pytest.raises(InputDataError, match=f"``{name}``"):
                RefractionProblem(**{name: value})  # pyright: ignore
        with pytest.raises(BotorchTensorDimensionError, match="2 columns"):
            RefractionProblem().score(uniform(4, 3))
        with pytest.raises(BotorchTensorDimensionError, match="2 columns"):
            blur(uniform(4, 3))

    def test_every_patient_needs_lenses_of_its_own(self) -> None:
        problem = RefractionProblem(prescription=uniform(3, 2))
        for shape in ((3, 2), (2, 5, 2), (3, 4, 5, 2)):
            with pytest.raises(BotorchTensorDimensionError, match="n x 2"):
                problem.score(uniform(*shape))
        lenses = uniform(5, 2)
        shared = problem.score(lenses.unsqueeze(0))
        assert_all_close(shared, problem.score(lenses.expand(3, 5, 2)))
        assert problem.score(uniform(4, 3, 5, 2)).shape == (4, 3, 5)

    def test_names_the_wrong_one_of_many_prescriptions(self) -> None:
        many = uniform(6, 2)
        many[4, 1] = 7.0
        with pytest.raises(InputDataError, match=r"4 diopters, but got \[0.*, 7.0\]"):
            RefractionProblem(prescription=many)

    def test_a_patient_to_experiment_on(self) -> None:
        problem = RefractionProblem(prescription=(1.5, -2.0)).double()
        X = trials(10)
        kernel = AdditiveContextKernel(simple_kernel(2), [0]).double()
        model = BinaryLaplaceGP(X, problem.observe(X), covar_module=kernel)
        trial = suggest(model, problem.space, seed=0)
        assert problem.observe(trial).item() in (0.0, 1.0)

    def test_makes_nothing_on_the_default_device(self) -> None:
        with RequireDevice():
            for problem in (RefractionProblem(), RefractionProblem(5, 26, uniform(2))):
                X = trials(4)
                problem.observe(X)
        assert problem.score(X[:, 1:].float()).dtype == torch.float

    def test_prescription_of_any_kind(self) -> None:
        for prescription in ((1, -1), np.array([1.0, -1.0]), torch.tensor([1, -1])):
            problem = RefractionProblem(prescription=prescription)  # pyright: ignore
            assert_all_close(problem.prescription, double([1.0, -1.0]))

    def test_single_precision(self) -> None:
        problem = RefractionProblem(prescription=double([1.0, -1.0]).float())
        assert problem.prescription.dtype == torch.float
        assert problem.space.bounds.dtype == torch.float
