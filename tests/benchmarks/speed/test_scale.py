r"""Tests of the costs by numbers of trials and of experiments."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import torch

from benchmarks.speed import batches, command, scale
from botorch_binary_context.inference import Laplace


def test_exponent_of_a_curve_is_that_of_its_large_numbers() -> None:
    curve = scale.Curve("job", (20, 500, 1000, 2000), (1.0, 2.0, 16.0, 128.0))
    assert curve.exponent == pytest.approx(3.0)
    assert "| 2000 ms | 16000 ms |" in scale.format_curves([curve])


def test_times_are_measured(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for job in (
        lambda n: scale.condition(Laplace(), n),
        lambda n: scale.one_more(Laplace(), n),
        scale.fit,
        scale.condition_inducing,
    ):
        assert 0 < job(12) < 60
    curve = scale.Curve("job", (10, 20), (0.1, 0.4))
    scale.draw_curves([curve], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_waits_are_counted() -> None:
    with batches.CountWaits() as waits:
        x = torch.ones(3)
        assert bool((x > 0).all())
        assert x.sum().item() == 3.0
        x = x + x
    assert waits.count == 2


def test_batches_are_timed_and_differ_little_in_single_precision() -> None:
    torch.manual_seed(0)
    (cost,) = batches.measure_batches([2])
    assert 0 < cost.seconds < 60
    assert cost.difference < 0.05
    assert batches.format_batches([cost]).splitlines()[-1].startswith("| 2 |")


def test_parts_of_the_command() -> None:
    parser = argparse.ArgumentParser()
    command.add_command(parser.add_subparsers())
    parsed = parser.parse_args(["speed", "--parts", "fits", "scale"])
    assert parsed.parts == ["fits", "scale"]
    assert set(command.PARTS) == {*command.RATIOS, *command.TABLES}
