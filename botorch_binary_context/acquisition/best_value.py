r"""
The ``best_f`` of BoTorch's improvement-based acquisition functions.

BoTorch's input constructors take the largest training target for ``best_f``. The
targets of the models here are labels, but their posterior is of the latent function,
and a label of 1 is not a latent value. Importing the package makes these constructors
use :func:`best_latent_value` for a
:class:`~botorch_binary_context.models.latent_gp.LatentGP`; other models, and a given
``best_f``, are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

from botorch.acquisition.input_constructors import ACQF_INPUT_CONSTRUCTOR_REGISTRY
from botorch.acquisition.objective import MCAcquisitionObjective, PosteriorTransform
from torch import Tensor

from botorch_binary_context.models.latent_gp import LatentGP


def best_latent_value(
    model: LatentGP,
    objective: MCAcquisitionObjective | None = None,
    posterior_transform: PosteriorTransform | None = None,
) -> Tensor:
    r"""The largest posterior mean at the rows of the training trials.

    Args:
        model: The model.
        objective: The objective, as a function of the latent value.
        posterior_transform: A transform of the latent posterior.

    Returns:
        A ``batch_shape`` tensor of values of the objective, without gradient.
    """
    rows = model.original_datapoints
    mean = model.posterior(rows, posterior_transform=posterior_transform).mean.detach()
    values = mean.squeeze(-1) if objective is None else objective(mean, X=rows)
    return values.amax(dim=-1)


def _with_latent_value(construct: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """A constructor that asks a latent model for ``best_f``."""

    @wraps(construct)
    def construct_inputs(model: Any, **kwargs: Any) -> dict[str, Any]:
        if isinstance(model, LatentGP) and kwargs.get("best_f") is None:
            names = ("objective", "posterior_transform")
            chosen = {name: kwargs[name] for name in names if name in kwargs}
            kwargs["best_f"] = best_latent_value(model, **chosen)
        return construct(model=model, **kwargs)

    return construct_inputs


def register_latent_best_values() -> None:
    r"""Make the registered input constructors use latent values for ``best_f``."""
    for acqf_class, construct in list(ACQF_INPUT_CONSTRUCTOR_REGISTRY.items()):
        if "best_f" in signature(acqf_class.__init__).parameters:
            ACQF_INPUT_CONSTRUCTOR_REGISTRY[acqf_class] = _with_latent_value(construct)


register_latent_best_values()
