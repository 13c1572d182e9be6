r"""
The coordinates in which the default model of psychometric functions is stationary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.input import InputTransform, Normalize
from torch import Tensor

from botorch_binary_context.context import ContextSpace
from botorch_binary_context.errors import quote

# The most by which the combinations may stretch or shrink the parameters.
MAX_STRETCH = 1e6


def center_contexts(space: ContextSpace) -> Normalize:
    r"""An input transform of parameters to the unit cube, and of contexts to [-1, 1].

    Args:
        space: The box of the trials.
    """
    bounds = space.bounds.clone()
    columns = list(space.context_dims)
    # Normalizing from the middle with half the width gives -1 to 1.
    bounds[0, columns] = space.context_bounds.mean(dim=0)
    return Normalize(space.dim, bounds=bounds)


class CombineParameters(InputTransform):
    r"""Takes parameters ``x`` to combinations ``A x / w`` and contexts to [-1, 1].

    A kernel with a lengthscale for each column works best where each column acts on its
    own. Where parameters act together, as the sphere and cylinder of a lens do,
    combinations of them are better columns. They share one unit and so one width ``w``:
    the geometric mean of the parameters' ranges. The center of the box is mapped to
    zero.

    Example:
        >>> # The spherical equivalent S + C / 2, and the rest of the cylinder.
        >>> transform = CombineParameters(space, [[1.0, 0.5], [0.0, 0.5]])

    Attributes:
        unit: ``w``, in the parameters' own units.
    """

    center: Tensor
    weights: Tensor
    unit: Tensor

    def __init__(
        self, space: ContextSpace, combinations: Tensor | Sequence[Sequence[float]]
    ) -> None:
        r"""
        Args:
            space: The box of the trials.
            combinations: ``A``, an invertible ``(d - m) x (d - m)`` matrix with a row
                for each combination of the parameters in their own units.
        """
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        low, high = space.parameter_bounds
        A = check_combinations(combinations, len(low)).to(low)
        width = (high - low).log().mean().exp()
        smallest, largest = space.context_bounds
        columns = [*space.parameter_dims, *space.context_dims]
        blocks = torch.block_diag(A / width, torch.diag(2 / (largest - smallest)))
        weights = torch.empty_like(blocks)
        index = torch.tensor(columns, device=A.device)
        weights[index.unsqueeze(-1), index] = blocks
        self.register_buffer("center", space.bounds.mean(dim=0))
        self.register_buffer("weights", weights)
        self.register_buffer("unit", width, persistent=False)

    def transform(self, X: Tensor) -> Tensor:
        r"""The coordinates of trials.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A ``... x d`` tensor.
        """
        return (X - self.center) @ self.weights.mT

    def untransform(self, X: Tensor) -> Tensor:
        r"""The trials with given coordinates.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A ``... x d`` tensor.
        """
        return self.center + torch.linalg.solve(self.weights.mT, X, left=False)


def check_combinations(
    combinations: Tensor | Sequence[Sequence[float]], dim: int
) -> Tensor:
    r"""Raise an error unless combinations can replace parameters.

    Args:
        combinations: A row for each combination.
        dim: The number of parameters.

    Returns:
        The combinations as a ``dim x dim`` matrix in double precision.
    """
    expected = (
        f"Expected ``combinations`` to be an invertible {dim} x {dim} matrix of "
        f"numbers up to {MAX_STRETCH:g}, a row for each combination of the parameters"
    )
    device = getattr(combinations, "device", torch.get_default_device())
    try:
        A = torch.as_tensor(combinations, dtype=torch.double, device=device)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InputDataError(f"{expected}, but got {quote(combinations)}.") from error
    if A.shape != (dim, dim) or not _is_invertible(A):
        raise InputDataError(f"{expected}, but got {quote(A.tolist())}.")
    return A


def _is_invertible(A: Tensor) -> bool:
    """Whether the combinations can be inverted without losing many digits."""
    if not bool(A.isfinite().all()):
        return False
    stretch = torch.linalg.svdvals(A)
    return bool(((stretch < MAX_STRETCH) & (stretch > 1 / MAX_STRETCH)).all())
