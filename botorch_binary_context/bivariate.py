r"""
Probabilities of two correlated normal variables.

Differentiable tensor functions that are valid for every correlation from -1 to 1.

.. [Owen1956tables]
    D. B. Owen. Tables for computing bivariate normal probabilities. Annals of
    Mathematical Statistics 27, 1956.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from botorch_binary_context.probability import legendre, normal_cdf

# The largest absolute correlation at which Plackett's integrand is smooth enough for
# its number of nodes.
MAX_SMOOTH = 0.9
# Anything nearer to zero counts as zero, so that ratios of arguments exist.
TINY = 1e-150


def bivariate_normal_cdf(h: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    r"""``Φ₂(h, k; ρ)``, the probability that ``x < h`` and ``y < k``.

    By Owen's T function [Owen1956tables]_, an integral of a smooth function over an
    interval that does not depend on the correlation.

    Args:
        h: A tensor of any shape.
        k: A tensor that broadcasts with ``h``.
        rho: The correlations of ``x`` and ``y``, in [-1, 1]; they broadcast with ``h``,
            too.

    Returns:
        The probabilities, in the shape to which the arguments broadcast.

    Example:
        >>> half = torch.tensor(0.5)
        >>> bivariate_normal_cdf(torch.tensor(0.0), torch.tensor(0.0), half)  # 1/3
    """
    h, k, rho = torch.broadcast_tensors(h, k, rho)
    return _BivariateCdf.apply(h, k, rho)  # pyright: ignore[reportReturnType]


def probit_covariance(h: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    r"""The covariance ``Φ₂(h, k; ρ) - Φ(h) Φ(k)`` of two success probabilities.

    With latent values ``f`` and ``g``, ``h = E f / sqrt(1 + V f)``, ``k`` likewise and
    ``ρ = cov(f, g) / sqrt((1 + V f) (1 + V g))`` this is ``cov(Φ(f), Φ(g))``. For
    correlations that are not extreme it is Plackett's integral [Plackett1954]_, which
    keeps its relative precision where the difference cancels.

    Args:
        h: A tensor of any shape.
        k: A tensor that broadcasts with ``h``.
        rho: The correlations, in [-1, 1]; they broadcast with ``h``, too.

    Returns:
        The covariances, in the shape to which the arguments broadcast.
    """
    h, k, rho = torch.broadcast_tensors(h, k, rho)
    smooth = rho.abs() <= MAX_SMOOTH
    direct = _plackett(h, k, torch.where(smooth, rho, 0.0))
    if bool(smooth.all()):
        return direct
    difference = bivariate_normal_cdf(h, k, rho) - normal_cdf(h) * normal_cdf(k)
    return torch.where(smooth, direct, difference)


def _plackett(h: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    """The integral of the bivariate density over the correlation, from zero."""
    nodes, weights = legendre(h.dtype, h.device)
    angle = torch.asin(rho)
    sine = torch.sin(angle.unsqueeze(-1) * nodes)
    h = h.unsqueeze(-1)
    k = k.unsqueeze(-1)
    exponent = (h.square() + k.square() - 2 * h * k * sine) / (2 * (1 - sine.square()))
    return ((-exponent).exp() @ weights) * angle / (2 * math.pi)


class _BivariateCdf(torch.autograd.Function):
    r"""``Φ₂`` with its derivatives in closed form.

    ``∂/∂h = φ(h) Φ((k - ρ h) / sqrt(1 - ρ²))``, likewise for ``k``, and ``∂/∂ρ`` is the
    bivariate density.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, k: Tensor, rho: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(h, k, rho)
        return _cdf_by_owen(h, k, rho)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, ...]:
        h, k, rho = ctx.saved_tensors
        rest = ((1 - rho) * (1 + rho)).clamp_min(TINY)
        root = rest.sqrt()
        squares = (h - rho * k).square() / rest + k.square()
        grad_h = _density(h) * normal_cdf((k - rho * h) / root)
        grad_k = _density(k) * normal_cdf((h - rho * k) / root)
        grad_rho = (-squares / 2).exp() / (2 * math.pi * root)
        return tuple(grad_outputs[0] * g for g in (grad_h, grad_k, grad_rho))


def _density(z: Tensor) -> Tensor:
    return (-z.square() / 2).exp() / math.sqrt(2 * math.pi)


def _cdf_by_owen(h: Tensor, k: Tensor, rho: Tensor) -> Tensor:
    h = torch.where(h.abs() < TINY, TINY, h)
    k = torch.where(k.abs() < TINY, TINY, k)
    root = ((1 - rho) * (1 + rho)).clamp_min(TINY).sqrt()
    halves = (normal_cdf(h) + normal_cdf(k)) / 2
    both = owens_t(h, (k - rho * h) / (h * root))
    both = both + owens_t(k, (h - rho * k) / (k * root))
    return (halves - both - ((h > 0) != (k > 0)).to(h) / 2).clamp(0.0, 1.0)


def owens_t(h: Tensor, a: Tensor) -> Tensor:
    r"""``T(h, a) = 1/(2π) ∫_0^a exp(-h² (1 + x²) / 2) / (1 + x²) dx``.

    Args:
        h: A tensor of any shape.
        a: A tensor of the same shape; may be infinite.

    Returns:
        A tensor of the same shape, even in ``h`` and odd in ``a``.
    """
    h = h.abs()
    slope = a.abs()
    steep = slope > 1
    # For ``a`` beyond 1, use the complement with the roles exchanged.
    turned = torch.where(steep, h * slope, h)
    inner = _short_owens_t(turned, torch.where(steep, 1 / slope, slope))
    p = normal_cdf(h)
    q = normal_cdf(turned)
    value = torch.where(steep, (p + q) / 2 - p * q - inner, inner)
    return a.sign() * value


def _short_owens_t(h: Tensor, a: Tensor) -> Tensor:
    """``T(h, a)`` for ``a`` in [0, 1]."""
    nodes, weights = legendre(h.dtype, h.device)
    x = 1 + (a.unsqueeze(-1) * nodes).square()
    integrand = (-h.square().unsqueeze(-1) * x / 2).exp() / x
    return (integrand @ weights) * a / (2 * math.pi)
