r"""
What :mod:`botorch_binary_context.experiment` exports, loaded when first used.
"""

from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.estimates import Estimate, Loss, Threshold
from botorch_binary_context.experiment.events import Event
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.feedback import (
    BestOf,
    Confidence,
    Duels,
    DuelsWithTies,
    PassFail,
    Ratings,
)
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.goal import NamedGoal
from botorch_binary_context.experiment.lens import Lens
from botorch_binary_context.experiment.logbook import Logbook
from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.experiment.recommendation import Recommendation
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, NamedSpace
from botorch_binary_context.experiment.stopping import Progress, Stop
from botorch_binary_context.experiment.threshold_distribution import (
    ThresholdDistribution,
)
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import (
    Categorical,
    Context,
    Integer,
    Parameter,
    Real,
)

__all__ = [
    "BestOf",
    "Categorical",
    "Confidence",
    "Context",
    "Duels",
    "DuelsWithTies",
    "Encoder",
    "Estimate",
    "Event",
    "Experiment",
    "Feedback",
    "Integer",
    "Lens",
    "Logbook",
    "Loss",
    "MeanFunction",
    "NamedGoal",
    "NamedSpace",
    "Parameter",
    "PassFail",
    "Periodic",
    "Progress",
    "Ratings",
    "Real",
    "Recommendation",
    "Settings",
    "Stop",
    "Threshold",
    "ThresholdDistribution",
    "Trial",
]
