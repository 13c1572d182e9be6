r"""
A Gaussian process model of trials of several kinds about one latent function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from botorch.exceptions import InputDataError
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from gpytorch.means import Mean

from botorch_binary_context.inference import Inference
from botorch_binary_context.models.defaults import (
    binary_covar_module,
    duel_covar_module,
)
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.observations import Observations


class MixedGP(LatentGP):
    r"""A model of pass/fail outcomes and duels about one latent function.

    All trials share one posterior: duels tell which of two settings is better, outcomes
    also how good they are. Candidates of acquisition functions, labels and fantasies
    are trials of one kind: the first, unless :meth:`asking` selects another.
    ``suggest`` selects the kind that its rule is for.

    Example:
        >>> outcomes = Observations(X, Y, ProbitLikelihood(guess_rate=0.5))
        >>> duels = Observations(pairs, winners, PreferenceLikelihood())
        >>> model = MixedGP([outcomes, duels])
        >>> more = Observations(pair, winner, PreferenceLikelihood())
        >>> model = model.condition_on_observations(more)
        >>> suggest(model, space, rule="mkg")  # an outcome
        >>> suggest(model.asking(1), space, rule="mkg")  # a duel
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
                exponential with priors, for inputs in the unit cube, and a constant if
                there are pass/fail outcomes.
            mean_module: The prior mean of the latent function, by default zero.
            input_transform: Applied to the inputs of trials and of test points.
            inference: How the posterior is approximated, by default by expectation
                propagation.
        """
        super().__init__(
            observations, covar_module, mean_module, input_transform, inference
        )

    def _make_covar_module(self, dim: int) -> Kernel:
        # Duels alone do not see an offset.
        sees_offset = any(known.functional.sees_offset for known in self.kinds)
        make = binary_covar_module if sees_offset else duel_covar_module
        return make(dim, self.batch_shape)

    def asking(self, kind: int) -> Self:
        r"""The same model, whose candidates are trials of a given kind.

        Args:
            kind: The number of the kind, in the order of ``observations``.

        Returns:
            A copy of the model.
        """
        if not 0 <= kind < len(self.kinds):
            raise InputDataError(
                f"Expected ``kind`` to be from 0 to {len(self.kinds) - 1}, but got "
                f"{kind}."
            )
        model = self.with_inference(self.inference)
        model._asked = kind
        model._approximation = self._approximation
        model._start = self._start
        return model
