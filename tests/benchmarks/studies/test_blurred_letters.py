from __future__ import annotations

import pytest
import torch

from benchmarks.studies.blurred_letters import lost_acuity, success_probability
from botorch_binary_context.problems import RefractionProblem, visual_acuity


@pytest.mark.parametrize("slope", [2.0, 5.0])
def test_letters_are_read_as_by_the_patients_of_the_package(slope: float) -> None:
    X = torch.rand(20, 3, dtype=torch.double) * 3 - 1
    patient = RefractionProblem(slope, 4, prescription=(0.5, -1.0))
    size, sphere, cylinder = (X - torch.tensor([0.0, 0.5, -1.0])).numpy().T
    read = success_probability(size, sphere, cylinder, 4, slope)
    found = torch.from_numpy(read)
    torch.testing.assert_close(found, patient.success_probability(X))
    # An eye that sees worse reads larger letters as often.
    read = success_probability(size + 0.3, sphere, cylinder, 4, slope, 0.3)
    torch.testing.assert_close(torch.from_numpy(read), found)
    lost = torch.from_numpy(lost_acuity(sphere, cylinder))
    lens = torch.tensor([0.5, -1.0], dtype=torch.double)
    torch.testing.assert_close(lost, visual_acuity(X[:, 1:] - lens))
