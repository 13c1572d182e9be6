r"""Running a real experiment: ask, tell, recommend, and never lose an answer."""

from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.lens import Lens
from botorch_binary_context.experiment.recommendation import (
    Estimate,
    Recommendation,
    Threshold,
)
from botorch_binary_context.experiment.settings import Duels, PassFail, Settings
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.experiment.variables import (
    Categorical,
    Context,
    Integer,
    Real,
)

__all__ = [
    "Categorical",
    "Context",
    "Duels",
    "Estimate",
    "Experiment",
    "Integer",
    "Lens",
    "NamedSpace",
    "PassFail",
    "Periodic",
    "Real",
    "Recommendation",
    "Settings",
    "Threshold",
    "Trial",
]
