r"""
Simulated people who answer by more than one bit: ties, ratings, the best of several.
"""

from __future__ import annotations

import torch
from botorch.exceptions.errors import BotorchTensorDimensionError
from torch import Tensor

from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.likelihoods.best_of import NOISE
from botorch_binary_context.problems.contexts import ContextProblem, WrappedProblem


class AnsweringProblem(WrappedProblem):
    r"""A problem whose trials are answered by any likelihood.

    Labels are the likelihood's: 0, 1 and 2 for duels with ties, 0 to ``k - 1`` for
    ratings.

    Example:
        >>> patient = RefractionProblem(slope=5.0)
        >>> rated = AnsweringProblem(patient, RatingLikelihood(5, widths=[1.2] * 3))
        >>> rated.observe(trials)  # from 0 to 4
    """

    def __init__(self, problem: ContextProblem, likelihood: OutcomeLikelihood) -> None:
        r"""
        Args:
            problem: Determines how good trials are.
            likelihood: Determines how they are answered.
        """
        super().__init__(problem)
        self.likelihood = likelihood.requires_grad_(False)
        self.functional = likelihood.functional

    def observe(self, X: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Draw answers.

        Args:
            X: ``... x n x d`` trials, or ``... x n x 2 x d`` duels.
            generator: The source of randomness, by default torch's.

        Returns:
            A ``... x n x 1`` tensor of labels.
        """
        rows = self.functional.rows(X)
        contrast = self.functional(self.latent(rows))
        noise = torch.rand(
            contrast.shape, generator=generator, dtype=X.dtype, device=X.device
        )
        return answer(self.likelihood, contrast, noise).unsqueeze(-1)


def answer(likelihood: OutcomeLikelihood, contrast: Tensor, noise: Tensor) -> Tensor:
    r"""The answers to trials, with given noise.

    The same noise gives consistent answers of several kinds, some finer than others.

    Args:
        likelihood: Determines how trials are answered.
        contrast: The contrasts of the trials.
        noise: Uniform numbers of the same shape.

    Returns:
        Labels, a tensor of the same shape.
    """
    # The probability of at least each label, except the lowest.
    above = likelihood.probabilities(contrast)[1:].flip(0).cumsum(dim=0)
    return (noise < above).sum(dim=0).to(contrast)


def name_winners(
    problem: ContextProblem, X: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    r"""Which of several settings a simulated person names as the best.

    Args:
        problem: Determines how good they are.
        X: The settings of contests, ``... x n x k x d``.
        generator: The source of randomness, by default torch's.

    Returns:
        A ``... x n x 1`` tensor of winners, from 0, as :class:`BestOfGP` takes them.

    Example:
        >>> winners = name_winners(RefractionProblem(slope=5.0), settings)
    """
    if X.ndim < 3:
        raise BotorchTensorDimensionError(
            "Expected ``X`` to hold contests, ``... x n x k x d``, but got shape "
            f"{list(X.shape)}."
        )
    f = problem.latent(X)
    noise = torch.randn(f.shape, generator=generator, dtype=f.dtype, device=f.device)
    return (f + NOISE**0.5 * noise).argmax(dim=-1, keepdim=True).to(X)
