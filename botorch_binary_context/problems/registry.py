r"""
The 34 benchmark functions of [Fauvel2022contextual]_ with their boxes and kernels.

:func:`make_objective` negates a function, so that it is maximized, and scales it to
mean 0 and variance 1 over its box. The authors' programs first take the logarithm of 17
of them, those with positive values and a variance above 100, which the paper does not
mention. The logarithm makes the optimum infinite where the minimum is 0, so ``log1p``
takes its place here: it has the same shape where values are large, and stays finite.

The paper's table swaps the two variables of Ursem Waves; here they stand in the order
of the function's definition.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from botorch.exceptions import InputDataError
from botorch.test_functions.synthetic import (
    Ackley,
    Beale,
    DixonPrice,
    DropWave,
    Griewank,
    Levy,
    Powell,
    Rosenbrock,
    SyntheticTestFunction,
    ThreeHumpCamel,
)

from botorch_binary_context.problems.functions import (
    Bohachevsky,
    Colville,
    CrossInTray,
    Forrester,
    GoldsteinPrice,
    GramacyLee,
    Langermann,
    Levy13,
    Perm0,
    PermD,
    PreciseEggHolder,
    PreciseHartmann,
    PreciseHolderTable,
    PreciseShekel,
    PreciseSixHumpCamel,
    RotatedHyperEllipsoid,
    Schaffer4,
    Schwefel,
    Shubert,
    Sphere,
    SumSquares,
    Trid,
    UrsemWaves,
)
from botorch_binary_context.problems.objective import ScaledObjective

MOMENTS_PATH = Path(__file__).with_name("moments.json")
SE_ARD, MATERN_32, MATERN_52 = "SE-ARD", "Matérn 3/2", "Matérn 5/2"

Box = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Benchmark:
    r"""A row of the benchmark table.

    Attributes:
        name: The name in the paper.
        function: Makes the function, in the form to be minimized.
        box: The lower and upper bound of every variable.
        kernel: The kernel that the paper chose: ``"SE-ARD"``, ``"Matérn 3/2"`` or
            ``"Matérn 5/2"``.
        log: Whether the authors take the logarithm.
    """

    name: str
    function: Callable[..., SyntheticTestFunction]
    box: Box
    kernel: str
    log: bool = False

    @property
    def dim(self) -> int:
        """The number of variables."""
        return len(self.box)

    def make_function(self) -> SyntheticTestFunction:
        """The function on its box, in the form to be minimized."""
        return self.function(bounds=list(self.box))


def _cube(low: float, high: float, dim: int = 2) -> Box:
    return ((low, high),) * dim


_TABLE = (
    Benchmark("Ackley", Ackley, _cube(-32.768, 32.768), MATERN_32),
    Benchmark("Beale", Beale, _cube(-4.5, 4.5), SE_ARD, log=True),
    Benchmark("Bohachevsky", Bohachevsky, _cube(-100.0, 100.0), SE_ARD, log=True),
    Benchmark(
        "Three-Hump Camel", ThreeHumpCamel, _cube(-5.0, 5.0), MATERN_52, log=True
    ),
    Benchmark(
        "Six-Hump Camel", PreciseSixHumpCamel, ((-3.0, 3.0), (-2.0, 2.0)), SE_ARD
    ),
    Benchmark("Colville", Colville, _cube(-10.0, 10.0, dim=4), MATERN_52, log=True),
    Benchmark("Cross-in-Tray", CrossInTray, _cube(-10.0, 10.0), MATERN_52),
    Benchmark("Dixon-Price", DixonPrice, _cube(-5.0, 5.0), MATERN_52, log=True),
    Benchmark("Drop-Wave", DropWave, _cube(-5.12, 5.12), MATERN_32),
    Benchmark("Eggholder", PreciseEggHolder, _cube(-512.0, 512.0), SE_ARD),
    Benchmark("Forrester et al (2008)", Forrester, _cube(0.0, 1.0, dim=1), SE_ARD),
    Benchmark("Goldstein-Price", GoldsteinPrice, _cube(-2.0, 2.0), SE_ARD, log=True),
    Benchmark("Griewank", Griewank, _cube(-600.0, 600.0), SE_ARD, log=True),
    Benchmark("Gramacy and Lee (2012)", GramacyLee, _cube(0.5, 2.5, dim=1), SE_ARD),
    Benchmark(
        "Hartmann 3-D", partial(PreciseHartmann, 3), _cube(0.0, 1.0, dim=3), SE_ARD
    ),
    Benchmark(
        "Hartmann 4D", partial(PreciseHartmann, 4), _cube(0.0, 1.0, dim=4), SE_ARD
    ),
    Benchmark(
        "Hartmann 6D", partial(PreciseHartmann, 6), _cube(0.0, 1.0, dim=6), SE_ARD
    ),
    Benchmark("Holder", PreciseHolderTable, _cube(-10.0, 10.0), SE_ARD),
    Benchmark("Langer", Langermann, _cube(0.0, 10.0), MATERN_32),
    Benchmark("Levy", Levy, _cube(-10.0, 10.0), SE_ARD, log=True),
    Benchmark("Levy N.13", Levy13, _cube(-10.0, 10.0), MATERN_52, log=True),
    Benchmark("Perm 0,d,β", Perm0, _cube(-2.0, 2.0), SE_ARD, log=True),
    Benchmark("Perm d,β", PermD, _cube(-2.0, 2.0), SE_ARD, log=True),
    Benchmark("Powell", Powell, _cube(-4.0, 5.0, dim=4), SE_ARD, log=True),
    Benchmark("Rosenbrock", Rosenbrock, _cube(-2.048, 2.048), SE_ARD, log=True),
    Benchmark(
        "Rotated Hyper-Ellipsoid",
        RotatedHyperEllipsoid,
        _cube(-65.536, 65.536),
        MATERN_32,
        log=True,
    ),
    Benchmark("Schaffer n4", Schaffer4, _cube(-100.0, 100.0), MATERN_32),
    Benchmark("Schwefel", Schwefel, _cube(-500.0, 500.0), SE_ARD, log=True),
    Benchmark("Shekel", PreciseShekel, _cube(0.0, 10.0, dim=4), SE_ARD),
    Benchmark("Schubert", Shubert, _cube(0.0, 10.0), MATERN_32),
    Benchmark("Sphere", Sphere, _cube(-5.12, 5.12), SE_ARD, log=True),
    Benchmark("Sum Squares", SumSquares, _cube(-10.0, 10.0), SE_ARD, log=True),
    Benchmark("Trid", Trid, _cube(-4.0, 4.0), SE_ARD),
    Benchmark("Ursem Waves", UrsemWaves, ((-0.9, 1.2), (-1.2, 1.2)), SE_ARD),
)
#: The rows of the table by name, in the order of the table.
BENCHMARKS = {benchmark.name: benchmark for benchmark in _TABLE}


def get_benchmark(name: str) -> Benchmark:
    r"""A row of the benchmark table.

    Args:
        name: The name in the paper.
    """
    if name not in BENCHMARKS:
        raise InputDataError(
            f"Expected ``name`` to be one of {list(BENCHMARKS)}, but got {name!r}."
        )
    return BENCHMARKS[name]


@cache
def _load_moments() -> dict[str, dict[str, dict[str, float]]]:
    """Mean and variance of the objectives, plain and logged, by benchmark."""
    return json.loads(MOMENTS_PATH.read_text(encoding="utf-8"))


def make_objective(name: str, log: bool = True) -> ScaledObjective:
    r"""A benchmark function to be maximized, with mean 0 and variance 1.

    Args:
        name: The name in the paper.
        log: Whether to take ``log1p`` of the functions whose logarithm the authors
            take; no other function changes.

    Example:
        >>> objective = make_objective("Goldstein-Price")
        >>> objective(objective.function.optimizers)  # objective.optimal_value
    """
    benchmark = get_benchmark(name)
    log = log and benchmark.log
    moments = _load_moments()[name]["log1p" if log else "plain"]
    return ScaledObjective(benchmark.make_function(), log=log, **moments)
