r"""
Simulated experiments: benchmark functions seen through the outcomes of tests.

    >>> objective = make_objective("Hartmann 3-D")
    >>> problem = ThresholdContextProblem(objective)
    >>> X = problem.space.at_reference(torch.rand(5, 3, dtype=torch.double))
    >>> Y = problem.observe(X)  # labels 0 and 1
    >>> problem.optimal_score - problem.score(X[:, 1:])  # the regrets
"""

from botorch_binary_context.problems.answers import AnsweringProblem, name_winners
from botorch_binary_context.problems.contexts import (
    BenchmarkProblem,
    BinaryContextProblem,
    ContextProblem,
    DuelContextProblem,
    ThresholdContextProblem,
)
from botorch_binary_context.problems.objective import ScaledObjective
from botorch_binary_context.problems.refraction import (
    POWER_VECTOR,
    RefractionProblem,
    blur,
    visual_acuity,
)
from botorch_binary_context.problems.registry import (
    BENCHMARKS,
    Benchmark,
    get_benchmark,
    make_objective,
)

__all__ = [
    "BENCHMARKS",
    "POWER_VECTOR",
    "AnsweringProblem",
    "Benchmark",
    "BenchmarkProblem",
    "BinaryContextProblem",
    "ContextProblem",
    "DuelContextProblem",
    "RefractionProblem",
    "ScaledObjective",
    "ThresholdContextProblem",
    "blur",
    "get_benchmark",
    "make_objective",
    "name_winners",
    "visual_acuity",
]
