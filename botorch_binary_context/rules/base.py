r"""
What a rule is, and what it has to go by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.trials import TrialSpace

# Quasi-random points come in this many sets, so that their neighbors are found once.
NUM_POINT_SETS = 8
COARSE_GAIN = 1e-6
COARSE_EVALUATIONS = 40


@dataclass(frozen=True)
class Selection:
    r"""What a rule has to go by.

    Attributes:
        model: The model of the trials so far.
        space: The box of the rows of trials.
        options: The effort of the search for ``x`` or for the whole trial.
    """

    model: LatentGP
    space: ContextSpace
    options: SearchOptions

    @cached_property
    def trials(self) -> TrialSpace:
        """The box of whole trials."""
        return TrialSpace(self.space, self.model.functional)

    @property
    def coarse_options(self) -> SearchOptions:
        """For functions that cost much: their last digits do not decide a trial."""
        return replace(
            self.options,
            max_evaluations=min(self.options.max_evaluations, COARSE_EVALUATIONS),
            relative_gain=max(self.options.relative_gain, COARSE_GAIN),
        )

    def maximize(
        self,
        function: Callable[[Tensor], Tensor],
        bounds: Tensor,
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The maximizer of a function for every element of the model's batch.

        Args:
            function: Maps ``r x batch_shape x k`` points to ``r x batch_shape`` values.
            bounds: The ``2 x k`` box.
            options: The effort of the search.

        Returns:
            A ``batch_shape x k`` tensor.
        """
        options = self.options if options is None else options
        seed = draw_point_set()
        return maximize(function, bounds, self.model.batch_shape, options, seed=seed)[0]

    def maximize_parameters(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximize a score of trials in the reference context.

        Args:
            score: Maps ``r x batch_shape x 1 x d`` trials to ``r x batch_shape``
                values.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        chosen = self.maximize(
            lambda x: score(self.space.at_reference(x).unsqueeze(-2)),
            self.space.parameter_bounds,
        )
        return chosen.unsqueeze(-2)

    def maximize_trial(
        self,
        score: Callable[[Tensor], Tensor],
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The whole trial that maximizes a score.

        Args:
            score: Maps ``r x batch_shape x num_rows x d`` trials to
                ``r x batch_shape`` values.
            options: The effort of the search.

        Returns:
            A ``batch_shape x num_rows x d`` tensor.
        """
        trials = self.trials
        chosen = self.maximize(
            lambda u: score(trials.decode(u)), trials.bounds, options
        )
        return trials.decode(chosen)


class Rule(Protocol):
    r"""Chooses a trial: any function, or any object that can be called like one."""

    def __call__(self, selection: Selection, /) -> Tensor:
        r"""Choose a trial for every element of the model's batch.

        Args:
            selection: What to go by.

        Returns:
            The rows of the trials, ``batch_shape x num_rows x d``.
        """
        ...


def draw_point_set() -> int:
    r"""The seed of one of the sets of quasi-random points."""
    return int(torch.randint(NUM_POINT_SETS, (1,), device="cpu"))
