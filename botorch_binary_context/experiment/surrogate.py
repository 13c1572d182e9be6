r"""
The model of the answers so far: its kernel, its data, its hyperparameters.

Models are functions of data and hyperparameters alone, and hyperparameters learned from
some answers are a function of these answers alone. So an experiment that was closed and
opened again continues as if nothing had happened.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import InputTransform
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import PeriodicKernel
from torch import Tensor
from torch.nn import Module, ModuleDict

from botorch_binary_context.column_kernels import DriftKernel
from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.coordinates import (
    choosing_coordinates,
    predicting_coordinates,
)
from botorch_binary_context.experiment.drift import date_answers
from botorch_binary_context.experiment.prior import make_prior
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.settings_checks import INFERENCES
from botorch_binary_context.experiment.space import Encoder
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.models.mll import ApproximateMarginalLogLikelihood
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.population import PopulationMean

#: Hyperparameters by their names.
Hyperparameters = Mapping[str, float | Sequence[float]]

# The limits of fixed hyperparameters, in the units of the box.
MIN_HYPERPARAMETER = 1e-6
MAX_HYPERPARAMETER = 1e6


class Surrogate:
    r"""Makes models of answers, and learns their hyperparameters."""

    def __init__(self, settings: Settings) -> None:
        r"""
        Args:
            settings: The settings of the experiment.
        """
        self.settings = settings
        self.encoder: Encoder = settings.encoder()
        self._encoded: dict[int, tuple[Trial, Tensor]] = {}
        self._check_fixed()

    def rows(self, trials: Sequence[Trial]) -> Tensor:
        r"""Trials in the form that models take.

        Args:
            trials: The trials.

        Returns:
            An ``n x d`` tensor, or ``n x k x d`` with ``k`` sides.
        """
        sides = self.settings.feedback.num_sides
        shape = 0, sides, self.encoder.context_space.dim
        empty = torch.zeros(shape, dtype=torch.float64, device="cpu")
        X = torch.cat([empty, *(self._encode(trial) for trial in trials)])
        return X.squeeze(1) if sides == 1 else X

    def answered_rows(self, trials: Sequence[Trial]) -> Tensor:
        r"""All answered trials in the form that models take, with their times.

        Args:
            trials: The trials, in the order of their answers.

        Returns:
            A tensor like the result of :meth:`rows`.
        """
        X = self.rows(trials)
        return X if self.settings.drift is None else date_answers(X)

    def observations(
        self, trials: Sequence[Trial], likelihood: OutcomeLikelihood
    ) -> list[Observations]:
        r"""Answered trials in the form that models take.

        Args:
            trials: The trials.
            likelihood: How they are answered.

        Returns:
            The observations, one entry for each kind.
        """
        X = self.answered_rows(trials)
        Y = X.new_tensor([[t.outcome] for t in trials]).reshape(-1, 1)
        return self.settings.feedback.observations(X, Y, likelihood)

    def _encode(self, trial: Trial) -> Tensor:
        """The rows of a trial, cached since they rarely change."""
        last, rows = self._encoded.get(trial.id, (None, None))
        is_same = last is trial or (
            last is not None
            and (last.context, last.sides) == (trial.context, trial.sides)
        )
        if rows is None or not is_same:
            rows = self.encoder.encode(trial.context, trial.sides)[None]
        self._encoded[trial.id] = (trial, rows)
        return rows

    def choosing_model(
        self, trials: Sequence[Trial], learned: Hyperparameters
    ) -> LatentGP:
        r"""The model of answers that chooses trials: it knows only levels of contexts.

        Args:
            trials: Answered trials.
            learned: The hyperparameters that are not fixed; missing ones are as in the
                prior.

        Returns:
            The model, in ``eval`` mode.
        """
        coordinates = choosing_coordinates(self.settings, self._shown(trials))
        return self._model(trials, learned, coordinates)

    def predicting_model(
        self, trials: Sequence[Trial], learned: Hyperparameters
    ) -> LatentGP:
        r"""The model of answers that predicts others, in any context.

        Args:
            trials: Answered trials.
            learned: The hyperparameters that are not fixed; missing ones are as in the
                prior.

        Returns:
            The model, in ``eval`` mode.
        """
        coordinates = predicting_coordinates(self.settings, self._shown(trials))
        return self._model(trials, learned, coordinates)

    def _shown(self, trials: Sequence[Trial]) -> Tensor:
        return self.answered_rows(trials).flatten(0, -2)

    def _model(
        self,
        trials: Sequence[Trial],
        learned: Hyperparameters,
        coordinates: InputTransform | None,
    ) -> LatentGP:
        """The model of answers in given coordinates."""
        prior = self._prior()
        self._set(prior, learned)
        self._set(prior, self.settings.hyperparameters)
        handles = self.handles(prior)
        for name in self.settings.hyperparameters:
            module, attribute = handles[name]
            getattr(module, f"raw_{attribute}").requires_grad_(False)
        kernel: Any = prior["covariance"]
        mean: Any = prior["mean"]
        if self.settings.mean_function is not None:
            mean = self.settings.mean_function.add_to(mean, kernel)
        likelihood: Any = prior["likelihood"]
        model = MixedGP(
            self.observations(trials, likelihood),
            covar_module=kernel,
            mean_module=mean,
            input_transform=coordinates,
            inference=INFERENCES[self.settings.inference](),
        )
        _drop_hooks(model)
        return model.eval()

    def fit(self, trials: Sequence[Trial]) -> dict[str, float | Sequence[float]] | None:
        r"""Learn the hyperparameters that are not fixed.

        The search starts at the prior, not at what was learned before.

        Args:
            trials: Answered trials.

        Returns:
            The hyperparameters by their names; None, with a warning, if the fit fails.
        """
        model = self.predicting_model(trials, {})
        prior = ModuleDict(
            {
                "covariance": model.covar_module,
                "mean": own_mean(model),
                "likelihood": model.likelihood,
            }
        )
        handles = {
            name: (module, attribute)
            for name, (module, attribute) in self.handles(prior).items()
            if getattr(module, f"raw_{attribute}").requires_grad
        }
        learn = [getattr(module, f"raw_{name}") for module, name in handles.values()]
        for parameter in model.parameters():
            parameter.requires_grad_(any(parameter is p for p in learn))
        if learn and not self._maximize_evidence(model):
            return None
        return {
            name: getattr(module, attribute).detach().flatten().tolist()
            for name, (module, attribute) in handles.items()
        }

    def _maximize_evidence(self, model: LatentGP) -> bool:
        """Whether the fit succeeded; a warning if not."""
        mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        try:
            with manual_seed(0):  # of further attempts, should the first one fail
                fit_gpytorch_mll(mll)
        except (ModelFittingError, RuntimeError) as error:
            warnings.warn(
                f"The hyperparameters could not be learned from "
                f"{model.train_targets.shape[-1]} answers and stay as they were: "
                f"{error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        return True

    def _prior(self) -> ModuleDict:
        """The kernel, the mean and the likelihood, as the settings have them."""
        prior = make_prior(self.settings)
        prior["likelihood"] = self.settings.feedback.likelihood()
        return prior

    def handles(self, prior: ModuleDict) -> dict[str, tuple[Any, str]]:
        r"""The places of the hyperparameters.

        Args:
            prior: The modules "covariance", "mean" and "likelihood" of a model.

        Returns:
            A module and an attribute of it for each name.
        """
        handles = {}
        drift = set(_drift_kernels(prior["covariance"]))
        for path, _ in prior.named_parameters():
            parent, _, raw = path.rpartition(".")
            module: Any = prior.get_submodule(parent)
            attribute = raw.removeprefix("raw_")
            if attribute != "period_length":  # the variable determines it
                prefix = "drift_" if module in drift else self._prefix(module)
                handles[prefix + attribute] = (module, attribute)
        return handles

    def _prefix(self, module: Any) -> str:
        """The beginning of the names of a module's hyperparameters."""
        if isinstance(module, PeriodicKernel):
            return "periodic_"
        columns: Any = getattr(module, "active_dims", None)
        if self.settings.kernel != "product" or columns is None:
            return ""
        contexts = list(range(self.encoder.num_contexts))
        return "context_" if columns.tolist() == contexts else ""

    def _check_fixed(self) -> None:
        """Find a mistake in the fixed hyperparameters at once."""
        handles = self.handles(self._prior())
        for name, value in self.settings.hyperparameters.items():
            if name not in handles:
                raise InputDataError(
                    "Expected ``hyperparameters`` to have the names "
                    f"{', '.join(handles)}, but got {quote(name)}."
                )
            module, attribute = handles[name]
            shape = getattr(module, attribute).shape
            constraint = getattr(module, f"raw_{attribute}_constraint")
            low = max(float(constraint.lower_bound), MIN_HYPERPARAMETER)
            high = min(float(constraint.upper_bound), MAX_HYPERPARAMETER)
            numbers = _parse_numbers(value, shape)
            if numbers is None or not _is_within(numbers, low, high):
                raise InputDataError(
                    f"Expected ``hyperparameters`` to give {name!r} one or "
                    f"{math.prod(shape)} positive numbers, but got {quote(value)}; "
                    f"they are above {low:g} and below {high:g}."
                )

    def _set(self, prior: ModuleDict, values: Hyperparameters) -> None:
        handles = self.handles(prior)
        for name, value in values.items():
            module, attribute = handles[name]
            numbers = _parse_numbers(value, getattr(module, attribute).shape)
            setattr(module, attribute, numbers)


def own_mean(model: LatentGP) -> Any:
    r"""The mean of a model, without the mean of earlier subjects.

    Args:
        model: The model.
    """
    mean = model.mean_module
    return mean.base if isinstance(mean, PopulationMean) else mean


def _drift_kernels(kernel: Module) -> list[Module]:
    """The parts of a kernel that describe how performance drifts."""
    if not isinstance(kernel, DriftKernel):
        return []
    return [kernel.column_kernel, kernel.own_kernel]


def _drop_hooks(model: Module) -> None:
    """Let a model be freed as soon as it is not needed. GPyTorch's modules have a hook
    that refers to themselves, so their matrices would stay until the next garbage
    collection.
    """
    for module in model.modules():
        module._load_state_dict_pre_hooks.clear()


def _parse_numbers(value: Any, shape: torch.Size) -> Tensor | None:
    """One number, or one for each element of a shape; None if it is neither."""
    try:
        numbers = torch.tensor(value, dtype=torch.float64, device="cpu")
        if numbers.numel() == 1:
            return numbers.reshape(()).expand(shape)
        return numbers.reshape(shape)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def _is_within(numbers: Tensor, low: float, high: float) -> bool:
    return bool(((numbers > low) & (numbers < high)).all())
