r"""
Hyperparameters and the mean function of a new experiment, learned from earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from botorch.exceptions import InputDataError, UnsupportedError
from torch.nn import ModuleDict

from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.surrogate import Surrogate, own_mean
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.population import population_prior


def learn_from_population(
    settings: Settings,
    answered: Sequence[tuple[Settings, Sequence[Trial]]],
    mean_function: bool = False,
) -> Settings:
    r"""The settings, with hyperparameters learned from earlier experiments.

    They are learned from all earlier subjects together, and fixed in the new
    experiment. Those that the settings already fix stay.

    Args:
        settings: The settings of the new experiment.
        answered: The settings of each earlier experiment and its answered trials.
        mean_function: Whether to learn the mean function of the subjects, too.

    Returns:
        The settings of the new experiment.
    """
    others = [s for s, _ in answered if not _is_alike(s, settings)]
    if others or not any(trials for _, trials in answered):
        raise InputDataError(
            "Expected ``prior`` to hold experiments with answers and with the "
            "variables, the feedback and the kernel of ``settings``, but got "
            + (f"{len(others)} others." if others else "none.")
        )
    if mean_function and settings.drift is not None:
        raise UnsupportedError(
            "Expected ``mean_function`` to be False with ``drift``, but got True."
        )
    surrogate = Surrogate(replace(settings, mean_function=None))
    models = [
        surrogate.predicting_model(trials, {}) for _, trials in answered if trials
    ]
    prior = population_prior(models, mean_function)
    model = prior.apply(models[0])
    parts = {
        "covariance": model.covar_module,
        "mean": own_mean(model),
        "likelihood": model.likelihood,
    }
    learned: dict[str, Any] = {
        name: getattr(module, attribute).detach().flatten().tolist()
        for name, (module, attribute) in surrogate.handles(ModuleDict(parts)).items()
    }
    known = {**learned, **settings.hyperparameters}
    new = replace(settings, hyperparameters=known, mean_function=None)
    if prior.mean is None:
        return new
    kernel = Surrogate(new).predicting_model([], {}).covar_module
    return replace(new, mean_function=MeanFunction.of(prior.mean, kernel))


def _is_alike(one: Settings, other: Settings) -> bool:
    """Whether answers of one experiment mean the same in another one."""
    keys = ("parameters", "contexts", "feedback", "kernel", "combinations", "priors")
    first = one.to_dict()
    second = other.to_dict()
    return all(first[key] == second[key] for key in keys)
