r"""
What an experiment recommends as plain data, for JSON.
"""

from __future__ import annotations

import math
from typing import Any

from botorch_binary_context.experiment.estimates import Threshold
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.stopping import Progress


def summarize(
    experiment: Experiment, best: Recommendation, context: Values
) -> dict[str, Any]:
    r"""All that is known about the recommended parameters.

    Args:
        experiment: The experiment.
        best: What it recommends.
        context: Where to predict success, as far as that is not at the reference.

    Returns:
        Plain data; what is infinite is None, as JSON has no infinity.
    """
    space = experiment.settings.space
    context = {**space.reference_context(), **context}
    sees_level = experiment.settings.feedback.functional.sees_level
    graded = [c.name for c in space.contexts if c.harder] if sees_level else []
    estimate = best.success_probability(context) if sees_level else None
    return {
        "parameters": dict(best.parameters),
        "uncertainty": best.uncertainty,
        "local_uncertainty": best.local_uncertainty,
        "expected_loss": best.expected_loss()._asdict() if best.is_graded else None,
        "num_answers": best.num_answers,
        "context": context,
        "success_probability": estimate and estimate._asdict(),
        "thresholds": {
            name: threshold_to_json(best.threshold(name, context=context))
            for name in graded
        },
        "progress": [_end_to_json(end) for end in experiment.progress(best)],
    }


def threshold_to_json(threshold: Threshold) -> dict[str, float | None]:
    r"""A threshold as plain data.

    Args:
        threshold: The threshold.

    Returns:
        Its fields; None for those that are out of range.
    """
    items = threshold._asdict().items()
    return {name: value if math.isfinite(value) else None for name, value in items}


def _end_to_json(end: Progress) -> dict[str, Any]:
    data = end._asdict()
    return data if math.isfinite(end.now) else {**data, "now": None}
