r"""
Fits of hyperparameters, with little beside the algebra in each evaluation.

``fit_gpytorch_mll`` of BoTorch comes here for the models of this package. The search is
BoTorch's own: L-BFGS-B in the raw parameters from where they are. What it evaluates is
the same marginal likelihood, without the distributions, copies and modules that stand
between the parameters and the algebra. Whatever else is asked for (an optimizer, a
closure, further attempts after a failed one) is left to BoTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from botorch.fit import _fit_fallback
from botorch.optim.utils import get_parameters_and_bounds
from botorch.optim.utils.numpy_utils import get_bounds_as_ndarray
from gpytorch.mlls import MarginalLogLikelihood
from scipy.optimize import minimize
from torch import Tensor

# What L-BFGS-B says of an end that is no failure: converged, or out of iterations.
FINE = (0, 1)


class TrainingObjective(Protocol):
    r"""A marginal likelihood that can evaluate itself."""

    def at_training_data(self) -> Tensor:
        """Its value at the hyperparameters of the model, with a graph."""
        ...


def fit(
    mll: MarginalLogLikelihood,
    closure: Callable[..., Any] | None = None,
    closure_kwargs: Mapping[str, Any] | None = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> MarginalLogLikelihood:
    r"""Maximize a marginal likelihood; what ``fit_gpytorch_mll`` does.

    Args:
        mll: The marginal likelihood of a model of this package.
        closure: As in ``fit_gpytorch_mll``.
        closure_kwargs: As in ``fit_gpytorch_mll``.
        optimizer_kwargs: As in ``fit_gpytorch_mll``; ``options`` are those of
            ``scipy.optimize.minimize``.
        kwargs: As in ``fit_gpytorch_mll``.

    Returns:
        The marginal likelihood, in ``eval`` mode.
    """
    options = dict(optimizer_kwargs or {})
    is_plain = closure is None and closure_kwargs is None and not kwargs
    if is_plain and set(options) <= {"options"} and hasattr(mll, "at_training_data"):
        mll.train()
        if _climb(mll, options.get("options")):  # pyright: ignore[reportArgumentType]
            return mll.eval()
    return _fit_fallback(
        mll,
        closure=closure,
        closure_kwargs=None if closure_kwargs is None else dict(closure_kwargs),
        optimizer_kwargs=options,
        **kwargs,
    )


def _climb(mll: Any, options: Mapping[str, Any] | None) -> bool:
    """Search from the present hyperparameters; whether that ended well."""
    parameters, limits = get_parameters_and_bounds(mll, requires_grad=True)
    if not parameters:
        return False
    bounds: dict[str, Any] = dict(limits)
    loss = _Loss(mll, list(parameters.values()))
    begin = loss.read()
    try:
        found = minimize(
            loss,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=get_bounds_as_ndarray(parameters, bounds),
            options=dict(options or {}),
        )
    except RuntimeError:  # a covariance that could not be factored
        found = None
    if found is None or found.status not in FINE or not np.isfinite(found.fun):
        loss.write(begin)
        return False
    loss.write(found.x)
    return True


class _Loss:
    """The negative objective and its slope, as functions of a vector."""

    def __init__(self, mll: TrainingObjective, parameters: list[Tensor]) -> None:
        self.mll = mll
        self.parameters = parameters
        self.sizes = [parameter.numel() for parameter in parameters]

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        self.write(x)
        value = self.mll.at_training_data()
        slopes = torch.autograd.grad(value, self.parameters, allow_unused=True)
        found = [
            torch.zeros_like(parameter) if slope is None else slope
            for slope, parameter in zip(slopes, self.parameters, strict=True)
        ]
        return -value.item(), -_flatten(found)

    def read(self) -> np.ndarray:
        return _flatten(self.parameters)

    def write(self, x: np.ndarray) -> None:
        parts = torch.from_numpy(x).split(self.sizes)
        with torch.no_grad():
            for parameter, part in zip(self.parameters, parts, strict=True):
                parameter.copy_(part.view(parameter.shape))


def _flatten(tensors: list[Tensor]) -> np.ndarray:
    vector = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    return vector.cpu().double().numpy()
