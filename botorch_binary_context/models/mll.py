r"""
The approximate marginal likelihood of a model, for fitting hyperparameters.
"""

from __future__ import annotations

from typing import Any

from gpytorch.distributions import MultivariateNormal
from gpytorch.mlls import MarginalLogLikelihood
from linear_operator import to_dense
from torch import Tensor

from botorch_binary_context.inference import Inference, Laplace, Start
from botorch_binary_context.likelihoods import OutcomeLikelihood
from botorch_binary_context.models.latent_gp import LatentGP


class ApproximateMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The approximate log evidence of the outcomes, plus the log priors, per trial.

    The evidence comes from the model's own inference, summed over the batch of the
    model, so that one fit serves a whole batch of experiments.

    Example:
        >>> mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        >>> fit_gpytorch_mll(mll)
    """

    likelihood: OutcomeLikelihood
    model: LatentGP

    def __init__(self, likelihood: OutcomeLikelihood, model: LatentGP) -> None:
        r"""
        Args:
            likelihood: The likelihood of the model.
            model: A model of this package.
        """
        super().__init__(likelihood, model)
        self._last: Start | None = None

    @property
    def inference(self) -> Inference:
        """The inference that computes the evidence."""
        return self.model.inference

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
            A scalar: the log evidence, summed over the batch, plus the log priors,
            divided by the number of trials.
        """
        K = to_dense(function_dist.lazy_covariance_matrix)
        return self._evaluate(function_dist.mean, K, target)

    def at_training_data(self) -> Tensor:
        r"""The value for the training data of the model, at its hyperparameters.

        Returns:
            A scalar that can be differentiated.
        """
        mean, K = self.model.prior_of_training_trials()
        return self._evaluate(mean, K, self.model.train_targets)

    def _log_prior(self) -> Tensor:
        """The log density of all hyperparameters that have a prior."""
        total = self.model.train_targets.new_zeros(())
        for _, module, prior, closure, _ in self.model.named_priors():
            total = total + prior.log_prob(closure(module)).sum()
        return total

    def _evaluate(self, mean: Tensor, K: Tensor, target: Tensor) -> Tensor:
        log_evidence, self._last = self.inference.evidence(
            self.model.trial_likelihood, mean, K, target, self._warm_start(mean)
        )
        evidence = log_evidence.sum() + self._log_prior()
        return evidence / max(target.shape[-1], 1)

    def _warm_start(self, mean: Tensor) -> Start | None:
        """Start from the last evaluation, since hyperparameters move in small steps."""
        if self._last is None or self._last.values.shape[:-1] != mean.shape:
            return None
        values = self._last.values.to(mean)
        return Start(values) if bool(values.isfinite().all()) else None


class LaplaceMarginalLogLikelihood(ApproximateMarginalLogLikelihood):
    r"""The log evidence by Laplace's method, whatever the inference of the model.

    ``log p(c) ≈ Σ log p(c|f̂) - ½ aᵀ(f̂ - m) - ½ log |I + W½ K W½|`` (Eq. 3.32 of
    [Rasmussen2006gpml]_). Its gradient accounts for the movement of the mode.

    Example:
        >>> mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        >>> fit_gpytorch_mll(mll)
    """

    @property
    def inference(self) -> Inference:
        """Laplace's method."""
        return Laplace()
