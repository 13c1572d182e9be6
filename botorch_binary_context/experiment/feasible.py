r"""
How an experiment learns which trials are not feasible.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Snap
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.feasibility import Feasibility, feasibility_gp

# The least probability of being feasible; bad trials are a nuisance to people.
LEAST_PROBABILITY = 0.8


def learn_feasibility(
    settings: Settings, encoder: Encoder, told: Sequence[Trial]
) -> Feasibility | None:
    r"""The restriction to feasible trials, learned from the answers so far.

    The model expects most trials to be feasible and has no hyperparameters to learn,
    since there are only a few bad trials. It covers values that can be shown, not those
    between steps.

    Args:
        settings: The settings of the experiment.
        encoder: The conversion to the models' box.
        told: The trials that have an outcome and that models use.

    Returns:
        The restriction; None as long as all trials were feasible.
    """
    rows, labels = [], []
    for trial in told:
        X = encoder.encode(trial.context, trial.sides)
        for row, feasible in zip(
            X, settings.feedback.feasible_sides(trial), strict=True
        ):
            if feasible is not None:
                rows.append(row)
                labels.append(float(feasible))
    if all(labels):
        return None
    X = torch.stack(rows)
    Y: Tensor = X.new_tensor(labels).unsqueeze(-1)
    snap = None if encoder.is_continuous else Snap(encoder, shown=X)
    model = feasibility_gp(X, Y, encoder.context_space, snap)
    return Feasibility(model.requires_grad_(False).eval(), LEAST_PROBABILITY)
