r"""
The marginal likelihoods of models of few trials, and their slopes, in NumPy.

A fit evaluates them ten to twenty times. With a few dozen trials, a general evaluation
of one model spends almost all of its time on function calls, and an evaluation of a
batch spends much of it on moving arrays that do not fit into the caches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gpytorch.constraints import GreaterThan
from gpytorch.priors import LogNormalPrior
from torch import Tensor
from torch.nn import Softplus

from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.inference import Inference
from botorch_binary_context.inference.small import (
    SmallPosterior,
    SmallProblem,
    is_small,
)
from botorch_binary_context.likelihoods.probit_terms import Array, ProbitTerms
from botorch_binary_context.models.priors import PooledLogNormalPrior
from botorch_binary_context.models.small_kernel import Term, Values, find_terms

# Maps the values of a hyperparameter to their log densities and slopes, for each model.
Density = Callable[[Array], tuple[Array, Array]]
# The number of covariance entries that are evaluated together, which fit into the
# caches.
CELLS_AT_ONCE = 2**16
# The maximum number of squared differences of trials to keep: a quarter of a gigabyte.
MAX_CELLS = 2**25


def is_soft(constraint: object) -> bool:
    r"""Whether a constraint is a lower bound that a softplus enforces.

    Args:
        constraint: The constraint of a raw parameter, or None.

    Returns:
        Whether fits use the logarithm of the distance from the bound.
    """
    return isinstance(constraint, GreaterThan) and isinstance(
        constraint._transform, Softplus
    )


@dataclass
class SmallObjective:
    r"""The log evidence plus the log priors, per trial, of each of ``B`` models.

    Attributes:
        inference: How the posteriors are approximated.
        mean: The prior means of the contrasts, ``B x n``.
        answers: How the trials were answered, ``B x n``.
        is_difference: Whether trials observe differences of consecutive rows.
        terms: The terms of the kernel.
        fixed: The values of hyperparameters that are not learned, ``B x k``.
        lowest: The lower bounds of the learned ones, in the order of the vector.
        columns: The places of each raw parameter in the vector of a model.
        densities: The priors, by the identity of the raw parameters.
        num_rows: The number of rows of each model.
        start: Where the next search begins, ``B x n x k``.
    """

    inference: Inference
    mean: Array
    answers: ProbitTerms
    is_difference: bool
    terms: Sequence[Term]
    fixed: Values
    lowest: Mapping[int, float]
    columns: Mapping[int, slice]
    densities: Sequence[tuple[int, Density]]
    num_rows: int
    start: Array | None = None

    @classmethod
    def of(cls, mll: Any, parameters: Sequence[Tensor]) -> SmallObjective | None:
        r"""The objective of a marginal likelihood, if it is supported here.

        Args:
            mll: The marginal likelihood.
            parameters: The raw hyperparameters that are learned, all of them kept above
                a bound by a softplus.

        Returns:
            The objective; None if a part of the model is not supported here, or if the
            models of a batch share hyperparameters that are learned.
        """
        model = mll.model
        functional = model.functional
        if len(model.kinds) != 1 or functional not in (VALUE, DIFFERENCE):
            return None
        learned = {id(p) for p in parameters}
        if any(id(p) in learned for p in _others(model)):
            return None
        number = model.batch_shape.numel()
        with torch.no_grad():
            rows = model._rows(model._transform_trials(model.train_inputs))
            targets = model.train_targets
            if not _is_feasible(rows, targets, model.batch_shape):
                return None
            answers = model.trial_likelihood.probit_terms(targets.reshape(number, -1))
            terms = find_terms(
                model.covar_module, rows.reshape(number, *rows.shape[-2:])
            )
            mean = functional(model.prior_mean(rows)).expand(targets.shape)
        values = _constrained(model.covar_module, model.batch_shape)
        densities = _find_densities(model)
        if answers is None or terms is None or values is None or densities is None:
            return None
        if any(key not in values for key, _ in densities):  # priors of a mean
            return None
        return cls(
            mll.inference,
            mean.reshape(number, -1).numpy(),
            answers,
            functional == DIFFERENCE,
            terms,
            {key: value for key, (value, _) in values.items() if key not in learned},
            {id(p): values[id(p)][1] for p in parameters},
            _find_columns(parameters, number),
            densities,
            rows.shape[-2],
        )

    @property
    def number(self) -> int:
        """The number of models ``B``."""
        return len(self.mean)

    def __call__(self, x: Array, models: Array) -> tuple[Array, Array]:
        r"""The values and their slopes.

        Args:
            x: The logarithms of the hyperparameters above their bounds, ``b x p``.
            models: The indices of the models they belong to, ``b``.

        Returns:
            The values, ``b``, and the slopes in ``x``, ``b x p``; NaN where no
            posterior was found.
        """
        at_once = max(1, CELLS_AT_ONCE // self.num_rows**2)
        if len(models) <= at_once:
            return self._evaluate(x, models)
        parts = [
            self._evaluate(x[begin : begin + at_once], models[begin : begin + at_once])
            for begin in range(0, len(models), at_once)
        ]
        values, slopes = zip(*parts, strict=True)
        return np.concatenate(values), np.concatenate(slopes)

    @np.errstate(all="ignore")  # not finite means not found
    def _evaluate(self, x: Array, models: Array) -> tuple[Array, Array]:
        """The values and slopes of a few models."""
        above = np.exp(x)
        values = {key: value[models] for key, value in self.fixed.items()}
        for key, part in self.columns.items():
            values[key] = self.lowest[key] + above[:, part]
        evaluated = [term.evaluate(values, models) for term in self.terms]
        K = np.zeros((len(models), self.num_rows, self.num_rows))
        for term in evaluated:
            term.add_to(K)
        answers = self.answers.select(models)
        problem = SmallProblem(self.mean[models], self._contrast(K), answers)
        start = None if self.start is None else self.start[models]
        found = self.inference.find_small(problem, start)
        if found is None:
            return np.full(len(models), np.nan), np.full(x.shape, np.nan)
        self._keep(models, found)
        value = np.where(found.is_found, found.log_evidence, np.nan)
        by_column = np.zeros(x.shape)
        slopes = {key: by_column[:, part] for key, part in self.columns.items()}
        weights = self._by_rows(found.slopes()[1])
        for term in evaluated:
            term.add_slopes(weights, values, slopes)
        for key, density in self.densities:
            log_density, slope = density(values[key])
            value += log_density
            if key in slopes:
                slopes[key] += slope
        trials = self.mean.shape[-1]
        return value / trials, by_column * above / trials

    def _keep(self, models: Array, found: SmallPosterior) -> None:
        """Begin the next searches where these ended, or from scratch if they failed."""
        start = found.start
        if self.start is None:
            self.start = np.zeros((self.number, *start.shape[1:]))
        self.start[models] = np.where(found.is_found[:, None, None], start, 0.0)

    def _contrast(self, K: Array) -> Array:
        """The covariance of what trials observe, from the covariance of their rows."""
        if not self.is_difference:
            return K
        K = K[:, :, ::2] - K[:, :, 1::2]
        return K[:, ::2] - K[:, 1::2]

    def _by_rows(self, weights: Array) -> Array:
        """The weights of the rows, from the weights of what trials observe."""
        if not self.is_difference:
            return weights
        rows = np.empty((len(weights), self.num_rows, self.num_rows))
        rows[:, ::2, ::2] = rows[:, 1::2, 1::2] = weights
        rows[:, 1::2, ::2] = rows[:, ::2, 1::2] = -weights
        return rows

    def to_rows(self, vector: Array) -> Array:
        r"""A vector of all hyperparameters, split by models.

        Args:
            vector: All hyperparameters that are learned, parameter by parameter.

        Returns:
            A ``B x p`` array with one row for each model.
        """
        parts = [
            vector[self.number * part.start : self.number * part.stop]
            for part in self.columns.values()
        ]
        return np.concatenate([p.reshape(self.number, -1) for p in parts], axis=-1)

    def to_vector(self, rows: Array) -> Array:
        r"""The inverse of :meth:`to_rows`.

        Args:
            rows: ``B x p``.

        Returns:
            A vector of ``B p`` numbers.
        """
        return np.concatenate([rows[:, p].ravel() for p in self.columns.values()])


def _find_columns(parameters: Sequence[Tensor], number: int) -> dict[int, slice]:
    """The places of each parameter in the vector of a model."""
    columns = {}
    end = 0
    for parameter in parameters:
        begin = end
        end = begin + parameter.numel() // number
        columns[id(parameter)] = slice(begin, end)
    return columns


def _is_feasible(rows: Tensor, targets: Tensor, batch_shape: torch.Size) -> bool:
    """Whether each model of a batch has data of its own, of few trials."""
    if rows.shape[:-2] != batch_shape or targets.shape[:-1] != batch_shape:
        return False
    *_, size, dim = rows.shape
    if not 0 < batch_shape.numel() * dim * size**2 <= MAX_CELLS:
        return False
    return rows.dtype == torch.double and is_small(targets)


def _others(model: Any) -> list[Tensor]:
    """The parameters of a model that do not belong to its kernel."""
    inside = {id(p) for p in model.covar_module.parameters()}
    return [p for p in model.parameters() if id(p) not in inside]


def _constrained(
    kernel: Any, batch_shape: torch.Size
) -> dict[int, tuple[Array, float]] | None:
    """The values, ``B x k``, and the bound of every hyperparameter of a kernel."""
    found = {}
    number = batch_shape.numel()
    for _, raw, constraint in kernel.named_parameters_and_constraints():
        is_shared = raw.shape[: len(batch_shape)] != batch_shape
        if constraint is None or (raw.requires_grad and not is_soft(constraint)):
            return None
        if raw.requires_grad and is_shared:
            return None
        bound = float(constraint.lower_bound) if is_soft(constraint) else -math.inf
        value = constraint.transform(raw).detach()
        value = value.reshape(1 if is_shared else number, -1).expand(number, -1)
        found[id(raw)] = value.numpy().copy(), bound
    return found


def _find_densities(model: Any) -> list[tuple[int, Density]] | None:
    """The priors of a model, with the identities of their parameters."""
    found = []
    for name, module, prior, closure, _ in model.named_priors():
        label = name.rpartition(".")[2].removesuffix("_prior")
        raw = getattr(module, f"raw_{label}", None)
        density = _density(prior)
        if raw is None or density is None:
            return None
        value = getattr(module, f"raw_{label}_constraint").transform(raw)
        if not torch.equal(closure(module), value):
            return None
        found.append((id(raw), density))
    return found


def _density(prior: Any) -> Density | None:
    """A prior in NumPy, if it is known."""
    if type(prior) is LogNormalPrior and prior._transform is None:
        if prior.loc.numel() * prior.scale.numel() != 1:
            return None
        return _log_normal(float(prior.loc), float(prior.scale))
    if type(prior) is PooledLogNormalPrior:
        return _pooled(*prior.moments.tolist())
    return None


def _log_normal(loc: float, scale: float) -> Density:
    constant = math.log(scale) + 0.5 * math.log(2 * math.pi)

    def density(x: Array) -> tuple[Array, Array]:
        log = np.log(x)
        z = (log - loc) / scale
        value = -0.5 * np.square(z) - log - constant
        return value.sum(axis=-1), -(z / scale + 1) / x

    return density


def _pooled(loc: float, common: float, own: float) -> Density:
    def density(x: Array) -> tuple[Array, Array]:
        k = x.shape[-1]
        total = own**2 + k * common**2  # the variance along (1, ..., 1)
        log = np.log(x)
        z = log - loc
        share = common**2 / total
        along = z.sum(axis=-1, keepdims=True)
        quadratic = np.square(z).sum(axis=-1) - share * np.square(along[..., 0])
        constant = 2 * (k - 1) * math.log(own) + math.log(total)
        constant += k * math.log(2 * math.pi)
        value = -0.5 * (quadratic / own**2 + constant) - log.sum(axis=-1)
        return value, -((z - share * along) / own**2 + 1) / x

    return density
