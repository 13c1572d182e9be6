r"""
Feasibility: a model of which trials can be run, learned from those that could not.

Some settings give no answer at all: a lens that is too blurry to see through, a
stimulus that is unpleasant. Whether a trial was feasible is a pass/fail outcome like
any other, and a model of it says where other trials are feasible.
"""

from __future__ import annotations

from dataclasses import dataclass

from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Normalize,
)
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_binary_context.checks import check_kind
from botorch_binary_context.constraints import Safety
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import Goal
from botorch_binary_context.models.binary_gp import BinaryGP
from botorch_binary_context.models.defaults import default_covar_module
from botorch_binary_context.models.latent_gp import LatentGP

# A priori, 19 of 20 trials are expected to be feasible, apart from the kernel.
PRIOR_MEAN = 3.678


@dataclass(frozen=True, eq=False)
class Feasibility:
    r"""A restriction to trials that are likely to be feasible.

    A trial is feasible if each of its rows is, with at least this ``probability``
    at the given confidence; so both sides of a duel have to be.

    Attributes:
        model: The model of whether rows are feasible, for example of
            :func:`feasibility_gp`.
        probability: The least probability of being feasible.
        confidence: The posterior probability that it is reached.

    Example:
        >>> feasibility = Feasibility(feasibility_gp(shown, could_be_tested, space))
        >>> trial = suggest(model, space, feasibility=feasibility)
        >>> best = recommend(model, space, feasibility=feasibility)
    """

    model: LatentGP
    probability: float = 0.5
    confidence: float = 0.5

    def __post_init__(self) -> None:
        check_kind("model", self.model, LatentGP)
        self._rows  # noqa: B018  checks the numbers

    @property
    def _rows(self) -> Safety:
        """The same restriction, for one row of a trial."""
        return Safety(self.probability, self.confidence)

    def slack(self, X: Tensor) -> Tensor:
        r"""The margin by which trials are feasible, in units of the model's ``f``.

        Args:
            X: ``t x batch_shape x q x d`` rows of trials.

        Returns:
            A ``t x batch_shape`` tensor; negative where they are not.
        """
        rows = X.movedim(-2, 0).unsqueeze(-2)  # q x t x batch_shape x 1 x d
        return self._rows.slack(self.model.eval(), rows).amin(dim=0)

    def slack_of_goal(self, goal: Goal, space: ContextSpace, x: Tensor) -> Tensor:
        r"""The margin by which parameters are feasible, in all contexts of a goal.

        Args:
            goal: What the parameters should be good at.
            space: The box of the trials.
            x: ``t x batch_shape x (d - m)`` parameters.

        Returns:
            A ``t x batch_shape`` tensor; negative where they are not.
        """
        return self.slack(goal.rows(space, x))


def feasibility_gp(
    train_X: Tensor,
    train_Y: Tensor,
    space: ContextSpace,
    input_transform: InputTransform | None = None,
) -> BinaryGP:
    r"""A model of which trials are feasible; it expects most of them to be.

    Args:
        train_X: The rows that were shown, ``batch_shape x n x d``; ``n`` may be zero.
            The two sides of a duel are two rows.
        train_Y: Whether they were feasible, ``batch_shape x n x 1``: 1 or 0.
        space: The box of the trials.
        input_transform: Applied to trials in this box, which it must not leave.

    Returns:
        The model, with a set of hyperparameters for each element of the batch.
    """
    mean = ConstantMean()
    mean.initialize(constant=PRIOR_MEAN).requires_grad_(False)
    kernel = default_covar_module(space.dim, train_X.shape[:-2])
    transform: InputTransform = Normalize(space.dim, bounds=space.bounds)
    if input_transform is not None:
        transform = ChainedInputTransform(first=input_transform, then=transform)
    return BinaryGP(
        train_X,
        train_Y,
        covar_module=kernel.to(train_X),
        mean_module=mean.to(train_X),
        input_transform=transform,
    )
