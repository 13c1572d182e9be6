r"""Models of pass/fail outcomes and of duels, and their marginal likelihood."""

from botorch_binary_context.models import matheron_paths  # noqa: F401  registers
from botorch_binary_context.models.averaged_gp import AveragedGP
from botorch_binary_context.models.best_of_gp import BestOfGP, contests
from botorch_binary_context.models.binary_gp import BinaryGP, BinaryLaplaceGP
from botorch_binary_context.models.coordinates import CombineParameters
from botorch_binary_context.models.defaults import (
    default_covar_module,
    duel_covar_module,
)
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.hyperparameters import draw_hyperparameters
from botorch_binary_context.models.inducing_gp import InducingGP
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.models.mll import (
    ApproximateMarginalLogLikelihood,
    LaplaceMarginalLogLikelihood,
)
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.population import (
    PopulationMean,
    PopulationPrior,
    population_prior,
)
from botorch_binary_context.models.preference_gp import (
    PreferenceGP,
    PreferenceLaplaceGP,
)
from botorch_binary_context.models.psychometric import psychometric_gp
from botorch_binary_context.models.rating_gp import RatingGP
from botorch_binary_context.models.schedule import should_learn

__all__ = [
    "ApproximateMarginalLogLikelihood",
    "AveragedGP",
    "BestOfGP",
    "BinaryGP",
    "BinaryLaplaceGP",
    "CombineParameters",
    "FunctionalValues",
    "InducingGP",
    "LaplaceMarginalLogLikelihood",
    "LatentGP",
    "MixedGP",
    "Observations",
    "PopulationMean",
    "PopulationPrior",
    "PreferenceGP",
    "PreferenceLaplaceGP",
    "RatingGP",
    "contests",
    "default_covar_module",
    "draw_hyperparameters",
    "duel_covar_module",
    "population_prior",
    "psychometric_gp",
    "should_learn",
]
