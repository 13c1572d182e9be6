r"""
The marginal likelihood of one model of few trials, and its slopes, in NumPy.

A fit evaluates it some ten to twenty times. At some tens of trials almost all of the
time of a general evaluation goes into calls.
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
from botorch_binary_context.inference.small import SmallProblem
from botorch_binary_context.likelihoods.probit_terms import Array, ProbitTerms
from botorch_binary_context.models.priors import PooledLogNormalPrior
from botorch_binary_context.models.small_kernel import Term, Values, find_terms

# Maps the values of a hyperparameter to their log density and its slopes.
Density = Callable[[Array], tuple[float, Array]]


def is_soft(constraint: object) -> bool:
    r"""Whether a constraint is a lower bound that a soft threshold keeps.

    Args:
        constraint: The constraint of a raw parameter, or None.

    Returns:
        Whether its logarithm above the bound is a coordinate.
    """
    return isinstance(constraint, GreaterThan) and isinstance(
        constraint._transform, Softplus
    )


@dataclass
class SmallObjective:
    r"""The log evidence plus the log priors, per trial.

    Attributes:
        inference: How the posterior is approximated.
        mean: The prior mean of the contrasts, ``n``.
        answers: How the trials were answered.
        is_difference: Whether trials observe differences of consecutive rows.
        terms: The terms of the kernel.
        fixed: The values of hyperparameters that are not learned.
        lowest: The lower bounds of those that are learned, in the order of the vector.
        shapes: Their shapes.
        densities: The priors, by the identity of the raw parameters.
        num_rows: The number of rows.
        start: Where the next search begins.
    """

    inference: Inference
    mean: Array
    answers: ProbitTerms
    is_difference: bool
    terms: Sequence[Term]
    fixed: Values
    lowest: Mapping[int, float]
    shapes: Mapping[int, torch.Size]
    densities: Sequence[tuple[int, Density]]
    num_rows: int
    start: Array | None = None

    @classmethod
    def of(cls, mll: Any, parameters: Sequence[Tensor]) -> SmallObjective | None:
        r"""The objective of a marginal likelihood, if it is one that is known here.

        Args:
            mll: The marginal likelihood.
            parameters: The raw hyperparameters that are learned, all of them kept
                above a bound by a soft threshold.

        Returns:
            The objective; None if a part of the model is not known here.
        """
        model = mll.model
        functional = model.functional
        if len(model.kinds) != 1 or functional not in (VALUE, DIFFERENCE):
            return None
        learned = {id(p) for p in parameters}
        if any(id(p) in learned for p in _others(model)):
            return None
        with torch.no_grad():
            mean, K = model.prior_of_training_trials()
            answers = model.trial_likelihood
            problem = SmallProblem.of(answers, mean, K, model.train_targets)
            if problem is None or not problem.K.size:
                return None
            rows = model._rows(model._transform_trials(model.train_inputs))
            terms = find_terms(model.covar_module, rows)
        values = _constrained(model.covar_module)
        densities = _find_densities(model)
        if terms is None or values is None or densities is None:
            return None
        if any(key not in values for key, _ in densities):  # priors of a mean
            return None
        lowest = {id(p): values[id(p)][1] for p in parameters}
        return cls(
            mll.inference,
            problem.mean,
            problem.terms,
            functional == DIFFERENCE,
            terms,
            {key: value for key, (value, _) in values.items() if key not in learned},
            lowest,
            {id(p): p.shape for p in parameters},
            densities,
            rows.shape[-2],
        )

    def __call__(self, x: Array) -> tuple[float, Array] | None:
        r"""The value and its slopes.

        Args:
            x: The logarithms of the hyperparameters above their bounds.

        Returns:
            The value and the slopes in ``x``; None if the posterior was not found.
        """
        above = np.exp(x)
        values = {**self.fixed, **self._split(above)}
        evaluated = [term.evaluate(values, self.num_rows) for term in self.terms]
        K = evaluated[0].scale * evaluated[0].base
        for term in evaluated[1:]:
            K += term.scale * term.base
        problem = SmallProblem(self.mean, self._contrast(K), self.answers)
        found = self.inference.find_small(problem, self.start)
        if found is None:
            self.start = None
            return None
        self.start = found.start
        value = found.log_evidence
        slopes = {key: np.zeros(shape) for key, shape in self.shapes.items()}
        weights = self._spread(found.slopes()[1])
        for term in evaluated:
            term.add_slopes(weights, values, slopes)
        for key, density in self.densities:
            log_density, slope = density(values[key])
            value += log_density
            if key in slopes:
                slopes[key] += slope
        number = len(self.mean)
        flat = np.concatenate([slope.ravel() for slope in slopes.values()])
        return value / number, flat * above / number

    def _split(self, above: Array) -> Values:
        """The values of hyperparameters that are learned."""
        values = {}
        begin = 0
        for key, shape in self.shapes.items():
            end = begin + shape.numel()
            values[key] = self.lowest[key] + above[begin:end].reshape(shape)
            begin = end
        return values

    def _contrast(self, K: Array) -> Array:
        """The covariance of what trials observe, from that of their rows."""
        if not self.is_difference:
            return K
        K = K[:, ::2] - K[:, 1::2]
        return K[::2] - K[1::2]

    def _spread(self, weights: Array) -> Array:
        """The weights of the rows, from those of what trials observe."""
        if not self.is_difference:
            return weights
        spread = np.empty((self.num_rows, self.num_rows))
        spread[::2, ::2] = spread[1::2, 1::2] = weights
        spread[1::2, ::2] = spread[::2, 1::2] = -weights
        return spread


def _others(model: Any) -> list[Tensor]:
    """The parameters of a model beside those of its kernel."""
    inside = {id(p) for p in model.covar_module.parameters()}
    return [p for p in model.parameters() if id(p) not in inside]


def _constrained(kernel: Any) -> dict[int, tuple[Array, float]] | None:
    """The value and the bound of every hyperparameter of a kernel."""
    found = {}
    for _, raw, constraint in kernel.named_parameters_and_constraints():
        if constraint is None or (raw.requires_grad and not is_soft(constraint)):
            return None
        bound = float(constraint.lower_bound) if is_soft(constraint) else -math.inf
        found[id(raw)] = constraint.transform(raw).detach().numpy().copy(), bound
    return found


def _find_densities(model: Any) -> list[tuple[int, Density]] | None:
    """The priors of a model, with the parameters they are about."""
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
        return _log_normal(float(prior.loc), float(prior.scale))
    if type(prior) is PooledLogNormalPrior:
        return _pooled(*prior.moments.tolist())
    return None


def _log_normal(loc: float, scale: float) -> Density:
    constant = math.log(scale) + 0.5 * math.log(2 * math.pi)

    def density(x: Array) -> tuple[float, Array]:
        log = np.log(x)
        z = (log - loc) / scale
        value = -0.5 * np.square(z) - log - constant
        return float(value.sum()), -(z / scale + 1) / x

    return density


def _pooled(loc: float, common: float, own: float) -> Density:
    def density(x: Array) -> tuple[float, Array]:
        k = x.shape[-1]
        total = own**2 + k * common**2  # the variance along (1, ..., 1)
        log = np.log(x)
        z = log - loc
        share = common**2 / total
        along = z.sum(axis=-1, keepdims=True)
        quadratic = (np.square(z).sum() - share * np.square(along).sum()) / own**2
        rows = x.size // k
        log_det = 2 * (k - 1) * math.log(own) + math.log(total)
        constant = rows * (log_det + k * math.log(2 * math.pi))
        value = -0.5 * (quadratic + constant) - float(log.sum())
        return float(value), -((z - share * along) / own**2 + 1) / x

    return density
