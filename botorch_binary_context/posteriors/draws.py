r"""
The true posterior of the latent function, as a mixture of Gaussians: one for each draw
of the training contrasts.
"""

from __future__ import annotations

import warnings
from statistics import NormalDist

import torch
from botorch.posteriors import Posterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.stochastic_samplers import StochasticSampler
from botorch.utils.probability.utils import log_phi
from botorch.utils.sampling import manual_seed
from linear_operator.utils.cholesky import psd_safe_cholesky
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor
from torch.special import ndtr

from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.numerics.covariance import clamp_variance, raise_variance

MAX_QUANTILE_STEPS = 60
QUANTILE_TOLERANCE = 1e-10


class ExactPosterior(Posterior):
    r"""The true posterior of the latent function, by sampling.

    Given a draw of the training contrasts, the latent function is Gaussian; so the
    posterior is a mixture of Gaussians, one for each of the independent draws. Moments,
    quantiles and probabilities belong to the mixture, and each has a Monte Carlo
    standard error.
    """

    def __init__(
        self, means: Tensor, covariance: Tensor, likelihood: OutcomeLikelihood
    ) -> None:
        r"""
        Args:
            means: The means of the Gaussians at ``q`` points,
                ``num_samples x batch_shape x q``.
            covariance: Their common covariance, ``batch_shape x q x q``.
            likelihood: The likelihood of trials at the points.
        """
        self.means = means
        self.covariance = covariance
        self.likelihood = likelihood

    @property
    def num_samples(self) -> int:
        """The number of draws."""
        return self.means.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the posterior."""
        return self.means.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the posterior."""
        return self.means.dtype

    def _extended_shape(
        self,
        sample_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> torch.Size:
        return sample_shape + self.means.shape[1:] + torch.Size([1])

    @property
    def _within(self) -> Tensor:
        """The variance of the Gaussians, ``batch_shape x q``."""
        return clamp_variance(self.covariance.diagonal(dim1=-2, dim2=-1))

    @property
    def mean(self) -> Tensor:
        """The posterior mean, ``batch_shape x q x 1``."""
        return self.means.mean(dim=0).unsqueeze(-1)

    @property
    def mean_error(self) -> Tensor:
        """The Monte Carlo standard error of the mean, ``batch_shape x q x 1``."""
        return self._error(self.means).unsqueeze(-1)

    @property
    def variance(self) -> Tensor:
        """The posterior variance, ``batch_shape x q x 1``."""
        within = self._within.expand_as(self.means).mean(dim=0)
        return (within + self.means.var(dim=0)).unsqueeze(-1)

    @property
    def variance_error(self) -> Tensor:
        """The Monte Carlo standard error of the variance, ``batch_shape x q x 1``."""
        squares = (self.means - self.means.mean(dim=0)).square() + self._within
        return self._error(squares).unsqueeze(-1)

    @property
    def probability(self) -> Tensor:
        """The success probability of trials at the points, ``batch_shape x n x 1``."""
        return self._probabilities().mean(dim=0).unsqueeze(-1)

    @property
    def probability_error(self) -> Tensor:
        """The Monte Carlo standard error of the success probability."""
        return self._error(self._probabilities()).unsqueeze(-1)

    def _probabilities(self) -> Tensor:
        """The success probability given each draw."""
        contrasts = self.contrasts()
        return self.likelihood.expected_probability(contrasts.means, contrasts._within)

    def contrasts(self) -> ExactPosterior:
        r"""The posterior of the contrasts of trials at the points.

        Returns:
            A posterior over the ``n`` trials that the ``q`` rows make.
        """
        functional = self.likelihood.functional
        means = functional(self.means)
        covariance = functional.of_covariance(self.covariance)
        return ExactPosterior(means, covariance, self.likelihood)

    def quantile(self, value: Tensor) -> Tensor:
        r"""Quantiles of the latent function.

        Args:
            value: Probabilities, a vector.

        Returns:
            A ``len(value) x batch_shape x q x 1`` tensor.
        """
        found = [_mixture_quantile(self.means, self._within, float(p)) for p in value]
        return torch.stack(found).unsqueeze(-1)

    def cdf(self, value: float) -> Tensor:
        r"""The probabilities that the latent function is below a value.

        Args:
            value: The value.

        Returns:
            A ``batch_shape x q x 1`` tensor.
        """
        below = ndtr((value - self.means) * self._within.rsqrt())
        return below.mean(dim=0).unsqueeze(-1)

    def quantile_error(self, value: Tensor) -> Tensor:
        r"""The Monte Carlo standard errors of quantiles of the latent function.

        Args:
            value: Probabilities, a vector.

        Returns:
            A ``len(value) x batch_shape x q x 1`` tensor.
        """
        step = (torch.minimum(value, 1 - value) / 2).clamp_max(0.05)
        wide = self.quantile(value + step) - self.quantile(value - step)
        slope = wide.squeeze(-1) / (2 * step.view(-1, *[1] * self.means[0].ndim))
        center = self.quantile(value).squeeze(-1).unsqueeze(1)  # of every draw
        below = ndtr((center - self.means) * self._within.rsqrt())
        return (self._error(below, dim=1) * slope).unsqueeze(-1)

    def probability_quantile(self, value: Tensor) -> Tensor:
        r"""Quantiles of the success probability of trials at the points.

        The link is monotone: it maps quantiles of a trial's contrast to quantiles of
        its probability.

        Args:
            value: Probabilities, a vector.

        Returns:
            A ``len(value) x batch_shape x n x 1`` tensor.
        """
        contrast = self.contrasts().quantile(value).squeeze(-1)
        return self.likelihood.probability(contrast).unsqueeze(-1)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        r"""Draw latent values at the points.

        Args:
            sample_shape: The shape of the set of draws.

        Returns:
            A ``sample_shape x batch_shape x q x 1`` tensor.
        """
        shape = torch.Size([1]) if sample_shape is None else torch.Size(sample_shape)
        index = torch.randint(self.num_samples, shape, device=self.device)
        means = self.means[index.flatten()].reshape(shape + self.means.shape[1:])
        noise = torch.randn_like(means).unsqueeze(-1)
        return means.unsqueeze(-1) + self._root(index) @ noise

    def _root(self, index: Tensor) -> Tensor:
        """Roots of the covariances of draws, or one that they share."""
        with warnings.catch_warnings():  # nothing is left to draw at rows of the data
            warnings.simplefilter("ignore", NumericalWarning)
            return psd_safe_cholesky(raise_variance(self.covariance))

    def _error(self, values: Tensor, dim: int = 0) -> Tensor:
        return values.std(dim=dim) / self.num_samples**0.5


class AveragedPosterior(ExactPosterior):
    r"""The true posterior, averaged over draws of the hyperparameters.

    It is a mixture of Gaussians, each with its own mean and covariance. The draws of
    one set of hyperparameters depend on each other, so Monte Carlo errors are the
    errors of a mean over the sets.
    """

    def __init__(self, parts: ExactPosterior, dim: int) -> None:
        r"""
        Args:
            parts: The posteriors of all sets of hyperparameters.
            dim: The batch dimension of the sets; the last dimension is that of the
                points.
        """
        self._parts = parts
        self._dim = dim
        covariance = parts.covariance.movedim(dim - 1, 0)  # sets x batch_shape x q x q
        super().__init__(self._join(parts.means), covariance, parts.likelihood)

    @property
    def num_sets(self) -> int:
        """The number of sets of hyperparameters."""
        return self.covariance.shape[0]

    def _join(self, values: Tensor) -> Tensor:
        """Draws of all sets as one dimension, the first, in the order of the sets."""
        return values.movedim(self._dim, 0).flatten(0, 1)

    @property
    def _within(self) -> Tensor:
        """The variance of each Gaussian, ``num_samples x batch_shape x q``."""
        each = self.num_samples // self.num_sets
        return super()._within.repeat_interleave(each, dim=0)

    def _root(self, index: Tensor) -> Tensor:
        each = self.num_samples // self.num_sets
        return super()._root(index)[index // each]

    def _probabilities(self) -> Tensor:
        return self._join(self._parts._probabilities())

    def contrasts(self) -> AveragedPosterior:
        r"""The posterior of the contrasts of trials at the points.

        Returns:
            A posterior over the ``n`` trials that the ``q`` rows make.
        """
        return AveragedPosterior(self._parts.contrasts(), self._dim)

    def probability_quantile(self, value: Tensor) -> Tensor:
        r"""Quantiles of the success probability of trials at the points.

        Args:
            value: Probabilities, a vector.

        Returns:
            A ``len(value) x batch_shape x n x 1`` tensor.
        """
        if next(self.likelihood.parameters(), None) is None:
            return super().probability_quantile(value)
        # Rates differ between the sets, so quantiles of the probability do not follow
        # from quantiles of a trial's contrast: use one draw of each Gaussian.
        parts = self._parts.contrasts()
        shape = [1] * parts.means.ndim
        shape[0] = parts.num_samples
        shape[self._dim] = self.num_sets
        z = _even_normals(self.num_samples).to(parts.means).reshape(shape)
        values = parts.means + parts._within.sqrt() * z
        found = self._join(self.likelihood.probability(values))
        return torch.quantile(found, value.to(found), dim=0).unsqueeze(-1)

    def _error(self, values: Tensor, dim: int = 0) -> Tensor:
        sets = values.unflatten(dim, (self.num_sets, -1)).mean(dim=dim + 1)
        return sets.std(dim=dim) / self.num_sets**0.5


@GetSampler.register(ExactPosterior)
def _get_sampler_exact(
    posterior: ExactPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> MCSampler:
    """Draws, since a mixture has no base samples."""
    return _SeededSampler(sample_shape=sample_shape, seed=seed)


class _SeededSampler(StochasticSampler):
    """The same draws at every call."""

    def forward(self, posterior: Posterior) -> Tensor:
        with manual_seed(self.seed):
            return posterior.rsample(self.sample_shape)


def _even_normals(number: int) -> Tensor:
    """Evenly spaced quantiles of the normal distribution, in random order."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(number, generator=generator, device="cpu")
    return torch.special.ndtri((order.double() + 0.5) / number)


def _mixture_quantile(means: Tensor, variance: Tensor, probability: float) -> Tensor:
    """A quantile of mixtures of Gaussians, by Newton's method."""
    scale = variance.sqrt().expand_as(means)
    deviation = (variance.expand_as(means).mean(dim=0) + means.var(dim=0)).sqrt()
    low = (means - 9 * scale).amin(dim=0)
    high = (means + 9 * scale).amax(dim=0)
    x = means.mean(dim=0) + deviation * NormalDist().inv_cdf(probability)
    for _ in range(MAX_QUANTILE_STEPS):
        z = (x - means) / scale
        excess = ndtr(z).mean(dim=0) - probability
        low = torch.where(excess <= 0, x, low)
        high = torch.where(excess >= 0, x, high)
        step = excess / (log_phi(z).exp() / scale).mean(dim=0)
        if bool((excess.abs() < QUANTILE_TOLERANCE).all()):
            break
        newton = x - step
        inside = (newton > low) & (newton < high)
        x = torch.where(inside, newton, (low + high) / 2)
    return x
