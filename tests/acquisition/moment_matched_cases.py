r"""Models for the tests of moment-matched knowledge gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from gpytorch.means import ConstantMean

from botorch_binary_context import (
    BinaryLaplaceGP,
    MixedGP,
    MomentMatchedKnowledgeGradient,
    Observations,
    PreferenceLaplaceGP,
    PreferenceLikelihood,
    ProbitLikelihood,
)
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
)
from tests.acquisition.problems import (
    KINDS,
    Problem,
)
from tests.small_models import MODEL_CLASSES
from tests.tensors import double

both_models = pytest.mark.parametrize("model_class", MODEL_CLASSES)


def by_laplace(problem: Problem) -> MomentMatchedKnowledgeGradient:
    return MomentMatchedKnowledgeGradient(problem.model, problem.space)


def by_ep(problem: Problem) -> MomentMatchedKnowledgeGradient:
    model = problem.model.with_inference(ExpectationPropagation())
    return MomentMatchedKnowledgeGradient(model, problem.space)


@dataclass(frozen=True)
class Case:
    """A problem, the rates of its pass/fail trials, and whether it has both kinds.

    Candidates are trials of the problem's own kind.
    """

    problem: Problem
    rates: tuple[float, float] = (0.0, 0.0)
    mixed: bool = False
    mean: float = 0.0

    @property
    def duels(self) -> bool:
        return self.problem.rows_per_trial == 2

    @property
    def asked_rates(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.duels else self.rates

    def observations(self, duels: bool) -> Observations:
        """The trials of one kind."""
        model_class = PreferenceLaplaceGP if duels else BinaryLaplaceGP
        X, Y = replace(self.problem, model_class=model_class).element_trials(0)
        if duels:
            return Observations(X, Y, PreferenceLikelihood())
        return Observations(X.squeeze(-2), Y, ProbitLikelihood(*self.rates))

    def model(self, inference: Inference) -> MixedGP:
        kinds = [False, True] if self.mixed else [self.duels]
        observations = [self.observations(duels) for duels in kinds]
        mean_module = ConstantMean().double()
        mean_module.constant = double(self.mean)
        kernel = self.problem.kernel
        model = MixedGP(observations, kernel, mean_module, inference=inference)
        return model.asking(int(self.mixed and self.duels))


DUELS = PreferenceLaplaceGP


CASES = {
    **{kind: Case(Problem(kind, 2)) for kind in KINDS},
    **{f"duels {kind}": Case(Problem(kind, 2, DUELS)) for kind in KINDS},
    "one parameter": Case(Problem("product", 1)),
    "duels in one parameter": Case(Problem("product", 1, DUELS)),
    "two choices": Case(Problem("product", 2), (0.5, 0.0)),
    "guesses and lapses": Case(Problem("additive", 1), (0.25, 0.05), mean=0.7),
    "two contexts": Case(Problem("multiplicative", 2, contexts=2), (0.25, 0.05)),
    "three contexts": Case(Problem("product", 1, contexts=3)),
    "duels in two contexts": Case(Problem("product", 2, DUELS, contexts=2)),
    "no data": Case(Problem("additive", 2, n=0), (0.5, 0.0), mean=0.3),
    "more data": Case(Problem("product", 2, n=40), (0.25, 0.05)),
    "mixed, an outcome": Case(Problem("product", 1), (0.25, 0.05), mixed=True),
    "mixed, a duel": Case(Problem("product", 1, DUELS), (0.25, 0.05), mixed=True),
    "mixed, two contexts": Case(
        Problem("additive", 2, DUELS, contexts=2), (0.5, 0.0), mixed=True
    ),
}
