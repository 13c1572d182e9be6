r"""
The Gaussian process model behind pass/fail outcomes and duels.

Both are linear contrasts of one latent function seen through a probit, so one class
holds the training data, the Laplace approximation and the posterior; what a trial
observes of the latent function is said by the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Self

import torch
from botorch import settings
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.gpytorch import GPyTorchModel
from botorch.models.model import FantasizeMixin
from botorch.models.transforms.input import InputTransform
from botorch.models.utils.assorted import check_min_max_scaling
from botorch.posteriors import GPyTorchPosterior, TransformedPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean, ZeroMean
from gpytorch.models.gp import GP
from linear_operator import to_linear_operator
from torch import Tensor

from botorch_binary_context.batching import expand_batch, fold, unfold
from botorch_binary_context.covariance import covariance, raise_variance, variance
from botorch_binary_context.likelihoods import ProbitLikelihood
from botorch_binary_context.models.defaults import default_covar_module
from botorch_binary_context.models.laplace import (
    LaplaceApproximation,
    laplace_approximation,
)
from botorch_binary_context.models.validation import (
    check_alike,
    check_batch_shape,
    check_labels,
    check_new_trials,
    check_trials,
)
from botorch_binary_context.posteriors import ClassProbability, LabelPosterior


class LaplaceGP(GPyTorchModel, GP, FantasizeMixin):
    r"""A latent Gaussian process observed through binary trials.

    In ``eval`` mode a call returns the latent posterior at points, in ``train`` mode
    the prior of the contrasts of the training trials (what a marginal likelihood
    takes). The Laplace approximation is computed once and kept until the data or the
    mode of the model change.
    """

    likelihood: ProbitLikelihood
    train_inputs: tuple[Tensor]
    train_targets: Tensor
    _num_outputs = 1

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: ProbitLikelihood,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The trials, ``batch_shape x n x d`` or, for duels,
                ``batch_shape x n x 2 x d``; ``n`` may be zero.
            train_Y: Their labels in {0, 1}, ``batch_shape x n x 1``.
            likelihood: The likelihood of the trials.
            covar_module: The kernel of the latent function. By default a squared
                exponential with priors, for inputs in the unit cube.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
        """
        super().__init__()
        check_trials(train_X, train_Y, likelihood.points_per_trial)
        self.train_inputs = (train_X,)
        self.train_targets = train_Y.squeeze(-1)
        self._approximation: LaplaceApproximation | None = None
        self._initial_weights: Tensor | None = None
        self.likelihood = likelihood
        self.mean_module = ZeroMean() if mean_module is None else mean_module
        if input_transform is not None:
            self.input_transform = input_transform.to(train_X)
        rows = self._rows(train_X)
        if input_transform is not None and rows.numel():
            with torch.no_grad():
                rows = self.transform_inputs(rows)  # a transform may learn its bounds
        if covar_module is None:
            covar_module = self._default_covar_module(rows)
        check_batch_shape(covar_module.batch_shape, self.batch_shape)
        self.covar_module = covar_module
        self.register_load_state_dict_post_hook(_renew)
        self.to(train_X)

    def _default_covar_module(self, rows: Tensor) -> Kernel:
        if settings.validate_input_scaling.on() and rows.numel():
            check_min_max_scaling(rows)  # the priors of the default kernel rely on it
        return self._make_covar_module(rows.shape[-1]).to(rows)

    def _make_covar_module(self, dim: int) -> Kernel:
        """The default kernel of inputs in the unit cube."""
        return default_covar_module(dim, self.batch_shape)

    def transform_inputs(
        self, X: Tensor, input_transform: InputTransform | None = None
    ) -> Tensor:
        r"""Apply the input transform, if there is one.

        Args:
            X: A tensor of inputs.
            input_transform: A transform to apply in the place of the model's.

        Returns:
            A tensor of transformed inputs.
        """
        if input_transform is None and "input_transform" not in self._modules:
            return X
        return super().transform_inputs(X, input_transform)

    @property
    def batch_shape(self) -> torch.Size:
        r"""The batch shape of the model."""
        return self.train_targets.shape[:-1]

    @property
    def laplace_approximation(self) -> LaplaceApproximation:
        r"""The Gaussian approximation of the posterior of the training contrasts.

        It carries a graph to the training inputs if those require a gradient, and to
        the hyperparameters only within ``botorch.settings.propagate_grads``.
        """
        # A graph that exists only because of this call's settings is not kept.
        if settings.propagate_grads.on():
            return self._approximate()
        if self._approximation is None:
            attached = self.train_inputs[0].requires_grad
            with torch.set_grad_enabled(attached and torch.is_grad_enabled()):
                approximation = self._approximate()
            if attached != approximation.weights.requires_grad:
                return approximation
            self._approximation = approximation
        return self._approximation

    @property
    def original_datapoints(self) -> Tensor:
        r"""The rows that the training trials show, before any input transform."""
        original = self._original_train_inputs
        return self.datapoints if original is None else self._rows(original)

    def posterior_mean(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the latent function alone, without its variance.

        Args:
            X: A ``t x batch_shape x q x d`` tensor.

        Returns:
            A ``t x batch_shape x q`` tensor.
        """
        if self.training:
            self.eval()
        X = expand_batch(self.transform_inputs(X), self.batch_shape)
        weights = self.laplace_approximation.weights.unsqueeze(-2)
        shift = (weights @ self._cross_covariance(X)).mT
        shift = unfold(shift, X.shape[:-2], X.shape[-2], len(self.batch_shape))
        return self.prior_mean(X) + shift.squeeze(-1)

    def _approximate(self) -> LaplaceApproximation:
        mean, K = self._prior_moments(self.train_inputs[0])
        targets = self.train_targets
        initial_weights = self._initial_weights
        return laplace_approximation(self.likelihood, mean, K, targets, initial_weights)

    def _rows(self, trials: Tensor) -> Tensor:
        """The rows that trials show, ``batch_shape x (n points) x d``."""
        if self.likelihood.points_per_trial == 1:
            return trials
        return trials.flatten(-3, -2)

    def _trials(self, rows: Tensor) -> Tensor:
        """The inverse of ``_rows``."""
        if self.likelihood.points_per_trial == 1:
            return rows
        return rows.unflatten(-2, (-1, 2))

    @property
    def datapoints(self) -> Tensor:
        r"""The rows that the training trials show, ``batch_shape x m x d``.

        Named as in ``botorch.models.PairwiseGP``, for those who ask it.
        """
        return self._rows(self.train_inputs[0])

    def _prior_moments(self, trials: Tensor) -> tuple[Tensor, Tensor]:
        """The prior mean and covariance of the contrasts of trials."""
        contrast, rows = self.likelihood.contrast, self._rows(trials)
        K = contrast(contrast(covariance(self.covar_module, rows, rows)), dim=-2)
        return contrast(self.prior_mean(rows)).expand(K.shape[:-1]), K

    def prior_mean(self, X: Tensor) -> Tensor:
        r"""The prior mean of the latent values at transformed points.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape x q`` tensor.
        """
        if isinstance(self.mean_module, ZeroMean):
            return X.new_zeros(X.shape[:-1])
        mean: Any = self.mean_module(X)
        return mean

    def _cross_covariance(self, X: Tensor) -> Tensor:
        r"""The prior covariance of the training contrasts with latent values at points.

        The leading dimensions that only ``X`` has are folded into its rows, which makes
        one matrix of many small ones.

        Args:
            X: A ``t x batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape x n x (t q)`` tensor.
        """
        folded = fold(X, len(self.batch_shape))
        cross = covariance(self.covar_module, self.datapoints, folded)
        return self.likelihood.contrast(cross, dim=-2)

    def forward(self, X: Tensor) -> MultivariateNormal:
        r"""The prior of training contrasts (``train``) or the posterior (``eval``).

        Args:
            X: In ``train`` mode the training inputs; in ``eval`` mode a
                ``batch_shape x q x d`` tensor of transformed points.

        Returns:
            A distribution over ``n`` contrasts or ``q`` latent values.
        """
        if self.training:
            mean, K = self._prior_moments(self._transform_trials(X))
            return MultivariateNormal(mean, to_linear_operator(K))
        return self._latent_posterior(X)

    def _latent_posterior(self, X: Tensor) -> MultivariateNormal:
        num_batch = len(self.batch_shape)
        X = expand_batch(X, self.batch_shape)
        batch, q = X.shape[:-2], X.shape[-2]
        approximation = self.laplace_approximation
        cross = self._cross_covariance(X)  # batch_shape x n x (t q)
        V = approximation.whiten(cross)
        shift = (approximation.weights.unsqueeze(-2) @ cross).mT
        mean = self.prior_mean(X) + unfold(shift, batch, q, num_batch).squeeze(-1)
        V = unfold(V.mT, batch, q, num_batch)  # t x batch_shape x q x n
        if q == 1:
            spread = variance(self.covar_module, X) - V.square().sum(dim=-1)
            covar = spread.unsqueeze(-1)
        else:
            covar = covariance(self.covar_module, X, X) - V @ V.mT
        return MultivariateNormal(mean, to_linear_operator(raise_variance(covar)))

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
    ) -> GPyTorchPosterior | LabelPosterior | TransformedPosterior:
        r"""The posterior of the latent function, or of labels, at points.

        Args:
            X: A ``batch_shape x q x d`` tensor.
            output_indices: None or ``[0]``; the model has one output.
            observation_noise: If True, the posterior is that of the labels of trials at
                the points (for duels, of consecutive pairs of rows).
            posterior_transform: Applied to the posterior.

        Returns:
            A ``GPyTorchPosterior`` over the ``q`` latent values, or a
            ``LabelPosterior``.
        """
        self._check_output_indices(output_indices)
        if isinstance(observation_noise, Tensor):
            raise UnsupportedError(
                "Expected ``observation_noise`` to be a bool, but got a tensor: labels "
                "have no noise level."
            )
        self._check_columns(X)
        if self.training:
            self.eval()
        X = self.transform_inputs(X)
        mvn: Any = self(X)
        if observation_noise:
            contrasts = self.likelihood.contrast_distribution(mvn)
            posterior: Any = LabelPosterior(contrasts, self.likelihood)
        else:
            posterior = GPyTorchPosterior(mvn)
        if posterior_transform is not None:
            return posterior_transform(posterior=posterior, X=X)
        return posterior

    def probability_posterior(self, X: Tensor) -> TransformedPosterior:
        r"""The posterior of the success probability, with exact mean and variance.

        Args:
            X: A ``batch_shape x q x d`` tensor; for duels consecutive rows are pairs.

        Returns:
            A posterior over the success probabilities of the trials.
        """
        transform = ClassProbability(self.likelihood)
        posterior = self.posterior(X, posterior_transform=transform)
        assert isinstance(posterior, TransformedPosterior)
        return posterior

    def _check_output_indices(self, output_indices: list[int] | None) -> None:
        if output_indices is not None and any(i not in (0, -1) for i in output_indices):
            raise UnsupportedError(
                "Expected ``output_indices`` to be None or [0] for a model with one "
                f"output, but got {output_indices}."
            )

    @property
    def _trial_shape(self) -> torch.Size:
        """``d`` or, for duels, ``2 x d``, before any transform."""
        original = self._original_train_inputs
        trials = self.train_inputs[0] if original is None else original
        return trials.shape[len(self.batch_shape) + 1 :]

    def _check_columns(self, X: Tensor) -> None:
        dim = self._trial_shape[-1]
        if X.ndim < 2 or X.shape[-1] != dim:
            raise InputDataError(
                f"Expected ``X`` to be ``batch_shape x q x {dim}``, but got shape "
                f"{list(X.shape)}."
            )

    def subset_output(self, idcs: list[int]) -> Self:
        r"""The model itself, which has one output.

        Args:
            idcs: ``[0]``.

        Returns:
            This model.
        """
        self._check_output_indices(idcs)
        return self

    def condition_on_observations(self, X: Tensor, Y: Tensor, **kwargs: Any) -> Self:
        r"""The same model, with the same hyperparameters, given more trials.

        The mode of the new model is searched from that of this one. The posterior of
        the new model is differentiable in ``X``.

        Args:
            X: Trials in the form of ``train_X`` with ``n'`` in the place of ``n``; its
                batch shape is broadcast with that of the model.
            Y: Labels, ``batch_shape x n' x 1``; may have further leading dimensions.
            kwargs: Not used.

        Returns:
            A new model; this one is unchanged.
        """
        self.eval()
        old = self.train_inputs[0]
        trial_shape = self._trial_shape
        check_new_trials(X, Y, trial_shape)
        event = len(trial_shape) + 1  # the dimensions beside the batch
        batch = torch.broadcast_shapes(X.shape[:-event], Y.shape[:-2], self.batch_shape)

        def extend(trials: Tensor, more: Tensor) -> Tensor:
            parts = [t.expand(batch + t.shape[-event:]) for t in (trials, more)]
            return torch.cat(parts, dim=-event)

        model = self._copy_without_data()
        model.train_inputs = (extend(old, self._transform_trials(X)),)
        targets = [self.train_targets, Y.squeeze(-1).to(old)]
        model.train_targets = _concatenate(targets, batch)
        if self._original_train_inputs is not None:
            model._original_train_inputs = extend(
                self._original_train_inputs, X
            ).detach()
        weights = self._initial_weights  # if this model was not asked anything
        if self._approximation is not None:
            weights = self._approximation.weights.detach()
        if weights is not None:
            fresh = weights.new_zeros(Y.shape[-2])
            model._initial_weights = _concatenate([weights, fresh], batch)
        return model

    def _copy_without_data(self) -> Self:
        """A copy of the hyperparameters; conditioning sets the data."""
        data = self.train_inputs, self.train_targets, self._original_train_inputs
        self.train_inputs, self.train_targets = (), None  # pyright: ignore
        self._original_train_inputs = None
        try:
            model = deepcopy(self)
        finally:
            self.train_inputs, self.train_targets, self._original_train_inputs = data
        return model

    def set_train_data(
        self,
        inputs: Tensor | tuple[Tensor] | list[Tensor] | None = None,
        targets: Tensor | None = None,
        strict: bool = True,
    ) -> None:
        r"""Replace the training data; hyperparameters stay as they are.

        Args:
            inputs: The new trials, in the form of ``train_X``.
            targets: Their labels, ``batch_shape x n``.
            strict: Whether shape, dtype and device must stay the same.
        """
        if inputs is not None:
            trials = inputs if isinstance(inputs, Tensor) else inputs[0]
            if strict:
                check_alike("inputs", trials, self.train_inputs[0])
            self.train_inputs = (trials,)
        if targets is not None:
            check_labels(targets, name="targets")
            if strict:
                check_alike("targets", targets, self.train_targets)
            self.train_targets = targets
        self._drop_cache()

    def _transform_trials(self, trials: Tensor) -> Tensor:
        """Transform the rows of trials: transforms know no pairs."""
        return self._trials(self.transform_inputs(self._rows(trials)))

    def _set_transformed_inputs(self) -> None:
        if hasattr(self, "input_transform") and not self._has_transformed_inputs:
            trials = self.train_inputs[0]
            with torch.no_grad():
                rows = self.input_transform.preprocess_transform(self._rows(trials))
            self.set_train_data(self._trials(rows), strict=False)
            self._original_train_inputs = trials
            self._has_transformed_inputs = True

    def _drop_cache(self) -> None:
        self._approximation = None
        self._initial_weights = None

    def train(self, mode: bool = True) -> Self:
        r"""Switch between ``train`` and ``eval`` mode; a switch drops the cached mode.

        Args:
            mode: Whether to train.

        Returns:
            The model.
        """
        if mode or self.training:
            self._drop_cache()
        return super().train(mode=mode)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._drop_cache()
        self.train_inputs = tuple(fn(t) for t in self.train_inputs)  # pyright: ignore
        self.train_targets = fn(self.train_targets)
        if self._original_train_inputs is not None:
            self._original_train_inputs = fn(self._original_train_inputs)
        return super()._apply(fn, recurse)

    def __getstate__(self) -> Mapping[str, Any]:
        # Copies and pickles hold the data without a graph, and no cache.
        inputs = tuple(t.detach() if t.grad_fn else t for t in self.train_inputs)
        return {**self.__dict__, "_approximation": None, "train_inputs": inputs}


def _concatenate(parts: list[Tensor], batch: torch.Size) -> Tensor:
    return torch.cat([t.expand(batch + t.shape[-1:]) for t in parts], dim=-1)


def _renew(model: LaplaceGP, incompatible_keys: Any) -> None:
    """After a state is loaded: what was computed with the old one is stale."""
    model._drop_cache()
    if model._has_transformed_inputs:
        model._revert_to_original_inputs()
        model._set_transformed_inputs()
