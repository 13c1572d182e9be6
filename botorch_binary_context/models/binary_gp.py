r"""
Gaussian process models of pass/fail outcomes.
"""

from __future__ import annotations

from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from botorch_binary_context.inference import Inference, Laplace
from botorch_binary_context.likelihoods import OutcomeLikelihood, ProbitLikelihood
from botorch_binary_context.models.defaults import binary_covar_module
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.observations import Observations


class BinaryGP(LatentGP):
    r"""A model of the latent performance behind pass/fail outcomes.

    ``p(c=1|z) = γ + (1 - γ - λ) Φ(f(z))`` with a Gaussian process prior on ``f``
    (section 3.1 of [Fauvel2022contextual]_). The rows ``z`` may contain contexts as
    well as parameters; the kernel says what contexts do.

    Example:
        >>> train_X = torch.rand(20, 2, dtype=torch.double)
        >>> train_Y = (train_X.sum(dim=-1, keepdim=True) > 1).double()
        >>> model = BinaryGP(train_X, train_Y)
        >>> fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))
        >>> model.posterior(test_X).mean  # of the latent f
        >>> model.probability_posterior(test_X).mean  # of Φ(f)
        >>> model.posterior(test_X, observation_noise=True).rsample()  # labels
        >>> model.exact_posterior(test_X).mean  # without an approximation
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: OutcomeLikelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
        inference: Inference | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The trials, ``batch_shape x n x d``; ``n`` may be zero.
            train_Y: Their outcomes, ``batch_shape x n x 1``: 1 for a pass, 0 for a
                fail; or the labels of the likelihood, such as ratings.
            likelihood: By default a ``ProbitLikelihood`` without guesses and lapses.
            covar_module: The kernel of the latent function. By default a squared
                exponential with priors, for inputs in the unit cube, and a constant.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
        """
        likelihood = ProbitLikelihood() if likelihood is None else likelihood
        super().__init__(
            [Observations(train_X, train_Y, likelihood)],
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
            inference=inference,
        )

    def _make_covar_module(self, dim: int) -> Kernel:
        return binary_covar_module(dim, self.batch_shape)


class BinaryLaplaceGP(BinaryGP):
    r"""A :class:`BinaryGP` whose posterior is approximated by Laplace's method.

    This is the model of the paper (supplement 1 of [Fauvel2022contextual]_).

    Example:
        >>> model = BinaryLaplaceGP(train_X, train_Y)
        >>> fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        likelihood: OutcomeLikelihood | None = None,
        covar_module: Kernel | None = None,
        mean_module: Mean | None = None,
        input_transform: InputTransform | None = None,
    ) -> None:
        r"""
        Args:
            train_X: The trials, ``batch_shape x n x d``; ``n`` may be zero.
            train_Y: Their outcomes, ``batch_shape x n x 1``: 1 for a pass, 0 for a
                fail; or the labels of the likelihood, such as ratings.
            likelihood: By default a ``ProbitLikelihood`` without guesses and lapses.
            covar_module: The kernel of the latent function, as in :class:`BinaryGP`.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
        """
        super().__init__(
            train_X,
            train_Y,
            likelihood=likelihood,
            covar_module=covar_module,
            mean_module=mean_module,
            input_transform=input_transform,
            inference=Laplace(),
        )
