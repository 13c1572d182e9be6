r"""Experiments that are served, and visits to their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page as Tab

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Settings,
    Stop,
)

DESKTOP = {"width": 1100, "height": 950}


def create(path: Path, settings: Settings) -> Path:
    Experiment.create(path, settings).close()
    return path


def threshold_settings(num_answers: int, **kwargs: Any) -> Settings:
    """How small are the rings that can be seen? There is nothing to set by hand."""
    size = Context("size", reference=0.0, low=-0.3, high=1.0, harder="down")
    hyperparameters = {"context_variance": 1.0, "constant": 1.0, "slope": 4.0}
    return Settings(
        NamedSpace([], [size]),
        PassFail(guess_rate=1 / 8),
        **{
            "seed": 3,
            "hyperparameters": hyperparameters,
            "stop": Stop(answers=num_answers),
            **kwargs,
        },
    )


def wait_for_trial(tab: Tab, number: int, total: int | None = None) -> None:
    of = "" if total is None else f" of {total}"
    tab.wait_for_function(
        "text => document.getElementById('progress')?.textContent === text",
        arg=f"Trial {number}{of}",
    )
