r"""
The Gaussian process model behind pass/fail outcomes, duels, and both together.

Three objects make a model of a latent function ``f``: what a trial observes of it (a
:mod:`functional <botorch_binary_context.functionals>`), how it is answered (a
:mod:`likelihood <botorch_binary_context.likelihoods>`), and how the posterior is
approximated (an :mod:`inference <botorch_binary_context.inference>`). For all
combinations of these, one class holds the data and gives the posterior of any
functional of ``f``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import torch
from botorch import settings
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.transforms.input import AppendFeatures, InputTransform
from botorch.models.utils.assorted import check_min_max_scaling
from botorch.posteriors import GPyTorchPosterior, TransformedPosterior
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import Kernel
from gpytorch.means import Mean, ZeroMean
from linear_operator import to_linear_operator
from torch import Tensor
from torch.nn import ModuleList

from botorch_binary_context.checks import check_tensor
from botorch_binary_context.functionals import Functional
from botorch_binary_context.inference import (
    ExpectationPropagation,
    GaussianApproximation,
    Inference,
    Laplace,
    LaplaceApproximation,
)
from botorch_binary_context.inference.exact import (
    ContrastSamples,
    extend_samples,
    sample_contrasts,
)
from botorch_binary_context.models.defaults import default_covar_module
from botorch_binary_context.models.extension import prior_and_start
from botorch_binary_context.models.functional_values import FunctionalValues
from botorch_binary_context.models.observations import Observations
from botorch_binary_context.models.prior_model import PriorModel
from botorch_binary_context.models.trial_model import renew
from botorch_binary_context.models.validation import (
    check_batch_shape,
    check_observations,
)
from botorch_binary_context.numerics.batching import expand_batch, unfold
from botorch_binary_context.numerics.covariance import (
    covariance,
    raise_variance,
    variance,
)
from botorch_binary_context.posteriors import (
    ClassProbability,
    ExactPosterior,
    LabelPosterior,
)


class LatentGP(PriorModel):
    r"""A latent Gaussian process observed through trials.

    In ``eval`` mode a call returns the latent posterior at points, in ``train`` mode
    the prior of the contrasts of the training trials (what a marginal likelihood
    takes). The approximation of the posterior is computed once and kept until the data
    or the mode of the model change.
    """

    def __init__(
        self,
        observations: Sequence[Observations],
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference | None = None,
    ) -> None:
        r"""
        Args:
            observations: The trials, one entry for each kind; an entry may have none.
            covar_module: The kernel of the latent function. By default a squared
                exponential with priors, for inputs in the unit cube.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
        """
        super().__init__()
        check_observations(observations)
        self.train_inputs = tuple(o.X for o in observations)
        self.train_targets = torch.cat([o.Y.squeeze(-1) for o in observations], dim=-1)
        self.inference = ExpectationPropagation() if inference is None else inference
        self._approximation = None
        self._start = None
        self._samples = {}
        self._warm_samples = {}
        self._asked = 0
        self._kept = []
        self.likelihoods = ModuleList([o.likelihood for o in observations])
        self.mean_module = ZeroMean() if mean_module is None else mean_module
        X = self.train_inputs[0]
        if input_transform is not None:
            self.input_transform = input_transform.to(X)
        rows = self._rows(self.train_inputs)
        if input_transform is not None and rows.numel():
            with torch.no_grad():
                rows = self.transform_inputs(rows)  # a transform may learn its bounds
        if covar_module is None:
            covar_module = self._default_covar_module(rows)
        check_batch_shape(covar_module.batch_shape, self.batch_shape)
        self.covar_module = covar_module
        self.register_load_state_dict_post_hook(renew)
        self.to(X)

    def _default_covar_module(self, rows: Tensor) -> Kernel:
        if settings.validate_input_scaling.on() and rows.numel():
            check_min_max_scaling(rows)  # the priors of the default kernel rely on it
        return self._make_covar_module(rows.shape[-1]).to(rows)

    def _make_covar_module(self, dim: int) -> Kernel:
        """The default kernel of inputs in the unit cube."""
        return default_covar_module(dim, self.batch_shape)

    @property
    def approximation(self) -> GaussianApproximation:
        r"""The Gaussian approximation of the posterior of the training contrasts.

        It carries a graph to the training inputs if those require a gradient, and to
        the hyperparameters only within ``botorch.settings.propagate_grads``.
        """
        # Do not keep a graph that exists only because of this call's settings.
        if settings.propagate_grads.on():
            return self._approximate()
        if self._approximation is None:
            attached = any(trials.requires_grad for trials in self.train_inputs)
            with _keepable(attached and torch.is_grad_enabled()):
                approximation = self._approximate()
            if attached != approximation.weights.requires_grad:
                return approximation
            self._approximation = approximation
        return self._approximation

    @property
    def laplace_approximation(self) -> LaplaceApproximation:
        r"""The Laplace approximation, whatever the inference of the model."""
        if isinstance(self.inference, Laplace):
            approximation = self.approximation
        else:
            approximation = self.with_inference(Laplace()).approximation
        assert isinstance(approximation, LaplaceApproximation)
        return approximation

    def posterior_mean(self, X: Tensor) -> Tensor:
        r"""The posterior mean of the latent function alone, without its variance.

        Args:
            X: A ``t x batch_shape x q x d`` tensor.

        Returns:
            A ``t x batch_shape x q`` tensor.
        """
        check_tensor("X", X)
        return self.mean_at(X)

    def mean_at(self, X: Tensor) -> Tensor:
        r"""The same as :meth:`posterior_mean`, for points that are finite.

        This is not checked, since the check would slow down a search over many points.

        Args:
            X: A ``t x batch_shape x q x d`` tensor.

        Returns:
            A ``t x batch_shape x q`` tensor.
        """
        self._check_columns(X)
        if self.training:
            self.eval()
        X = expand_batch(self.transform_inputs(X), self.batch_shape)
        weights = self.approximation.weights.unsqueeze(-2)
        shift = (weights @ self.cross_covariance(X)).mT
        shift = unfold(shift, X.shape[:-2], X.shape[-2], len(self.batch_shape))
        return self.prior_mean(X) + shift.squeeze(-1)

    def values_of(
        self, X: Tensor, functional: Functional | None = None
    ) -> FunctionalValues:
        r"""The values of a functional of the latent function at candidates.

        Args:
            X: The rows of each candidate, ``t x batch_shape x q x d``.
            functional: The functional, by default what a trial observes.

        Returns:
            Their prior moments, from which the posterior moments follow.
        """
        functional = self.functional if functional is None else functional
        return FunctionalValues.of(self, X, functional)

    def moments(
        self, X: Tensor, functional: Functional | None = None
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior mean and variance of a functional at candidates.

        Args:
            X: The rows of each candidate, ``t x batch_shape x q x d``.
            functional: The functional, by default what a trial observes.

        Returns:
            The mean and the variance, ``t x batch_shape`` each.
        """
        values = self.values_of(X, functional)
        mean, squares = values.moments()
        return values.unfold(mean), values.unfold(squares)

    def _approximate(self) -> GaussianApproximation:
        mean, K, start = prior_and_start(self)
        data = mean, K, self.train_targets
        return self.inference.approximate(self.trial_likelihood, *data, start)

    def named_priors(self) -> Iterator[tuple[Any, ...]]:
        """The priors of hyperparameters, each once where modules share a module."""
        seen = set()
        for entry in super().named_priors():
            name, module = entry[:2]
            key = id(module), name.rpartition(".")[2]
            if key not in seen:
                seen.add(key)
                yield entry

    def log_posterior_of_hyperparameters(self) -> Tensor:
        r"""The log evidence plus the log prior of the hyperparameters.

        Returns:
            A ``batch_shape`` tensor, differentiable in the hyperparameters.
        """
        self.eval()
        mean, K = self._prior_moments(self.train_inputs)
        evidence, _ = self.inference.evidence(
            self.trial_likelihood, mean, K, self.train_targets
        )
        for _, module, prior, closure, _ in self.named_priors():
            density = prior.log_prob(closure(module))
            if density.shape[: len(self.batch_shape)] == self.batch_shape:
                density = density.reshape(*self.batch_shape, -1)
            else:  # of a hyperparameter that the batch shares
                density = density.flatten()
            evidence = evidence + density.sum(dim=-1)
        return evidence

    def forward(self, *X: Tensor) -> MultivariateNormal:
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
        return self._latent_posterior(X[0])

    def _latent_posterior(self, X: Tensor) -> MultivariateNormal:
        num_batch = len(self.batch_shape)
        X = expand_batch(X, self.batch_shape)
        batch = X.shape[:-2]
        q = X.shape[-2]
        approximation = self.approximation
        cross = self.cross_covariance(X)  # batch_shape x n x (t q)
        V = approximation.whiten(cross)
        shift = (approximation.weights.unsqueeze(-2) @ cross).mT
        mean = self.prior_mean(X) + unfold(shift, batch, q, num_batch).squeeze(-1)
        V = unfold(V.mT, batch, q, num_batch)  # t x batch_shape x q x n
        if q == 1:
            left = variance(self.covar_module, X) - V.square().sum(dim=-1)
            covar = left.unsqueeze(-1)
        else:
            covar = covariance(self.covar_module, X, X) - V @ V.mT
        if approximation.inflation is not None:
            R = unfold((approximation.inflation @ cross).mT, batch, q, num_batch)
            covar = covar + R @ R.mT
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
                "have no noise variance."
            )
        check_tensor("X", X)
        self._check_columns(X)
        if self.training:
            self.eval()
        X = self.transform_inputs(X)
        mvn: Any = self(X)
        if observation_noise:
            contrasts = self.functional.of_distribution(mvn)
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

    def exact_posterior(
        self, X: Tensor, num_samples: int = 4096, seed: int = 0
    ) -> ExactPosterior:
        r"""The true posterior of the latent function, by sampling.

        No Gaussian approximation is involved: given the hyperparameters, it is exact up
        to a stated Monte Carlo error. The draws are kept, and a model that is
        conditioned on further trials starts from them.

        Args:
            X: A ``batch_shape x q x d`` tensor; for the probabilities of duels,
                consecutive rows are pairs.
            num_samples: The number of independent draws.
            seed: The seed of the draws.

        Returns:
            A posterior over the ``q`` latent values, with the success probabilities of
            trials there.

        Example:
            >>> posterior = model.exact_posterior(test_X)
            >>> posterior.mean, posterior.mean_error
            >>> posterior.quantile(torch.tensor([0.05, 0.95]))
            >>> posterior.probability, posterior.probability_error
        """
        check_tensor("X", X)
        self._check_columns(X)
        if self.training:
            self.eval()
        samples = self.sample_contrasts(num_samples, seed)
        X = expand_batch(self.transform_inputs(X), self.batch_shape)
        batch = X.shape[:-2]
        q = X.shape[-2]
        num_batch = len(self.batch_shape)
        C = samples.basis.inverse.mT @ self.cross_covariance(X)  # n x (t q)
        shift = samples.coordinates.movedim(0, -2) @ C  # batch_shape x S x (t q)
        shift = unfold(shift.mT, batch, q, num_batch).movedim(-1, 0)
        C = unfold(C.mT, batch, q, num_batch)  # t x batch_shape x q x n
        covar = covariance(self.covar_module, X, X) - C @ C.mT
        means = self.prior_mean(X) + shift
        return ExactPosterior(means, raise_variance(covar), self.likelihood)

    def sample_contrasts(
        self, num_samples: int = 4096, seed: int = 0
    ) -> ContrastSamples:
        r"""Independent draws from the true posterior of the training contrasts.

        Args:
            num_samples: The number of draws.
            seed: The seed of the draws.
        """
        key = num_samples, seed
        if key in self._samples:
            return self._samples[key]
        # Chains begin near the truth only if they begin at matched moments.
        matched = isinstance(self.inference, ExpectationPropagation)
        model = self if matched else self.with_inference(ExpectationPropagation())
        approximation = model.approximation
        data = (
            self.trial_likelihood,
            approximation.prior_mean.detach(),
            approximation.prior_covariance.detach(),
            self.train_targets,
            approximation.as_sites(),
        )
        warm = self._warm_samples.get(key)
        with _keepable(torch.is_grad_enabled()):
            if warm is None:
                samples = sample_contrasts(*data, num_samples, seed)
            else:
                samples = extend_samples(*data, *warm, seed=seed)
            _ = samples.coordinates  # are kept, too
        self._samples[key] = samples
        return samples

    def _check_output_indices(self, output_indices: list[int] | None) -> None:
        if output_indices is not None and any(i not in (0, -1) for i in output_indices):
            raise UnsupportedError(
                "Expected ``output_indices`` to be None or [0] for a model with one "
                f"output, but got {output_indices}."
            )

    def _check_columns(self, X: Tensor) -> None:
        dim = self._dim
        if X.ndim < 2 or (X.shape[-1] != dim and not self._completes(X)):
            raise InputDataError(
                f"Expected ``X`` to be ``batch_shape x q x {dim}``, but got shape "
                f"{list(X.shape)}."
            )

    def _completes(self, X: Tensor) -> bool:
        """Whether the input transform appends the columns that points lack."""
        if not any(isinstance(module, AppendFeatures) for module in self.modules()):
            return False
        self.eval()
        with torch.no_grad():
            completed = self.transform_inputs(X[..., :1, :])
        return completed.shape[-1] == self.datapoints.shape[-1]

    def subset_output(self, idcs: list[int]) -> Self:
        r"""The model itself, which has one output.

        Args:
            idcs: ``[0]``.
        """
        self._check_output_indices(idcs)
        return self


@contextmanager
def _keepable(grad: bool) -> Iterator[None]:
    """Compute what is kept, so that it can be used outside inference mode, too."""
    with torch.inference_mode(False), torch.set_grad_enabled(grad):
        yield
