r"""
The base class of acquisition functions that score a trial or a duel.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import cast

from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import Model, ModelList
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.goals import Goal, LinearGoal
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.pending import expect_outcomes


def match_space(space: ContextSpace, model: LatentGP) -> ContextSpace:
    r"""The space, with the dtype and device of a model, if it has the model's columns.

    Args:
        space: The box of the trials.
        model: The model.
    """
    dim = model.original_datapoints.shape[-1]
    if space.dim != dim:
        raise InputDataError(
            f"Expected ``space`` to have the {dim} columns of the model's trials, but "
            f"got {space.dim}."
        )
    return space.to(model.datapoints)


def check_linear(goal: Goal, name: str) -> LinearGoal:
    r"""The goal, if it is linear.

    Args:
        goal: The goal.
        name: The name of the caller, which works for linear goals only.
    """
    if isinstance(goal, LinearGoal):
        return goal
    raise UnsupportedError(
        f"Expected ``goal`` to be linear in the latent function for {name}, such as "
        f"``AtContext`` or ``ContextAverage``, but got {goal}. The classes "
        "``SampledKnowledgeGradient`` and ``RefittedKnowledgeGradient`` take any goal."
    )


def only_model(model: Model) -> LatentGP:
    r"""The model itself, or the only model of a list, since Ax may wrap it in one.

    Args:
        model: A model of this package, or a ``ModelList`` of one.
    """
    if isinstance(model, ModelList):
        if len(model.models) != 1:
            raise UnsupportedError(
                "Expected ``model`` to be a single model, but got a list of "
                f"{len(model.models)}."
            )
        return only_model(cast(Model, model.models[0]))
    return cast(LatentGP, model)


class TrialAcquisitionFunction(AcquisitionFunction):
    r"""The base class, which scores candidates: trials of one row, or duels of two.

    A subclass implements :meth:`evaluate`, and names a functional if it is for one kind
    of trial only. :meth:`prepare` computes what all candidates share.
    """

    model: LatentGP
    answered: LatentGP
    X_pending: Tensor | None

    def __init__(self, model: LatentGP, functional: Functional | None = None) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels, or a ``ModelList`` of one.
            functional: What trials must observe for the acquisition function to make
                sense; None if that does not matter.
        """
        model = only_model(model)
        if functional not in (None, model.functional):
            kind = "pass/fail outcomes" if functional == VALUE else "duels"
            raise UnsupportedError(
                f"Expected ``model`` to be a model of {kind} for "
                f"{type(self).__name__}, but got a {type(model).__name__}."
            )
        super().__init__(model=model)
        self.answered = model
        self.X_pending = None

    @t_batch_mode_transform()  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Score candidates.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape`` tensor of scores; higher is better.
        """
        return self.evaluate(X)

    @abstractmethod
    def evaluate(self, X: Tensor) -> Tensor:
        r"""The score, without the checks of shapes that :meth:`forward` adds.

        Args:
            X: ``t x batch_shape x q x d`` candidates.

        Returns:
            A ``t x batch_shape`` tensor.
        """

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Take pending trials into account, which were asked but not answered yet.

        Args:
            X_pending: The rows of the trials, ``batch_shape x (n num_rows) x d``; rows
                of a duel are consecutive. None if no trial is pending.
        """
        self.X_pending = X_pending
        pending = None
        if X_pending is not None and X_pending.shape[-2] > 0:
            X_pending = X_pending.detach().to(self.answered.train_targets)
            pending = self.answered.functional.trials(X_pending)
        self.model = self.expect(pending)
        self.prepare()

    def expect(self, pending: Tensor | None) -> LatentGP:
        r"""The model that takes pending trials into account.

        Args:
            pending: The trials, in the layout of ``train_X``, or None.

        Returns:
            The model; here as if they had come out as expected.
        """
        if pending is None:
            return self.answered
        return expect_outcomes(self.answered, pending)

    def prepare(self) -> None:
        r"""Compute what all candidates share, again whenever the model changes."""
