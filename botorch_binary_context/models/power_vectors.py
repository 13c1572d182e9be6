r"""
The power vector of a spherocylindrical lens, as coordinates of models.

.. [Thibos1997power]
    L. N. Thibos, W. Wheeler, D. Horner. Power vectors: an application of Fourier
    analysis to the description and statistical analysis of refractive error. Optometry
    and Vision Science 74, 1997.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor

#: The spherical equivalent ``M = S + C/2`` and the cross-cylinder ``J = C/2`` of a lens
#: as combinations of its sphere and cylinder: blur is ``√(M² + J²)``.
SPHERE_AND_CYLINDER = ((1.0, 0.5), (0.0, 0.5))


def power_vector(lenses: Tensor) -> Tensor:
    r"""``M = S + C/2``, ``J0 = -C/2 cos 2α`` and ``J45 = -C/2 sin 2α``.

    Args:
        lenses: A ``... x 3`` tensor of sphere and cylinder, in diopters, and axis, in
            degrees.

    Returns:
        A ``... x 3`` tensor in diopters.
    """
    sphere, cylinder, axis = lenses.unbind(dim=-1)
    half = cylinder / 2
    angle = axis * (math.pi / 90)
    return torch.stack(
        [sphere + half, -half * angle.cos(), -half * angle.sin()], dim=-1
    )


class PowerVectors(InputTransform):
    r"""An input transform of sphere, cylinder and axis, in [0, 1], to a power vector.

    The components have the same unit and so the same width: the geometric mean of the
    ranges of sphere and cylinder. The middle of the spherical equivalent is mapped to
    zero [Thibos1997power]_.

    Example:
        >>> transform = PowerVectors(1, sphere=(-6.0, 6.0), cylinder=(-4.0, 0.0))
        >>> transform(X)  # column 0 stays, columns 1 to 3 become M, J0 and J45
    """

    low: Tensor
    width: Tensor

    def __init__(
        self, column: int, sphere: Sequence[float], cylinder: Sequence[float]
    ) -> None:
        r"""
        Args:
            column: The first of the three columns.
            sphere: The sphere at 0 and at 1, in diopters.
            cylinder: The cylinder at 0 and at 1.
        """
        super().__init__()
        self.transform_on_train = True
        self.transform_on_eval = True
        self.transform_on_fantasize = True
        self.column = column
        bounds = torch.tensor(
            [list(sphere), list(cylinder), [0.0, 180.0]],
            dtype=torch.float64,
            device="cpu",
        )
        self.register_buffer("low", bounds[:, 0])
        self.register_buffer("width", bounds[:, 1] - bounds[:, 0])

    @property
    def unit(self) -> Tensor:
        """The width that the components share, in diopters."""
        return (self.width[0] * self.width[1]).sqrt()

    @property
    def center(self) -> Tensor:
        """The power vector that is mapped to zero: no astigmatism, the middle ``M``."""
        middle = (self.low + self.width / 2)[:2]
        M = middle[0] + middle[1] / 2
        return torch.stack([M, torch.zeros_like(M), torch.zeros_like(M)])

    def transform(self, X: Tensor) -> Tensor:
        r"""The coordinates of trials.

        Args:
            X: A ``... x d`` tensor.

        Returns:
            A ``... x d`` tensor.
        """
        before, lenses, after = self._split(X)
        vectors = power_vector(self.low.to(X) + lenses * self.width.to(X))
        scaled = (vectors - self.center.to(X)) / self.unit.to(X)
        return torch.cat([before, scaled, after], dim=-1)

    def transform_box(self, bounds: Tensor) -> Tensor:
        r"""The smallest box around the power vectors of a box of trials with any axis.

        Args:
            bounds: A ``2 x d`` tensor.

        Returns:
            A ``2 x d`` tensor.
        """
        before, lenses, after = self._split(bounds)
        powers = (self.low.to(bounds) + lenses * self.width.to(bounds))[:, :2]
        M = powers[:, :1] + powers[:, 1:] / 2
        J = powers[:, 1:].abs().amax(dim=0, keepdim=True) / 2
        crossed = torch.cat([-J, J]).expand(2, 2)
        vectors = torch.cat([M, crossed], dim=-1) - self.center.to(bounds)
        return torch.cat([before, vectors / self.unit.to(bounds), after], dim=-1)

    def _split(self, X: Tensor) -> tuple[Tensor, ...]:
        sizes = [self.column, 3, X.shape[-1] - self.column - 3]
        return X.split(sizes, dim=-1)
