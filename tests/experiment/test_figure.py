r"""Tests of the picture of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import UnsupportedError
from matplotlib.figure import Figure

from botorch_binary_context.experiment import (
    Categorical,
    Experiment,
    NamedSpace,
    Settings,
)
from botorch_binary_context.experiment.figure import draw_experiment
from tests.experiment.simulation import CONTINUOUS, FIXED, MIXED, duels, pass_fail, run

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved."""
    saved: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *args: Any, **kwargs: Any) -> None:
        saved.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", keep)
    return saved


def draw(folder: Path, settings: Settings, name: str = "figure.png") -> Path:
    run(folder / "journal", settings, 6)
    path = folder / name
    with Experiment.open(folder / "journal") as experiment:
        draw_experiment(experiment, path)
    return path


@pytest.mark.parametrize(
    ("settings", "num_panels"),
    [
        (pass_fail(hyperparameters=FIXED), 3),
        (pass_fail(MIXED, hyperparameters=FIXED), 3),
        (duels(MIXED, hyperparameters=FIXED), 2),
        (pass_fail(NamedSpace(CONTINUOUS.parameters[:1]), hyperparameters=FIXED), 1),
    ],
)
def test_panels_are_as_many_as_the_variables_need(
    tmp_path: Path, figures: list[Figure], settings: Settings, num_panels: int
) -> None:
    path = draw(tmp_path, settings)
    assert path.read_bytes().startswith(PNG)
    labelled = [ax for ax in figures[0].axes if ax.get_xlabel()]
    assert len(labelled) == num_panels


def test_ticks_are_round_in_the_units_of_the_user(
    tmp_path: Path, figures: list[Figure]
) -> None:
    """Ticks are round numbers in the user's units, where they belong."""
    draw(tmp_path, pass_fail(hyperparameters=FIXED))
    surface, curve, contexts = [ax for ax in figures[0].axes if ax.get_xlabel()]
    assert [t.get_text() for t in surface.get_xticklabels()] == ["0.1", "1", "10"]
    assert surface.get_xticks() == pytest.approx([0.0, 0.5, 1.0])
    assert (surface.get_xlabel(), surface.get_ylabel()) == ("gain", "shift")
    for axis in (curve.xaxis, contexts.yaxis):
        ticks = {
            t.get_text(): x
            for x, t in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
        }
        assert ticks["0"] == 1.0  # less noise is easier
        assert ticks["3"] == -0.5
    assert curve.get_xlabel() == contexts.get_ylabel() == "noise"


def test_refuses_to_draw_without_numbers_or_to_no_image_file(tmp_path: Path) -> None:
    only = Settings(NamedSpace([Categorical("window", ["a", "b"])]), initial_trials=0)
    with Experiment.create(tmp_path / "only", only) as experiment:
        experiment.tell(experiment.ask().id, True)
        with pytest.raises(UnsupportedError, match="a number, or a context, to draw"):
            draw_experiment(experiment, tmp_path / "figure.png")
    settings = pass_fail(NamedSpace(CONTINUOUS.parameters), hyperparameters=FIXED)
    with pytest.raises(UnsupportedError, match="to end as an image file does"):
        draw(tmp_path, settings, "figure.xyz")
