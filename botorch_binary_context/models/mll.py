r"""
The marginal likelihood of the Laplace approximation, for fitting hyperparameters.
"""

from __future__ import annotations

from typing import Any

from gpytorch.distributions import MultivariateNormal
from gpytorch.mlls import MarginalLogLikelihood
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models.laplace import laplace_approximation


class LaplaceMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The approximate log evidence of the outcomes, plus the log priors, per trial.

    ``log p(c) ≈ Σ log p(c|f̂) - ½ aᵀ(f̂ - m) - ½ log |I + W½ K W½|`` (Eq. 3.32 of
    [Rasmussen2006gpml]_), summed over the batch of the model, so that one fit serves a
    whole batch of experiments. Its gradient accounts for the movement of the mode.

    Example:
        >>> mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        >>> fit_gpytorch_mll(mll)
    """

    likelihood: ProbitLikelihood

    def __init__(self, likelihood: ProbitLikelihood, model: Any) -> None:
        r"""
        Args:
            likelihood: The likelihood of the model.
            model: A ``BinaryLaplaceGP`` or ``PreferenceLaplaceGP``.
        """
        super().__init__(likelihood, model)
        self._last_weights: Tensor | None = None

    def forward(
        self,
        function_dist: MultivariateNormal,
        target: Tensor,
        *params: Any,
        **kwargs: Any,
    ) -> Tensor:
        r"""Compute the approximate log evidence.

        Args:
            function_dist: The *prior* of the contrasts of the training trials, which a
                model in ``train`` mode returns.
            target: The labels, ``batch_shape x n``.
            params: Not used.
            kwargs: Not used.

        Returns:
            A scalar.
        """
        mean = function_dist.mean
        approximation = laplace_approximation(
            self.likelihood,
            mean,
            to_dense(function_dist.lazy_covariance_matrix),
            target,
            initial_weights=self._warm_start(mean),
        )
        self._last_weights = approximation.weights.detach()
        evidence = approximation.log_evidence.sum()
        for _, module, prior, closure, _ in self.model.named_priors():
            evidence = evidence + prior.log_prob(closure(module)).sum()
        return evidence / max(target.shape[-1], 1)

    def _warm_start(self, mean: Tensor) -> Tensor | None:
        """The weights of the last evaluation: hyperparameters move in small steps."""
        last = self._last_weights
        if last is None or last.shape != mean.shape or not bool(last.isfinite().all()):
            return None
        return last.to(mean)
