r"""
How far the approximation of a model is from its true posterior.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_binary_context.models.latent_gp import LatentGP


@dataclass(frozen=True)
class ApproximationCheck:
    r"""How far an approximation is from the true posterior.

    Attributes:
        inference: The name of the inference.
        num_trials: The number of training trials.
        mean_error: The mean absolute error of the latent means, in true standard
            deviations.
        largest_mean_error: The largest of these errors.
        deviation_ratio: The mean ratio of the approximate to the true standard
            deviation.
        probability_error: The mean absolute error of the success probabilities.
        largest_probability_error: The largest of these errors.
        monte_carlo_error: The standard error of the true means, in true standard
            deviations.
    """

    inference: str
    num_trials: int
    mean_error: float
    largest_mean_error: float
    deviation_ratio: float
    probability_error: float
    largest_probability_error: float
    monte_carlo_error: float

    def __str__(self) -> str:
        points = self.probability_error
        largest = self.largest_probability_error
        return (
            f"{self.inference} on {self.num_trials} trials: mean off by "
            f"{self.mean_error:.2f} sd (at most {self.largest_mean_error:.2f}), sd "
            f"{self.deviation_ratio:.2f} of the true one, probabilities off by "
            f"{100 * points:.1f} points (at most {100 * largest:.1f}); "
            f"Monte Carlo error {self.monte_carlo_error:.3f} sd"
        )


def check_approximation(
    model: LatentGP,
    X: Tensor | None = None,
    num_samples: int = 4096,
    seed: int = 0,
) -> ApproximationCheck:
    r"""Compare the approximation of a model with its true posterior.

    Args:
        model: The model.
        X: The rows of trials at which to compare, ``t x batch_shape x q x d`` as for an
            acquisition function; by default the training trials.
        num_samples: The number of draws from the true posterior.
        seed: The seed of the draws.

    Returns:
        The comparison; printed, it is one line.

    Example:
        >>> print(check_approximation(model))
        ExpectationPropagation on 40 trials: mean off by 0.01 sd (at most 0.02), ...
    """
    with torch.no_grad():
        X = _training_candidates(model) if X is None else X
        exact = model.exact_posterior(X, num_samples, seed)
        contrasts = exact.contrasts()
        mean, variance = model.moments(X)
        true_mean = contrasts.mean[..., 0, 0]
        true_deviation = contrasts.variance[..., 0, 0].sqrt()
        values = model.values_of(X)
        probability = values.evaluate(model.likelihood.expected_probability)
        off = (probability - exact.probability[..., 0, 0]).abs()
        shift = (mean - true_mean).abs() / true_deviation
        error = contrasts.mean_error[..., 0, 0] / true_deviation
        ratio = variance.sqrt() / true_deviation
    return ApproximationCheck(
        inference=type(model.inference).__name__,
        num_trials=model.train_targets.shape[-1],
        mean_error=float(shift.mean()),
        largest_mean_error=float(shift.max()),
        deviation_ratio=float(ratio.mean()),
        probability_error=float(off.mean()),
        largest_probability_error=float(off.max()),
        monte_carlo_error=float(error.mean()),
    )


def _training_candidates(model: LatentGP) -> Tensor:
    """The training trials of the kind of candidates, ``n x batch_shape x q x d``."""
    functional = model.functional
    for kind, trials, _ in model.trials_by_kind():
        if kind == functional and trials.numel():
            rows = trials if functional.num_rows > 1 else trials.unsqueeze(-2)
            return rows.movedim(-3, 0)
    return model.original_datapoints.unsqueeze(-2).movedim(-3, 0)
