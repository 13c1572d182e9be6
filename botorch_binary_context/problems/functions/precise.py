r"""
Test functions of BoTorch with all the digits of double precision.

BoTorch gives some optima to four to six decimals, so that a search can end up better
than the optimum. It gives none for the Hartmann function of four variables. Its
Hartmann and Shekel functions keep their coefficients in single precision: values are
off by up to 5e-8. The functions themselves are BoTorch's.
"""

from __future__ import annotations

from typing import Any

from botorch.test_functions.synthetic import (
    EggHolder,
    Hartmann,
    HolderTable,
    Shekel,
    SixHumpCamel,
    SyntheticTestFunction,
)
from torch import Tensor


def _restore_decimals(function: SyntheticTestFunction, name: str) -> None:
    """Undo the rounding to single precision of coefficients with two decimals."""
    coefficients = function.get_buffer(name).to(function.get_buffer("bounds"))
    function.register_buffer(name, (100 * coefficients).round() / 100)


class PreciseEggHolder(EggHolder):
    r"""Eggholder function with its optimum in full."""

    _optimal_value = -959.640662720851
    _optimizers = [(512.0, 404.2318051137578)]


class PreciseHolderTable(HolderTable):
    r"""Holder table function with its optimum in full."""

    _optimal_value = -19.208502567886732
    _optimizers = [
        (8.055023475736563, 9.664590019241272),
        (-8.055023475736563, -9.664590019241272),
        (-8.055023475736563, 9.664590019241272),
        (8.055023475736563, -9.664590019241272),
    ]


class PreciseSixHumpCamel(SixHumpCamel):
    r"""Six-hump camel function with its optimum in full."""

    _optimal_value = -1.0316284534898774
    _optimizers = [
        (0.08984201310031806, -0.7126564030207396),
        (-0.08984201310031806, 0.7126564030207396),
    ]


class PreciseHartmann(Hartmann):
    r"""Hartmann function of 3, 4 or 6 variables, coefficients and optimum in full.

    Example:
        >>> function = PreciseHartmann(dim=4)
        >>> function(function.optimizers)  # -3.1345
    """

    _optimal_values = {
        3: -3.862779787332663,
        4: -3.134494141222399,
        6: -3.322368011415515,
    }
    _minimizers = {
        3: (0.11458887665506896, 0.5556488946169301, 0.8525469846866774),
        4: (
            0.1873952729734667,
            0.19415152930244078,
            0.5579177800625691,
            0.26477962417039713,
        ),
        6: (
            0.20168951100670543,
            0.15001069182345797,
            0.47687397422189703,
            0.2753324304940561,
            0.31165161660011326,
            0.6573005340656204,
        ),
    }

    def __init__(self, dim: int = 6, **kwargs: Any) -> None:
        r"""
        Args:
            dim: The number of variables.
            kwargs: The arguments of ``Hartmann``.
        """
        super().__init__(dim=dim, **kwargs)
        self._optimal_value = self._optimal_values[dim]
        self._optimizers = [self._minimizers[dim]]
        minimizer = self.get_buffer("bounds").new_tensor(self._optimizers)
        self.register_buffer("_minimizer", minimizer)
        _restore_decimals(self, "ALPHA")
        _restore_decimals(self, "A")

    @property
    def optimizers(self) -> Tensor:
        """The ``1 x d`` minimizer, which BoTorch refuses to give in four variables."""
        return self.get_buffer("_minimizer")


class PreciseShekel(Shekel):
    r"""Shekel function of ten terms, coefficients and optimum in full."""

    _optimizers = [
        (
            4.000746868270634,
            3.9995094800857736,
            4.000746868270634,
            3.9995094800857736,
        )
    ]

    def __init__(self, **kwargs: Any) -> None:
        r"""
        Args:
            kwargs: The arguments of ``Shekel``.
        """
        super().__init__(m=10, **kwargs)
        self._optimal_value = -10.53644315348353
        _restore_decimals(self, "C")
