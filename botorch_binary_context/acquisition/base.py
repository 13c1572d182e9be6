r"""
The base of acquisition functions that score a trial or a duel.
"""

from __future__ import annotations

from abc import abstractmethod

from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.utils.transforms import (
    average_over_ensemble_models,
    t_batch_mode_transform,
)
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import VALUE, Functional
from botorch_binary_context.models.latent_gp import LatentGP


def match_space(space: ContextSpace, model: LatentGP) -> ContextSpace:
    r"""The space, with the dtype and device of a model, if it has the model's columns.

    Args:
        space: The box of the trials.
        model: The model.

    Returns:
        The space.
    """
    dim = model.original_datapoints.shape[-1]
    if space.dim != dim:
        raise InputDataError(
            f"Expected ``space`` to have the {dim} columns of the model's trials, but "
            f"got {space.dim}."
        )
    return space.to(model.datapoints)


class TrialAcquisitionFunction(AcquisitionFunction):
    r"""Scores candidates, each the rows of one trial: two for a duel.

    A subclass implements :meth:`evaluate`, and names the functional that its
    candidates observe if it is for one only.
    """

    model: LatentGP
    X_pending: Tensor | None = None  # what sequential optimisation asks for

    def __init__(self, model: LatentGP, functional: Functional | None = None) -> None:
        r"""
        Args:
            model: A model of pass/fail outcomes or duels.
            functional: What trials must observe for the acquisition function to make
                sense; None if that does not matter.
        """
        if functional not in (None, model.functional):
            kind = "pass/fail outcomes" if functional == VALUE else "duels"
            raise UnsupportedError(
                f"Expected ``model`` to be a model of {kind} for "
                f"{type(self).__name__}, but got a {type(model).__name__}."
            )
        super().__init__(model=model)

    @t_batch_mode_transform()  # pyright: ignore[reportArgumentType]
    @average_over_ensemble_models  # pyright: ignore[reportArgumentType]
    def forward(self, X: Tensor) -> Tensor:
        r"""Score candidates.

        Args:
            X: A ``batch_shape x q x d`` tensor.

        Returns:
            A ``batch_shape`` tensor.
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
        r"""Refuse pending points, which have no label to go by.

        Args:
            X_pending: None, or an error is raised.
        """
        if X_pending is not None:
            raise UnsupportedError(
                "Expected ``X_pending`` to be None, but got a tensor of shape "
                f"{list(X_pending.shape)}: condition the model on labels of pending "
                "trials, for example by ``model.fantasize``."
            )
