r"""
Draws from the posterior of a model's hyperparameters.

A few outcomes of one bit say little about lengthscales, scales and slopes, so intervals
that take the most probable values as true are too narrow. The posterior of the
hyperparameters is their prior times the evidence of the model's own inference. Draws
are made by importance sampling from a Gaussian with the curvature of that posterior at
the hyperparameters of the model, in unbounded coordinates (the logarithm of a scale).
All evaluations are one batched model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import draw_sobol_normal_samples
from gpytorch.constraints import Interval
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.functional import logsigmoid

from botorch_binary_context.inference.exact import resample
from botorch_binary_context.models.inference_mode import outside_inference_mode
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.notices import silent

# The step, in the logarithm, of the finite differences of gradients.
STEP = 0.1
# The Gaussian is this much wider than the curvature says, to cover the tails.
WIDENING = 1.2
# Bounds of its standard deviations: the data may say almost nothing in some direction.
NARROWEST, WIDEST = 0.01, 1.5
# How far its center may be from the model's values, in standard deviations.
FARTHEST = 2.0


def draw_hyperparameters(
    model: LatentGP, num_draws: int = 32, seed: int = 0
) -> LatentGP:
    r"""The model with draws from the posterior of its hyperparameters.

    Args:
        model: A model whose hyperparameters were learned; those that do not require a
            gradient stay as they are. In a batch every element has its own.
        num_draws: The number of draws.
        seed: The seed of the draws.

    Returns:
        A model of the same trials with batch shape ``num_draws x batch_shape``.

    Example:
        >>> fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        >>> draws = draw_hyperparameters(model, num_draws=16)
        >>> draws.posterior(X).mean  # 16 x q x 1
    """
    with outside_inference_mode(model.eval()) as model:
        return _draw(model, num_draws, seed)


def _draw(model: LatentGP, num_draws: int, seed: int) -> LatentGP:
    coordinates = _Coordinates.of(model)
    center = coordinates.read(model)  # batch_shape x p
    if not center.shape[-1]:
        return expand_model(model, num_draws)
    center, root = _fit_gaussian(model, coordinates, center)
    z = draw_sobol_normal_samples(
        center.shape[-1], num_draws, dtype=center.dtype, device=center.device, seed=seed
    )
    z = z.view(num_draws, *[1] * (center.ndim - 1), -1).expand(num_draws, *center.shape)
    u = center + (root @ z.unsqueeze(-1)).squeeze(-1)
    draws = expand_model(model, num_draws)
    with torch.no_grad():
        with silent():  # most are only weighted; the chosen ones warn when used
            density = coordinates.log_posterior(draws, u)
        coordinates.write(draws, _choose(u, density + z.square().sum(dim=-1) / 2))
    return draws


def expand_model(model: LatentGP, number: int) -> LatentGP:
    r"""The same model several times, each with its own hyperparameters.

    Args:
        model: The model.
        number: The number of copies.

    Returns:
        A model with batch shape ``number x batch_shape``.
    """
    expanded = model.expand_data(torch.Size([number]))
    for module in expanded.modules():
        _expand_module(module, number, model.batch_shape)
    return expanded


def _expand_module(module: Module, number: int, batch: torch.Size) -> None:
    own = {
        name: parameter
        for name, parameter in module._parameters.items()
        if parameter is not None and parameter.shape[: len(batch)] == batch
    }
    for name, parameter in own.items():
        values = parameter.detach().expand(number, *parameter.shape).clone()
        module._parameters[name] = Parameter(values, parameter.requires_grad)
    if own and isinstance(module, Kernel):
        module.batch_shape = torch.Size([number, *module.batch_shape])


def _fit_gaussian(
    model: LatentGP, coordinates: _Coordinates, start: Tensor
) -> tuple[Tensor, Tensor]:
    """The center of the posterior of hyperparameters, and a root of its covariance."""
    p = start.shape[-1]
    steps = STEP * torch.eye(p, dtype=start.dtype, device=start.device)
    steps = torch.cat([steps, -steps]).view(2 * p, *[1] * (start.ndim - 1), p)
    slopes = coordinates.slope(expand_model(model, 2 * p), start + steps)
    up, down = slopes.unflatten(0, (2, p)).unbind()
    hessian = ((up - down) / (2 * STEP)).movedim(0, -2)  # batch_shape x p x p
    slope = (up + down).mean(dim=0) / 2
    precisions, axes = torch.linalg.eigh(-(hessian + hessian.mT) / 2)
    precisions = precisions.clamp(WIDEST**-2, NARROWEST**-2)
    move = (axes.mT @ slope.unsqueeze(-1)).squeeze(-1) * precisions.rsqrt()
    move = move * (FARTHEST / move.norm(dim=-1, keepdim=True)).clamp_max(1.0)
    root = axes * precisions.rsqrt().unsqueeze(-2)
    center = start + (root @ move.unsqueeze(-1)).squeeze(-1)
    return center, WIDENING * root


def _choose(u: Tensor, log_weights: Tensor) -> Tensor:
    """Draws in proportion to their weights.

    Most weights are nearly equal, so most draws are chosen once.
    """
    if not bool(log_weights.isfinite().any(dim=0).all()):
        raise UnsupportedError(
            "Expected finite evidence near the hyperparameters of ``model``, but found "
            "none: learn them first."
        )
    log_weights = log_weights.nan_to_num(nan=-torch.inf)
    return resample(u, log_weights, torch.full_like(log_weights[:1], 0.5))


@dataclass(frozen=True)
class _Coordinates:
    """The free hyperparameters of a model, as numbers without bounds.

    A hyperparameter with only a lower bound enters by its logarithm, one with two
    bounds by its log odds.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    constraints: tuple[Interval | None, ...]
    num_batch: int

    @classmethod
    def of(cls, model: LatentGP) -> _Coordinates:
        free = [
            (name, parameter, constraint)
            for name, parameter, constraint in model.named_parameters_and_constraints()
            if parameter.requires_grad
        ]
        batch = model.batch_shape
        for name, parameter, _ in free:
            if parameter.shape[: len(batch)] != batch:
                raise UnsupportedError(
                    "Expected every hyperparameter to have a value for each element "
                    f"of the batch, {list(batch)}, but got {name} of shape "
                    f"{list(parameter.shape)}."
                )
        sizes = tuple(p.shape[len(batch) :].numel() for _, p, _ in free)
        names = tuple(name for name, _, _ in free)
        return cls(names, sizes, tuple(c for *_, c in free), len(batch))

    def read(self, model: LatentGP) -> Tensor:
        """The coordinates of a model, ``batch_shape x p``."""
        batch = model.batch_shape
        parts = [model.train_targets.new_zeros(*batch, 0)]
        for name, constraint in zip(self.names, self.constraints, strict=True):
            raw = model.get_parameter(name).detach()
            parts.append(_to_coordinate(raw, constraint).reshape(*batch, -1))
        return torch.cat([part.to(parts[0]) for part in parts], dim=-1)

    def write(self, model: LatentGP, u: Tensor) -> None:
        """Give a model the hyperparameters at coordinates."""
        for name, raw in zip(self.names, self._raw(u), strict=True):
            parameter = model.get_parameter(name)
            parameter.data.copy_(raw.reshape(parameter.shape))

    def _raw(self, u: Tensor) -> list[Tensor]:
        parts = u.split(self.sizes, dim=-1)
        return [
            _from_coordinate(part, constraint)
            for part, constraint in zip(parts, self.constraints, strict=True)
        ]

    def log_posterior(self, model: LatentGP, u: Tensor) -> Tensor:
        """The log density of coordinates, up to a constant, ``batch_shape``."""
        self.write(model, u)
        return model.log_posterior_of_hyperparameters() + self._log_volume(u)

    def slope(self, model: LatentGP, u: Tensor) -> Tensor:
        """The slope of the log density, in the shape of the coordinates."""
        self.write(model, u)
        with torch.enable_grad():
            u = u.detach().requires_grad_()
            raw = self._raw(u)
            density = model.log_posterior_of_hyperparameters().sum()
            parameters = [model.get_parameter(name) for name in self.names]
            slopes = torch.autograd.grad(density, parameters)
            pull = sum(
                (r * g.reshape(r.shape)).sum() for r, g in zip(raw, slopes, strict=True)
            )
            return torch.autograd.grad(pull + self._log_volume(u).sum(), u)[0]

    def _log_volume(self, u: Tensor) -> Tensor:
        """The log Jacobian of the hyperparameters in the coordinates."""
        total = torch.zeros_like(u[..., 0])
        parts = u.split(self.sizes, dim=-1)
        for part, constraint in zip(parts, self.constraints, strict=True):
            if _has_two_bounds(constraint):
                total = total + (logsigmoid(part) + logsigmoid(-part)).sum(dim=-1)
            elif constraint is not None:
                total = total + part.sum(dim=-1)
        return total


def _has_two_bounds(constraint: Interval | None) -> bool:
    return constraint is not None and bool(constraint.upper_bound.isfinite().all())


def _to_coordinate(raw: Tensor, constraint: Interval | None) -> Tensor:
    if constraint is None:
        return raw
    value = constraint.transform(raw)
    low = constraint.lower_bound
    if _has_two_bounds(constraint):
        return ((value - low) / (constraint.upper_bound - value)).log()
    return (value - low).log()


def _from_coordinate(u: Tensor, constraint: Interval | None) -> Tensor:
    if constraint is None:
        return u
    low = constraint.lower_bound
    if _has_two_bounds(constraint):
        value = low + (constraint.upper_bound - low) * u.sigmoid()
    else:
        value = low + u.exp()
    return constraint.inverse_transform(value)
