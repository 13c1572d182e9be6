r"""
Fits of hyperparameters with little overhead.

BoTorch's ``fit_gpytorch_mll`` calls this for the models of this package. The search is
BoTorch's own, L-BFGS-B from the current parameters, but in the logarithms of positive
hyperparameters, which takes a third fewer steps. It evaluates the same marginal
likelihood, without the distributions, copies and modules between the parameters and the
algebra. Anything else (another optimizer, a closure, a second attempt after a failure)
is left to BoTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from botorch.fit import _fit_fallback
from botorch.optim.utils import get_parameters_and_bounds
from botorch.optim.utils.numpy_utils import get_bounds_as_ndarray
from gpytorch.mlls import MarginalLogLikelihood
from scipy.optimize import minimize
from torch import Tensor

from botorch_binary_context.models.small_objective import SmallObjective, is_soft
from botorch_binary_context.numerics.descent import minimize_each
from botorch_binary_context.numerics.threads import one_thread

# Exit codes of L-BFGS-B that are not failures: converged, or out of iterations.
FINE = (0, 1)
# Bounds of the logarithms of hyperparameters that the data do not limit.
WIDEST_LOG = 12.0
# Up to this number of trials, a fit is faster on one thread.
LARGEST_ON_ONE_THREAD = 500
# The fit of one model in a batch ends when its log evidence is expected to gain no more
# than this.
HOPE = 1e-5


class TrainingObjective(Protocol):
    r"""A marginal likelihood that can evaluate itself."""

    def at_training_data(self) -> Tensor:
        """The value at the hyperparameters of the model, with a graph."""
        ...


def fit(
    mll: MarginalLogLikelihood,
    closure: Callable[..., Any] | None = None,
    closure_kwargs: Mapping[str, Any] | None = None,
    optimizer_kwargs: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> MarginalLogLikelihood:
    r"""Maximize a marginal likelihood; ``fit_gpytorch_mll`` calls this.

    Args:
        mll: The marginal likelihood of a model of this package.
        closure: As in ``fit_gpytorch_mll``.
        closure_kwargs: As in ``fit_gpytorch_mll``.
        optimizer_kwargs: As in ``fit_gpytorch_mll``; ``options`` are the options of
            ``scipy.optimize.minimize``.
        kwargs: As in ``fit_gpytorch_mll``.

    Returns:
        The marginal likelihood, in ``eval`` mode.
    """
    options = dict(optimizer_kwargs or {})
    is_plain = closure is None and closure_kwargs is None and not kwargs
    if is_plain and set(options) <= {"options"} and hasattr(mll, "at_training_data"):
        mll.train()
        model: Any = mll.model
        is_small = model.train_targets.shape[-1] <= LARGEST_ON_ONE_THREAD
        with one_thread() if is_small else nullcontext():
            is_found = _climb(mll, options.get("options"))  # pyright: ignore
        if is_found:
            return mll.eval()
    return _fit_fallback(
        mll,
        closure=closure,
        closure_kwargs=None if closure_kwargs is None else dict(closure_kwargs),
        optimizer_kwargs=options,
        **kwargs,
    )


def _climb(mll: Any, options: Mapping[str, Any] | None) -> bool:
    """Search from the present hyperparameters, and return whether that succeeded."""
    parameters, limits = get_parameters_and_bounds(mll, requires_grad=True)
    if not parameters:
        return False
    loss = _Loss(mll, parameters)
    begin = loss.read()
    bounds = _find_bounds(parameters, dict(limits), loss.is_log, begin)
    if not options and _climb_each(loss, begin, bounds):
        return True
    try:
        found = minimize(
            loss,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=dict(options or {}),
        )
    except RuntimeError:  # a covariance that could not be factored
        found = None
    if found is None or found.status not in FINE or not np.isfinite(found.fun):
        loss.restore()
        return False
    loss.write(found.x)
    return True


def _climb_each(loss: _Loss, begin: np.ndarray, bounds: np.ndarray) -> bool:
    """Fit each model of a batch by itself, and return whether all fits succeeded."""
    small = loss.small
    if small is None or small.number == 1:
        return False
    limits = np.stack([small.to_rows(column) for column in bounds.T], axis=-1)
    trials = small.mean.shape[-1]

    def evaluate(x: np.ndarray, models: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = small(x, models)
        return -trials * value, -trials * slope

    found = minimize_each(evaluate, small.to_rows(begin), limits, HOPE)
    if not found.is_found.all():
        return False
    loss.write(small.to_vector(found.x))
    return True


def _find_bounds(
    parameters: dict[str, Tensor],
    limits: dict[str, Any],
    is_log: np.ndarray,
    begin: np.ndarray,
) -> np.ndarray:
    """The bounds of raw parameters, and wide ones for logarithms."""
    bounds = get_bounds_as_ndarray(parameters, limits)
    if bounds is None:
        bounds = np.full((len(begin), 2), (-np.inf, np.inf))
    bounds[is_log, 0] = np.minimum(-WIDEST_LOG, begin[is_log])
    bounds[is_log, 1] = np.maximum(WIDEST_LOG, begin[is_log])
    return bounds


class _Loss:
    """The negative objective and its gradient, as functions of a vector.

    A hyperparameter that is kept positive by a softplus enters by its logarithm, in
    which the evidence is closer to a parabola than in the raw parameter; any other
    enters as it is.
    """

    def __init__(self, mll: Any, parameters: dict[str, Tensor]) -> None:
        self.mll: TrainingObjective = mll
        self.parameters = list(parameters.values())
        self.sizes = [parameter.numel() for parameter in self.parameters]
        soft = {
            name
            for name, _, constraint in mll.named_parameters_and_constraints()
            if is_soft(constraint)
        }
        self._begin = [p.detach().clone() for p in self.parameters]
        self.is_log = np.repeat([name in soft for name in parameters], self.sizes)
        all_soft = bool(self.is_log.all())
        self.small = SmallObjective.of(mll, self.parameters) if all_soft else None

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        if self.small is not None:
            models = np.arange(self.small.number)
            values, slopes = self.small(self.small.to_rows(x), models)
            if np.isfinite(values).all():
                return -float(values.sum()), -self.small.to_vector(slopes)
        self.write(x)
        value = self.mll.at_training_data()
        slopes = torch.autograd.grad(value, self.parameters, allow_unused=True)
        found = [
            torch.zeros_like(parameter) if slope is None else slope
            for slope, parameter in zip(slopes, self.parameters, strict=True)
        ]
        slope = -_flatten(found)
        above = np.exp(x[self.is_log])
        slope[self.is_log] *= above / -np.expm1(-above)  # ``∂ raw / ∂ log``
        return -value.item(), slope

    def restore(self) -> None:
        """Restore the parameters exactly."""
        with torch.no_grad():
            for parameter, value in zip(self.parameters, self._begin, strict=True):
                parameter.copy_(value)

    def read(self) -> np.ndarray:
        x = _flatten(self.parameters)
        x[self.is_log] = np.log(np.logaddexp(0.0, x[self.is_log]))
        return x

    def write(self, x: np.ndarray) -> None:
        raw = x.copy()
        above = np.exp(x[self.is_log])
        raw[self.is_log] = above + np.log(-np.expm1(-above))
        parts = torch.from_numpy(raw).split(self.sizes)
        with torch.no_grad():
            for parameter, part in zip(self.parameters, parts, strict=True):
                parameter.copy_(part.view(parameter.shape))


def _flatten(tensors: list[Tensor]) -> np.ndarray:
    vector = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
    return vector.cpu().double().numpy()
