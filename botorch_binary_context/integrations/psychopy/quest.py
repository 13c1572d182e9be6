r"""
A handler with the arguments of PsychoPy's ``QuestHandler``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.feedback import PassFail
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.variables import Context
from botorch_binary_context.integrations.psychopy.handler import BinaryContextHandler


def quest_handler(
    journal: str | Path,
    startVal: float,
    startValSd: float,
    pThreshold: float = 0.82,
    nTrials: int | None = None,
    stopInterval: float | None = None,
    beta: float = 3.5,
    delta: float = 0.01,
    gamma: float = 0.5,
    range: float | None = None,
    extraInfo: Mapping[str, Any] | None = None,
    minVal: float | None = None,
    maxVal: float | None = None,
    staircase: Any = None,
    name: str = "",
    autoLog: bool = True,
    seed: int | None = None,
) -> BinaryContextHandler:
    r"""A handler with the arguments of ``psychopy.data.QuestHandler``.

    Larger intensities are easier, as in QUEST. There is no prior of the threshold: it
    is anywhere between the bounds. Of the arguments of ``QuestHandler``, ``method`` and
    ``grain`` have no meaning here, since trials are neither on a grid nor at an
    estimate of the threshold.

    Args:
        journal: The journal file, which is made if it does not exist and continued
            otherwise.
        startVal: The intensity of the first trial.
        startValSd: Bounds that ``minVal``, ``maxVal`` and ``range`` do not give are
            three times this away from ``startVal``.
        pThreshold: The probability of passing at the threshold.
        nTrials: The number of answers after which to end.
        stopInterval: The largest width of the 5 % to 95 % interval at which to end.
        beta: The steepness of a simulated person; the steepness of the model is
            learned.
        delta: The share of blind answers.
        gamma: The probability of passing by guessing.
        range: The width of the bounds around ``startVal``.
        extraInfo: A dictionary to save with the data.
        minVal: The lower bound.
        maxVal: The upper bound.
        staircase: Another handler, whose ``intensities`` and ``data`` are imported.
        name: The name of the loop.
        autoLog: Not used; for compatibility with PsychoPy.
        seed: The seed of all random choices; by default a new one.
    """
    reach = 3.0 * startValSd if range is None else range / 2.0
    intensity = Context(
        "intensity",
        reference=startVal,
        low=startVal - reach if minVal is None else minVal,
        high=startVal + reach if maxVal is None else maxVal,
        harder="down",
    )
    feedback = PassFail(guess_rate=gamma, lapse_rate=delta * (1.0 - gamma))
    settings = Settings(NamedSpace([], [intensity]), feedback, seed=seed)
    exists = Path(journal).exists()
    experiment = (
        Experiment.open(journal) if exists else Experiment.create(journal, settings)
    )
    handler = BinaryContextHandler(
        experiment,
        nTrials,
        stopInterval,
        pThreshold,
        extraInfo,
        name,
        autoLog,
        startVal,
        beta,
    )
    if staircase is not None and not exists:
        handler.importData(staircase.intensities, staircase.data)
    return handler
