r"""
Learning from earlier subjects what the next one may be like.

All subjects are draws from one population: the function of subject ``j`` is ``f_j ~
GP(m, k)``. The hyperparameters of ``k`` and of the mean are learned from all subjects
together, by the product of their evidences, in one batched fit. With
``mean_function=True``, the values of the mean function ``m`` are learned, too, by
expectation maximization, with the Gaussian process itself as their prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.optim.core import scipy_minimize
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.priors import LogNormalPrior
from torch import Tensor
from torch.nn import Parameter

from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.priors import PooledLogNormalPrior
from botorch_binary_context.numerics.covariance import covariance

# The prior's standard deviation, in the logarithm, of hyperparameters that single
# subjects do not learn, such as the size of the offset.
FIXED_SPREAD = 1.0
# By how much a subject's own hyperparameters are expected to differ from those of the
# population, in the logarithm.
OWN_SPREAD = 0.3
NUM_POINTS = 128  # at which the mean function is known
JITTER = 1e-6
STEPS = 12  # of expectation maximization
ROUNDS = 2  # of learning hyperparameters and the mean in turn
FIT_OPTIONS = {"maxiter": 60, "ftol": 1e-7}


class PopulationMean(Mean):
    r"""The mean function of a population: a base mean plus ``k(z, Z) w``.

    Attributes:
        base: The mean to which the learned part is added.
        kernel: The kernel ``k``, as it was when the mean was learned.
    """

    points: Tensor
    weights: Tensor

    def __init__(self, base: Mean, kernel: Kernel, points: Tensor) -> None:
        r"""
        Args:
            base: The mean to which the learned part is added.
            kernel: The kernel ``k``; a copy is kept.
            points: ``Z``, transformed points, ``m x d``.
        """
        super().__init__()
        self.base = base
        self.kernel = deepcopy(kernel).requires_grad_(False)
        self.register_buffer("points", points)
        self.register_buffer("weights", points.new_zeros(len(points)))

    def forward(self, x: Tensor) -> Tensor:
        r"""The mean at transformed points.

        Args:
            x: A ``... x q x d`` tensor.

        Returns:
            A ``... x q`` tensor.
        """
        base: Any = self.base(x)
        return base + self.learned(x)

    def learned(self, x: Tensor) -> Tensor:
        r"""The learned part of the mean, without the base.

        Args:
            x: A ``... x q x d`` tensor.

        Returns:
            A ``... x q`` tensor.
        """
        return covariance(self.kernel, x, self.points) @ self.weights

    def fit(self, values: Tensor) -> None:
        r"""Fit the learned part of the mean to values at the points.

        Args:
            values: A tensor of ``m`` numbers.
        """
        K = covariance(self.kernel, self.points, self.points)
        diagonal = K.diagonal().mean() * JITTER
        K = K + diagonal * torch.eye(len(K), dtype=K.dtype, device=K.device)
        self.weights = torch.linalg.solve(K, values.unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True, eq=False)
class PopulationPrior:
    r"""A prior for the next subject, learned from earlier subjects.

    Attributes:
        parameters: The raw hyperparameters of the population, by their names in a
            model.
        num_subjects: The number of subjects they were learned from.
        mean: The mean function of the population, if it was learned.
    """

    parameters: dict[str, Tensor]
    num_subjects: int
    mean: PopulationMean | None = field(default=None)

    def apply(self, model: LatentGP) -> LatentGP:
        r"""Apply what was learned from the population to a model.

        Hyperparameters that a single subject learns start at the values of the
        population and get priors around them; the others take these values.

        Args:
            model: A model made in the same way as the models of the earlier subjects,
                with any batch shape. It is changed.

        Example:
            >>> model = prior.apply(psychometric_gp(train_X, train_Y, space))
        """
        known = dict(model.named_parameters())
        if known.keys() != self.parameters.keys():
            raise UnsupportedError(
                "Expected ``model`` to be made as those of the earlier subjects, with "
                f"the hyperparameters {', '.join(self.parameters)}, but got "
                f"{', '.join(known)}."
            )
        for name, value in self.parameters.items():
            known[name].data = value.to(known[name]).expand_as(known[name]).clone()
        _center_priors(model)
        if self.mean is not None:
            mean = deepcopy(self.mean).to(model.train_targets)
            mean.base = model.mean_module
            model.mean_module = mean
        model.train()  # drops what was computed
        return model.eval()


def _center_priors(model: LatentGP) -> None:
    """Give positive hyperparameters a prior around their present values."""
    priors: list[Any] = list(model.named_priors())
    for path, module, prior, get, put in priors:
        if not isinstance(prior, LogNormalPrior | PooledLogNormalPrior):
            continue  # the prior of a rate
        center = get(module).detach().log()
        own = LogNormalPrior(center, torch.full_like(center, OWN_SPREAD))
        module.register_prior(path.rpartition(".")[2], own, get, put)


def population_prior(
    models: Sequence[LatentGP], mean_function: bool = False
) -> PopulationPrior:
    r"""Learn from earlier subjects what the next one may be like.

    Args:
        models: A model of each earlier subject, all made in the same way and without
            batch dimensions. Only their trials and their priors are used, not their
            learned hyperparameters. They are not changed.
        mean_function: Whether to learn the mean function of the population in addition
            to its hyperparameters.

    Returns:
        The prior of the next subject.

    Example:
        >>> earlier = [psychometric_gp(X, Y, space) for X, Y in patients]
        >>> prior = population_prior(earlier, mean_function=True)
        >>> model = prior.apply(psychometric_gp(train_X, train_Y, space))
    """
    groups = _stack(models)
    learned = _shared_parameters(groups)
    _learn(groups, learned)
    mean = None
    if mean_function:
        mean = PopulationMean(
            groups[0].mean_module, groups[0].covar_module, _choose_points(groups)
        )
        for group in groups:
            group.mean_module = mean
        for _ in range(ROUNDS):
            mean.kernel = deepcopy(groups[0].covar_module).requires_grad_(False)
            _learn_mean(groups, mean, len(models))
            _learn(groups, learned)
    values = {name: p.detach().clone() for name, p in learned.items()}
    return PopulationPrior(values, len(models), mean)


def _stack(models: Sequence[LatentGP]) -> list[LatentGP]:
    """Subjects with equally many trials as one batch, with common hyperparameters."""
    if not models:
        raise InputDataError("Expected ``models`` to hold a model, but got none.")
    names = [list(dict(model.named_parameters())) for model in models]
    if any(model.batch_shape for model in models) or any(n != names[0] for n in names):
        raise UnsupportedError(
            "Expected ``models`` to be made in the same way and to have no batch "
            "dimensions, but got others."
        )

    def counts(model: LatentGP) -> list[int]:
        return [len(part) for part in model.train_inputs]

    groups = []
    for _, members in groupby(sorted(models, key=counts), key=counts):
        members = [member.eval() for member in members]
        group = members[0]._copy_without_data()
        group.train_inputs = _join([member.train_inputs for member in members])
        group.train_targets = torch.stack([member.train_targets for member in members])
        if members[0]._original_train_inputs is not None:
            original = _join([member._original_trials for member in members])
            group._original_trials = original
        group._drop_cache()
        groups.append(group)
    first = groups[0]
    for group in groups:
        group.covar_module, group.mean_module = first.covar_module, first.mean_module
        group.likelihoods = first.likelihoods
    return groups


def _join(parts: list[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(torch.stack(kind) for kind in zip(*parts, strict=True))


def _shared_parameters(groups: list[LatentGP]) -> dict[str, Parameter]:
    """The hyperparameters of the population, including those of single subjects."""
    return dict(groups[0].named_parameters())


def _learn(groups: list[LatentGP], parameters: dict[str, Parameter]) -> None:
    """Maximize the evidence of all subjects together; the prior counts once."""
    model = groups[0]
    free = [name for name, p in parameters.items() if p.requires_grad]
    fixed = [name for name in parameters if name not in free]
    started = {name: parameters[name].detach().clone() for name in fixed}
    for parameter in parameters.values():
        parameter.requires_grad_(True)

    def closure() -> tuple[Tensor, tuple[Tensor | None, ...]]:
        total = _log_prior(model)
        for name in fixed:
            total = total + _log_density(model, name, parameters[name], started[name])
        for group in groups:
            mean, K = group._prior_moments(group.train_inputs)
            likelihood = group.trial_likelihood
            targets = group.train_targets
            evidence, _ = group.inference.evidence(likelihood, mean, K, targets)
            total = total + evidence.sum()
        slopes = torch.autograd.grad(-total, list(parameters.values()))
        return -total.detach(), slopes

    scipy_minimize(closure, parameters, options=FIT_OPTIONS)  # pyright: ignore
    for name in fixed:
        parameters[name].requires_grad_(False)
    for group in groups:
        group._drop_cache()


def _log_prior(model: LatentGP) -> Tensor:
    total = model.train_targets.new_zeros(())
    for _, module, prior, closure, _ in model.named_priors():
        total = total + prior.log_prob(closure(module)).sum()
    return total


def _log_density(model: LatentGP, name: str, raw: Parameter, started: Tensor) -> Tensor:
    """The log density of hyperparameters that single subjects do not learn."""
    constraint = model.constraint_for_parameter_name(name)
    if constraint is None:
        return -((raw - started) / FIXED_SPREAD).square().sum() / 2
    ratio = constraint.transform(raw).log() - constraint.transform(started).log()
    return -(ratio / FIXED_SPREAD).square().sum() / 2


def _choose_points(groups: list[LatentGP]) -> Tensor:
    """A diverse selection of the rows that the subjects were shown."""
    rows = torch.cat([group.datapoints.flatten(0, -2) for group in groups]).unique(
        dim=0
    )
    center = rows.mean(dim=0)
    scale = rows.std(dim=0).clamp_min(torch.finfo(rows.dtype).eps)
    standardized = (rows - center) / scale
    chosen = [int(standardized.square().sum(dim=-1).argmin())]
    distance = (standardized - standardized[chosen[0]]).square().sum(dim=-1)
    while len(chosen) < min(NUM_POINTS, len(rows)):
        chosen.append(int(distance.argmax()))
        farther = (standardized - standardized[chosen[-1]]).square().sum(dim=-1)
        distance = torch.minimum(distance, farther)
    return rows[chosen]


@torch.no_grad()
def _learn_mean(groups: list[LatentGP], mean: PopulationMean, subjects: int) -> None:
    """Learn the mean function by expectation maximization.

    Given the functions of all ``J`` subjects, their average is ``m`` up to a variance
    of ``k / J``; with the prior ``GP(0, k)``, the posterior mean of ``m`` is ``J / (J +
    1)`` of it.
    """
    points = mean.points
    for _ in range(STEPS):
        total = torch.zeros_like(points[:, 0])
        for group in groups:
            group._drop_cache()
            number = len(group.train_targets)
            Z = points.expand(number, *points.shape)
            weights = group.approximation.weights.unsqueeze(-2)
            shift = (weights @ group.cross_covariance(Z)).squeeze(-2)
            total = total + (mean.learned(Z) + shift).sum(dim=0)
        mean.fit(total / (subjects + 1))
