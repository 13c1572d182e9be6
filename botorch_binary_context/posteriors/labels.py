r"""
Posteriors of labels and of the class probability.

A model's latent posterior is a Gaussian. An experimenter sees labels, and often wants
the probability of success: each is a BoTorch posterior here, with exact moments and
with samples from the joint latent posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from botorch.sampling.base import MCSampler
from botorch.sampling.get_sampler import GetSampler
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.distributions import MultivariateNormal
from torch import Tensor
from torch.special import ndtr

from botorch_binary_context.likelihoods import OutcomeLikelihood


class LabelPosterior(Posterior):
    r"""The joint distribution of the labels of ``n`` trials.

    Labels are 0 or 1, or more if the likelihood has more outcomes. Trials are
    independent given the latent function, and correlated through it. A sample draws the
    contrasts jointly and then each label: one column of base samples drives the latent
    values, the other the labels.
    """

    def __init__(
        self, distribution: MultivariateNormal, likelihood: OutcomeLikelihood
    ) -> None:
        r"""
        Args:
            distribution: The distribution of the contrasts of the ``n`` trials, with
                any ``batch_shape``.
            likelihood: The likelihood of the trials.
        """
        self.contrast = GPyTorchPosterior(distribution)
        self.likelihood = likelihood

    @property
    def device(self) -> torch.device:
        """The device of the samples."""
        return self.contrast.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the samples."""
        return self.contrast.dtype

    @property
    def distribution(self) -> NoReturn:
        """Not available: labels are not Gaussian."""
        raise AttributeError(
            "Expected a Gaussian posterior, but got that of labels, which has no "
            "``distribution``: use ``ModelList`` instead of ``ModelListGP``."
        )

    @property
    def mean(self) -> Tensor:
        """The expected label of each trial, ``batch_shape x n x 1``.

        With two outcomes it is the success probability.
        """
        probabilities = self.probabilities
        return torch.tensordot(self._labels(probabilities), probabilities, dims=1)

    @property
    def variance(self) -> Tensor:
        """The variance of each label, ``batch_shape x n x 1``.

        With two outcomes it is ``p (1 - p)``.
        """
        probabilities = self.probabilities
        mean = self.mean
        labels = self._labels(probabilities).view(-1, *[1] * mean.ndim)
        return ((labels - mean).square() * probabilities).sum(dim=0)

    @property
    def probabilities(self) -> Tensor:
        """The marginal probability of every outcome of each trial, ``num_outcomes x
        batch_shape x n x 1``.
        """
        mean = self.contrast.mean.squeeze(-1)
        variance = self.contrast.variance
        expected = self.likelihood.expected_probabilities(mean, variance.squeeze(-1))
        return expected.unsqueeze(-1)

    def _labels(self, like: Tensor) -> Tensor:
        number = self.likelihood.num_outcomes
        return torch.arange(number, dtype=like.dtype, device=like.device)

    @property
    def base_sample_shape(self) -> torch.Size:
        """``batch_shape x n x 2``: one column for the latent values, one for labels."""
        return self.contrast._extended_shape()[:-1] + torch.Size([2])

    @property
    def batch_range(self) -> tuple[int, int]:
        """The t-batch dimensions of the base samples."""
        return (0, -2)

    def _extended_shape(
        self,
        sample_shape: torch.Size = torch.Size(),  # noqa: B008
    ) -> torch.Size:
        return self.contrast._extended_shape(sample_shape)

    def density(self, value: Tensor) -> Tensor:
        r"""The probability of each label on its own.

        Args:
            value: A ``... x batch_shape x n x 1`` tensor of labels.

        Returns:
            A tensor of the same shape.
        """
        probabilities = self.probabilities
        shape = torch.broadcast_shapes(value.shape, probabilities.shape[1:])
        index = value.expand(shape).round().long().unsqueeze(0)
        table = probabilities.reshape(
            len(probabilities),
            *[1] * (len(shape) + 1 - probabilities.ndim),
            *probabilities.shape[1:],
        )
        return table.expand(-1, *shape).gather(0, index).squeeze(0)

    def rsample(self, sample_shape: torch.Size | None = None) -> Tensor:
        r"""Draw labels.

        Args:
            sample_shape: The shape of the set of samples.

        Returns:
            A ``sample_shape x batch_shape x n x 1`` tensor of labels.
        """
        sample_shape = torch.Size([1]) if sample_shape is None else sample_shape
        base_samples = torch.randn(
            sample_shape + self.base_sample_shape, dtype=self.dtype, device=self.device
        )
        return self.rsample_from_base_samples(sample_shape, base_samples)

    def rsample_from_base_samples(
        self, sample_shape: torch.Size, base_samples: Tensor
    ) -> Tensor:
        r"""Draw labels from standard normal base samples.

        Args:
            sample_shape: The shape of the set of samples.
            base_samples: A ``sample_shape x base_sample_shape`` tensor.

        Returns:
            A ``sample_shape x batch_shape x n x 1`` tensor of labels.
        """
        latent, label = base_samples.unbind(dim=-1)
        contrast = self.contrast.rsample_from_base_samples(sample_shape, latent)
        probabilities = self.likelihood.probabilities(contrast.squeeze(-1))
        # The probability of at least each label, except the lowest.
        above = probabilities[1:].flip(0).cumsum(dim=0)
        return (ndtr(label) < above).sum(dim=0).to(contrast).unsqueeze(-1)


@GetSampler.register(LabelPosterior)
def _get_sampler_labels(
    posterior: LabelPosterior, sample_shape: torch.Size, *, seed: int | None = None
) -> MCSampler:
    """Quasi-random normal base samples, as for a Gaussian posterior."""
    return SobolQMCNormalSampler(sample_shape=sample_shape, seed=seed)


class ClassProbability(PosteriorTransform):
    r"""Turns a latent posterior into the posterior of the success probability.

    The mean and the variance are exact. As a ``posterior_transform`` it lets stock
    acquisition functions of pass/fail models work on the scale of probabilities. For a
    preference model it maps duels, consecutive pairs of rows, to the probability that
    the first is preferred: half as many values as rows, which stock acquisition
    functions do not expect.

    Example:
        >>> transform = ClassProbability(model.likelihood)
        >>> acqf = PosteriorMean(model, posterior_transform=transform)
    """

    scalarize: bool = True

    def __init__(self, likelihood: OutcomeLikelihood) -> None:
        r"""
        Args:
            likelihood: The likelihood of the model.
        """
        super().__init__()
        self.likelihood = likelihood

    def evaluate(self, Y: Tensor, X: Tensor | None = None) -> Tensor:
        r"""The success probability for given latent values.

        Args:
            Y: A ``batch_shape x q x 1`` tensor of latent values.
            X: Not used.

        Returns:
            A ``batch_shape x n`` tensor for the ``n`` trials that the ``q`` rows make.
        """
        return self.likelihood.probability(self.likelihood.functional(Y.squeeze(-1)))

    def forward(
        self, posterior: GPyTorchPosterior, X: Tensor | None = None
    ) -> TransformedPosterior:
        r"""The posterior of the success probability.

        Args:
            posterior: The latent posterior at ``q`` rows.
            X: Not used.

        Returns:
            A posterior over the ``n`` trials that the ``q`` rows make.
        """
        likelihood = self.likelihood
        contrasts = likelihood.functional.of_distribution(posterior.distribution)
        return TransformedPosterior(
            GPyTorchPosterior(contrasts),
            sample_transform=_without_output(likelihood.probability),
            mean_transform=_without_output(likelihood.expected_probability),
            variance_transform=_without_output(
                lambda mean, variance: likelihood.probability_moments(mean, variance)[1]
            ),
        )


def _without_output(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of ``... x n`` tensors, for ``... x n x 1`` ones."""
    return lambda *values: function(*[v.squeeze(-1) for v in values]).unsqueeze(-1)
