r"""
Hyperparameters of a new experiment, learned from earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from botorch.exceptions import InputDataError
from torch.nn import ModuleDict

from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.surrogate import Surrogate
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.models.population import population_prior


def learn_from_population(
    settings: Settings, answered: Sequence[tuple[Settings, Sequence[Trial]]]
) -> Settings:
    r"""The settings, with hyperparameters learned from earlier experiments.

    They are learned from all earlier subjects together, and the new experiment takes
    them as known. Those that the settings already fix stay.

    Args:
        settings: What the new experiment is.
        answered: The settings of each earlier experiment and its answered trials.

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
    surrogate = Surrogate(settings)
    models = [
        surrogate.model(trials, {}, levels=False) for _, trials in answered if trials
    ]
    model = population_prior(models).apply(models[0])
    parts = {
        "covariance": model.covar_module,
        "mean": model.mean_module,
        "likelihood": model.likelihood,
    }
    learned: dict[str, Any] = {
        name: getattr(module, attribute).detach().flatten().tolist()
        for name, (module, attribute) in surrogate.handles(ModuleDict(parts)).items()
    }
    known = {**learned, **settings.hyperparameters}
    return replace(settings, hyperparameters=known)


def _is_alike(one: Settings, other: Settings) -> bool:
    """Whether answers of one experiment mean the same in another one."""
    keys = ("parameters", "contexts", "feedback", "kernel", "combinations", "priors")
    first = one.to_dict()
    second = other.to_dict()
    return all(first[key] == second[key] for key in keys)
