r"""
The package's models as surrogates of Ax.

Ax names the class of a model and tells it what the columns are. Its predictions must be
on the scale of the metric, so that ``Client.predict`` and outcome constraints such as
``"ready >= 0.5"`` mean what they say: for a metric of passes and fails that is the
probability of passing, for duels the value function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.surrogate import (
    Surrogate,
    submodel_input_constructor,
)
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model, ModelList
from botorch.posteriors import Posterior
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.mlls import MarginalLogLikelihood
from torch import Tensor

from botorch_binary_context.ax.columns import EncodeColumns, TrialColumns
from botorch_binary_context.checks import to_directions
from botorch_binary_context.experiment import Duels, PassFail, Settings
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.settings_checks import INFERENCES
from botorch_binary_context.models import (
    ApproximateMarginalLogLikelihood,
    BinaryGP,
    PreferenceGP,
)
from botorch_binary_context.models.latent_gp import LatentGP

#: With fewer answers, hyperparameters stay at their prior values.
MIN_ANSWERS = 10


@dataclass(frozen=True)
class ModelOptions:
    r"""The assumptions of a model, as Ax stores them.

    Attributes:
        contexts: The names of the contexts.
        kernel: What a context does, as in an experiment's settings: "additive",
            "multiplicative" or "product"; None without contexts.
        priors: The priors of lengthscales: "pooled" or "separate".
        guess_rate: The probability of passing a test that is too hard.
        lapse_rate: The probability of failing a test that is too easy.
        harder: "up" if tests become harder as contexts go up, "down" if they become
            harder as contexts go down, or a sequence with one of them for each context.
        inference: "expectation propagation" or "laplace".
    """

    contexts: tuple[str, ...] = ()
    kernel: str | None = None
    priors: str = "pooled"
    guess_rate: float = 0.0
    lapse_rate: float = 0.0
    harder: str | Sequence[str] = "down"
    inference: str = "expectation propagation"

    def __post_init__(self) -> None:
        object.__setattr__(self, "contexts", tuple(self.contexts))
        harder = to_directions(self.harder, len(self.contexts))
        object.__setattr__(self, "harder", harder)

    def prior(self, columns: TrialColumns, duels: bool) -> dict[str, Any]:
        r"""The arguments of a model that make its prior.

        Args:
            columns: The columns of the trials.
            duels: Whether the trials are duels.

        Returns:
            The kernel, the mean, the input transform and the inference.
        """
        feedback = Duels() if duels else PassFail(self.guess_rate, self.lapse_rate)
        settings = Settings(
            columns.named_space(self.harder),
            feedback,
            kernel=self.kernel,
            priors="pooled" if columns.categories else self.priors,
        )
        prior = make_prior(settings)
        centered = self.kernel != "multiplicative"
        kernel: Kernel = prior["covariance"]  # pyright: ignore[reportAssignmentType]
        mean: Mean = prior["mean"]  # pyright: ignore[reportAssignmentType]
        return {
            "likelihood": feedback.likelihood(),
            "covar_module": kernel,
            "mean_module": mean,
            "input_transform": EncodeColumns(columns, self.harder, centered),
            "inference": INFERENCES[self.inference](),
        }


class PassProbabilityModel(Model):
    r"""A model of passes and fails that predicts the probability of passing.

    Attributes:
        latent: The model of the latent performance.

    Example:
        >>> model = PassProbabilityModel(BinaryGP(train_X, train_Y))
        >>> model.posterior(test_X).mean  # probabilities
    """

    _is_ensemble = False

    def __init__(self, latent: BinaryGP) -> None:
        r"""
        Args:
            latent: The model of the latent performance.
        """
        super().__init__()
        self.latent = latent

    @property
    def num_outputs(self) -> int:
        """One: the metric."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """The batch shape of the latent model."""
        return self.latent.batch_shape

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> Posterior:
        r"""The posterior of the probability of passing, or of outcomes.

        Args:
            X: A ``batch_shape x q x d`` tensor.
            output_indices: None or ``[0]``.
            observation_noise: Whether to return the posterior of outcomes.
            posterior_transform: Applied to the posterior.

        Returns:
            The posterior, with exact mean and variance.
        """
        if observation_noise is not False:
            posterior: Posterior = self.latent.posterior(
                X, output_indices, observation_noise
            )
        else:
            posterior = self.latent.probability_posterior(X)
        if posterior_transform is not None:
            return posterior_transform(posterior=posterior, X=X)
        return posterior

    def subset_output(self, idcs: list[int]) -> Self:
        r"""The model itself, which has one output.

        Args:
            idcs: ``[0]``.
        """
        self.latent.subset_output(idcs)
        return self


def latent_model(model: Model) -> LatentGP:
    r"""The package's model behind a surrogate of Ax.

    Args:
        model: The model of one metric, or a list of one.

    Returns:
        The model of the latent function.
    """
    if isinstance(model, ModelList) and len(model.models) == 1:
        return latent_model(model.models[0])  # pyright: ignore[reportArgumentType]
    if isinstance(model, PassProbabilityModel):
        return model.latent
    if isinstance(model, LatentGP):
        return model
    raise UnsupportedError(
        "Expected the surrogate to be one model of this package, but got "
        f"{type(model).__name__}."
    )


@submodel_input_constructor.register(PassProbabilityModel)
def construct_pass_model(
    botorch_model_class: type[Model],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    r"""The argument of a model of passes and fails, for Ax.

    Args:
        botorch_model_class: The class.
        model_config: The options of the model.
        dataset: The trials and their outcomes.
        search_space_digest: Ax's description of the columns.
        surrogate: Not used.

    Returns:
        The model of the latent performance.
    """
    options = ModelOptions(**model_config.model_options)
    columns = TrialColumns(search_space_digest, options.contexts)
    prior = options.prior(columns, duels=False)
    return {"latent": BinaryGP(dataset.X, dataset.Y, **prior)}


@submodel_input_constructor.register(PreferenceGP)
def construct_preference_model(
    botorch_model_class: type[Model],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    r"""The arguments of a model of duels, for Ax.

    Args:
        botorch_model_class: The class.
        model_config: The options of the model.
        dataset: The duels and their outcomes.
        search_space_digest: Ax's description of the columns.
        surrogate: Not used.
    """
    options = ModelOptions(**model_config.model_options)
    columns = TrialColumns(search_space_digest, options.contexts)
    return {
        **PreferenceGP.construct_inputs(dataset),
        **options.prior(columns, duels=True),
        "context_dims": columns.context_dims,
    }


@fit_botorch_model.register((PassProbabilityModel, PreferenceGP))
def learn_hyperparameters(
    model: PassProbabilityModel | PreferenceGP,
    mll_class: type[MarginalLogLikelihood],
    mll_options: dict[str, Any] | None = None,
) -> None:
    r"""Learn the hyperparameters of a model, if there are enough answers.

    The result depends only on the answers, so a loaded experiment continues as if it
    had never been closed.

    Args:
        model: The model.
        mll_class: Not used; the package's own class takes its place.
        mll_options: Not used.
    """
    latent = latent_model(model)
    if latent.train_targets.shape[-1] >= MIN_ANSWERS:
        mll = ApproximateMarginalLogLikelihood(latent.likelihood, latent)
        with manual_seed(0):  # of further attempts, should the first one fail
            fit_gpytorch_mll(mll)
    latent.eval()
