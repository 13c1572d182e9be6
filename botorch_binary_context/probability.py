r"""
Moments, entropies and mutual information of a Bernoulli trial with a probit link.

Pure, differentiable tensor functions of the mean and the variance of a Gaussian
latent value ``f``; every result takes its dtype and device from its inputs.

.. [Houlsby2011bald]
    N. Houlsby, F. Huszár, Z. Ghahramani, M. Lengyel. Bayesian Active Learning for
    Classification and Preference Learning. arXiv 1112.5745, 2011.
.. [Plackett1954]
    R. L. Plackett. A reduction formula for normal multivariate integrals. Biometrika
    41, 1954.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.special import entr, erfcx, log_ndtr

LEGENDRE_NODES = 24
HERMITE_NODES = 32
# The squared width of the Gaussian that follows the entropy H(Φ(f)) most closely.
ENTROPY_WIDTH_SQUARED = math.pi * math.log(2.0) / 2.0


@lru_cache(maxsize=32)
def legendre(
    dtype: torch.dtype, device: torch.device, number: int = LEGENDRE_NODES
) -> tuple[Tensor, Tensor]:
    r"""Nodes and weights of Gauss-Legendre quadrature on ``[0, 1]``.

    Args:
        dtype: Their dtype.
        device: Their device.
        number: The number of nodes.
    """
    nodes, weights = np.polynomial.legendre.leggauss(number)
    # A tensor made in inference mode could not be used with autograd later.
    with torch.inference_mode(False):
        return (
            torch.as_tensor((nodes + 1) / 2, dtype=dtype, device=device),
            torch.as_tensor(weights / 2, dtype=dtype, device=device),
        )


@lru_cache(maxsize=32)
def hermite(
    dtype: torch.dtype, device: torch.device, number: int = HERMITE_NODES
) -> tuple[Tensor, Tensor]:
    r"""Nodes and weights of Gauss-Hermite quadrature for a standard normal.

    Args:
        dtype: Their dtype.
        device: Their device.
        number: The number of nodes.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(number)
    with torch.inference_mode(False):
        return (
            torch.as_tensor(nodes, dtype=dtype, device=device),
            torch.as_tensor(weights / weights.sum(), dtype=dtype, device=device),
        )


def normal_cdf(z: Tensor) -> Tensor:
    r"""``Φ(z)``, to full relative precision on the lower tail.

    ``torch.special.ndtr`` computes ``1 + erf(z / √2)`` there, which cancels: no digit
    is left at ``z = -9``.

    Args:
        z: A tensor of any shape.

    Returns:
        A tensor of the same shape.
    """
    return torch.erfc(-math.sqrt(0.5) * z) / 2


class _InverseMillsRatio(torch.autograd.Function):
    """``φ(z) / Φ(z)`` with the derivative ``-r (z + r)``, differentiable again."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return _inverse_mills_ratio(z)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        ratio = inverse_mills_ratio(z)
        return -grad_outputs[0] * ratio * (z + ratio)


def _inverse_mills_ratio(z: Tensor) -> Tensor:
    return math.sqrt(2.0 / math.pi) / erfcx(-math.sqrt(0.5) * z)


def inverse_mills_ratio(z: Tensor) -> Tensor:
    r"""The ratio ``φ(z) / Φ(z)``, to full relative precision on both tails.

    ``erfcx`` avoids the difference of two large logarithms that
    ``exp(log φ - log Φ)`` takes for very negative ``z``.

    Args:
        z: A tensor of any shape.

    Returns:
        A positive tensor of the same shape.
    """
    if not z.requires_grad:
        return _inverse_mills_ratio(z)
    return _InverseMillsRatio.apply(z)  # pyright: ignore[reportReturnType]


def gaussian_expectation(
    function: Callable[[Tensor], Tensor], mean: Tensor, variance: Tensor
) -> Tensor:
    r"""``E g(f)`` for ``f ~ N(mean, variance)``, by Gauss-Hermite quadrature.

    Args:
        function: Maps a ``nodes x ...`` tensor of latent values to one of the same
            shape.
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, of the same shape.

    Returns:
        A tensor of the shape of ``mean``.
    """
    nodes, weights = hermite(mean.dtype, mean.device)
    # The tiny term keeps the gradient of the square root finite.
    scale = (variance + torch.finfo(variance.dtype).eps).sqrt()
    f = mean + scale * nodes.reshape(-1, *[1] * mean.ndim)
    return torch.tensordot(weights, function(f), dims=1)


def probit_mean(mean: Tensor, variance: Tensor) -> Tensor:
    r"""The mean of ``Φ(f)`` for ``f ~ N(mean, variance)``, ``Φ(μ / sqrt(1 + σ²))``.

    Args:
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, broadcastable with ``mean``.

    Returns:
        The mean of the success probability.
    """
    return normal_cdf(mean / (1 + variance).sqrt())


def probit_moments(mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
    r"""The mean and the variance of ``Φ(f)`` for ``f ~ N(mean, variance)``.

    With ``h = μ / sqrt(1 + σ²)`` the mean is ``Φ(h)``, and Plackett's identity
    [Plackett1954]_ gives the variance as the integral of a positive smooth function,

        ``V Φ(f) = 1/(2π) ∫_0^{asin(σ²/(1+σ²))} exp(-h² / (1 + sin θ)) dθ``,

    which keeps its relative precision where the textbook difference of Owen's T
    functions cancels (``μ = 5``, ``σ² = 1e-8``).

    Args:
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, broadcastable with ``mean``.

    Returns:
        The mean and the variance of the success probability, in the shape to which
        the arguments broadcast.

    Example:
        >>> mean, variance = probit_moments(torch.zeros(1), torch.ones(1))
    """
    mean, variance = torch.broadcast_tensors(mean, variance)
    h = mean / (1 + variance).sqrt()
    return normal_cdf(h), probit_variance(h, variance)


def probit_variance(h: Tensor, variance: Tensor) -> Tensor:
    r"""``V Φ(f)`` as a function of ``h = μ / sqrt(1 + σ²)`` and ``σ²``.

    Args:
        h: A tensor of any shape.
        variance: The latent variance, of the same shape.

    Returns:
        A tensor of the same shape.
    """
    if not (h.requires_grad or variance.requires_grad):
        return _probit_variance(h, variance)
    return _ProbitVariance.apply(h, variance)  # pyright: ignore[reportReturnType]


def _probit_variance(h: Tensor, variance: Tensor) -> Tensor:
    nodes, weights = legendre(h.dtype, h.device)
    # asin(v / (1 + v)) without the infinite slope of asin at 1.
    angle = torch.atan(variance / (1 + 2 * variance).sqrt())
    exponent = h.square().unsqueeze(-1) / (1 + torch.sin(angle.unsqueeze(-1) * nodes))
    return ((-exponent).exp() @ weights) * angle / (2 * math.pi)


class _ProbitVariance(torch.autograd.Function):
    r"""``V Φ(f)`` with its derivatives in closed form, differentiable again.

    With ``b = 1/sqrt(1 + 2σ²)``: ``∂V/∂h = 2 φ(h) (Φ(b h) - Φ(h))`` and
    ``∂V/∂σ² = exp(-h² (1 + σ²) / (1 + 2σ²)) b / (2π (1 + σ²))``.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, variance: Tensor) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(h, variance)
        return _probit_variance(h, variance)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor]:
        h, variance = ctx.saved_tensors
        squared = 1 + 2 * variance
        slope = squared.rsqrt()
        density = (-h.square() / 2).exp() * math.sqrt(2 / math.pi)  # 2 φ(h)
        grad_h = density * (normal_cdf(slope * h) - normal_cdf(h))
        exponent = h.square() * (1 + variance) / squared
        grad_variance = (-exponent).exp() * slope / (2 * math.pi * (1 + variance))
        return grad_outputs[0] * grad_h, grad_outputs[0] * grad_variance


def bernoulli_entropy(probability: Tensor) -> Tensor:
    r"""The entropy, in nats, of a Bernoulli variable.

    Args:
        probability: Success probabilities, of any shape.

    Returns:
        A tensor of the same shape with values in ``[0, ln 2]``.
    """
    return entr(probability) + entr(1 - probability)


def entropy(probabilities: Tensor) -> Tensor:
    r"""The entropy, in nats, of a variable with any number of outcomes.

    Args:
        probabilities: The probability of each outcome, ``num_outcomes x ...``.

    Returns:
        A ``...`` tensor of entropies.
    """
    return entr(probabilities).sum(dim=0)


def probit_entropy(h: Tensor) -> Tensor:
    r"""The entropy, in nats, of a Bernoulli variable with success probability ``Φ(h)``.

    Accurate for any ``h``, even where ``Φ(h)`` rounds to one.

    Args:
        h: A tensor of any shape.

    Returns:
        A tensor of the same shape with values in ``[0, ln 2]``.
    """
    return -(normal_cdf(h) * log_ndtr(h) + normal_cdf(-h) * log_ndtr(-h))


def _tilted_expectation(
    bump: Callable[[Tensor, Tensor], Tensor], mean: Tensor, variance: Tensor
) -> Tensor:
    r"""``E g(f)`` for ``f ~ N(mean, variance)`` and a bump ``g``.

    ``G(f) = exp(-f² / 2C²)``, ``C² = π ln 2 / 2``, is close to the bump ``H(Φ(f))``.
    The product ``G·N(μ, σ²)`` is a Gaussian of mass ``Z``, and the rest of the
    integrand is almost constant, so a few nodes are exact to rounding whatever the
    variance.

    ``1 / G`` overflows where ``Z`` underflows, so they are combined in one exponent:
    ``bump`` maps ``f`` and ``w = log(Z / G(f))`` to ``g(f) exp(w)``.
    """
    total = variance + ENTROPY_WIDTH_SQUARED
    center = mean * ENTROPY_WIDTH_SQUARED / total
    tilted = variance * ENTROPY_WIDTH_SQUARED / total
    log_mass = (math.log(ENTROPY_WIDTH_SQUARED) - total.log()) / 2
    log_mass = log_mass - mean.square() / (2 * total)

    def weighted(f: Tensor) -> Tensor:
        return bump(f, log_mass + f.square() / (2 * ENTROPY_WIDTH_SQUARED))

    return gaussian_expectation(weighted, center, tilted)


def _weighted_probit_entropy(f: Tensor, w: Tensor) -> Tensor:
    success = log_ndtr(f)
    failure = log_ndtr(-f)
    return -((success + w).exp() * success + (failure + w).exp() * failure)


def expected_probit_entropy(mean: Tensor, variance: Tensor) -> Tensor:
    r"""``E H(Φ(f))`` for ``f ~ N(mean, variance)``, by tilted Gauss-Hermite quadrature.

    The approximation of [Houlsby2011bald]_ is this rule with one node.

    Args:
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, of the same shape.

    Returns:
        The expected entropy in nats.
    """
    return _tilted_expectation(_weighted_probit_entropy, mean, variance)


def bernoulli_mutual_information(
    mean: Tensor,
    variance: Tensor,
    guess_rate: float | Tensor = 0.0,
    lapse_rate: float | Tensor = 0.0,
) -> Tensor:
    r"""The information, in nats, of one trial about its latent value.

    ``I(c, f) = H(E p(f)) - E H(p(f))`` with ``p(f) = γ + (1 - γ - λ) Φ(f)``, the
    criterion of Bayesian active learning by disagreement [Houlsby2011bald]_. The result
    is exact to rounding without guesses and lapses, and to about 1e-8 with them. For a
    duel, ``mean`` and ``variance`` are the moments of the difference of the two values.

    Args:
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, broadcastable with ``mean``.
        guess_rate: ``γ``, the success probability at ``f = -∞``.
        lapse_rate: ``λ``, the failure probability at ``f = +∞``.

    Returns:
        A tensor with values in ``[0, ln 2]``.

    Example:
        >>> information = bernoulli_mutual_information(torch.zeros(1), torch.ones(1))
    """
    mean, variance = torch.broadcast_tensors(mean, variance)
    h = mean / (1 + variance).sqrt()
    expected = expected_bernoulli_entropy(mean, variance, guess_rate, lapse_rate)
    if _is_plain(guess_rate, lapse_rate):
        marginal = probit_entropy(h)
    else:
        success_range = 1 - guess_rate - lapse_rate
        marginal = bernoulli_entropy(guess_rate + success_range * normal_cdf(h))
    return (marginal - expected).clamp_min(0.0)


def expected_bernoulli_entropy(
    mean: Tensor,
    variance: Tensor,
    guess_rate: float | Tensor = 0.0,
    lapse_rate: float | Tensor = 0.0,
) -> Tensor:
    r"""``E H(p(f))`` with ``p(f) = γ + (1 - γ - λ) Φ(f)``: the noise of an outcome.

    Args:
        mean: The latent mean, of any shape.
        variance: The non-negative latent variance, of the same shape.
        guess_rate: ``γ``, the success probability at ``f = -∞``.
        lapse_rate: ``λ``, the failure probability at ``f = +∞``.

    Returns:
        The expected entropy in nats.
    """
    if _is_plain(guess_rate, lapse_rate):
        return expected_probit_entropy(mean, variance)
    guess = _entropy(guess_rate)
    lapse = _entropy(lapse_rate)
    success_range = 1 - guess_rate - lapse_rate

    def bump(f: Tensor, w: Tensor) -> Tensor:
        # The rest of H(p(f)), without the step from H(γ) to H(λ).
        entropy = bernoulli_entropy(guess_rate + success_range * normal_cdf(f))
        step = guess * normal_cdf(-f) + lapse * normal_cdf(f)
        return (entropy - step) * w.exp()

    h = mean / (1 + variance).sqrt()
    step = guess * normal_cdf(-h) + lapse * normal_cdf(h)
    return step + _tilted_expectation(bump, mean, variance)


def _is_plain(*rates: float | Tensor) -> bool:
    """Whether all rates are known to be zero."""
    return not any(isinstance(rate, Tensor) or rate for rate in rates)


def _entropy(rate: float | Tensor) -> float | Tensor:
    if isinstance(rate, Tensor):
        return bernoulli_entropy(rate)
    return -sum(p * math.log(p) for p in (rate, 1 - rate) if p > 0)
