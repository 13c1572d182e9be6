r"""Test functions of the benchmark table that BoTorch lacks or gives imprecisely."""

from botorch_binary_context.problems.functions.polynomial import (
    Colville,
    GoldsteinPrice,
    Perm0,
    PermD,
    RotatedHyperEllipsoid,
    Sphere,
    SumSquares,
    Trid,
)
from botorch_binary_context.problems.functions.precise import (
    PreciseEggHolder,
    PreciseHartmann,
    PreciseHolderTable,
    PreciseShekel,
    PreciseSixHumpCamel,
)
from botorch_binary_context.problems.functions.trigonometric import (
    Bohachevsky,
    CrossInTray,
    Forrester,
    GramacyLee,
    Langermann,
    Levy13,
    Schaffer4,
    Schwefel,
    Shubert,
    UrsemWaves,
)

__all__ = [
    "Bohachevsky",
    "Colville",
    "CrossInTray",
    "Forrester",
    "GoldsteinPrice",
    "GramacyLee",
    "Langermann",
    "Levy13",
    "Perm0",
    "PermD",
    "PreciseEggHolder",
    "PreciseHartmann",
    "PreciseHolderTable",
    "PreciseShekel",
    "PreciseSixHumpCamel",
    "RotatedHyperEllipsoid",
    "Schaffer4",
    "Schwefel",
    "Shubert",
    "Sphere",
    "SumSquares",
    "Trid",
    "UrsemWaves",
]
