r"""The trials that rules suggest are the best by their criterion."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from botorch_binary_context import (
    AdditiveContextKernel,
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    BinaryUpperConfidenceBound,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    GradientInformation,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    PreferenceLaplaceGP,
    SearchOptions,
    TargetedInformation,
    recommend,
    suggest,
)
from botorch_binary_context.rules import (
    Selection,
    most_informative,
)
from tests.rules.problems import (
    SPACE,
    context_model,
    deterministic_rules,
    element_of,
    unit_grid,
)
from tests.small_models import AnyModel, ModelClass, simple_kernel
from tests.tensors import double

Score = Callable[[AnyModel, Tensor], Tensor]


def in_reference(trial: Tensor) -> Tensor:
    """The same parameters in the reference context."""
    return SPACE.at_reference(SPACE.parameters(trial))


def ucb(model: AnyModel, trial: Tensor) -> Tensor:
    return BinaryUpperConfidenceBound(model).evaluate(in_reference(trial))


def bold_ucb(model: AnyModel, trial: Tensor) -> Tensor:
    beta = float(norm.ppf(0.99))
    return BinaryUpperConfidenceBound(model, beta).evaluate(in_reference(trial))


def latent_ucb(model: AnyModel, trial: Tensor) -> Tensor:
    return LatentUpperConfidenceBound(model).evaluate(in_reference(trial))


def information(model: AnyModel, trial: Tensor) -> Tensor:
    return BernoulliMutualInformation(model).evaluate(trial)


def targeted(model: AnyModel, trial: Tensor) -> Tensor:
    """What a trial tells about its own parameters in the reference context."""
    rows = in_reference(trial).reshape(-1, *trial.shape[-2:])[0]
    return TargetedInformation(model, rows).evaluate(trial)


def knowledge_gradient(model: AnyModel, trial: Tensor) -> Tensor:
    return ContextualBinaryKnowledgeGradient(model, SPACE).evaluate(trial)


def gradient(model: AnyModel, trial: Tensor) -> Tensor:
    return GradientInformation(model, SPACE).evaluate(trial)


def challenge(model: AnyModel, trial: Tensor) -> Tensor:
    """How uncertain the duel with the incumbent is; every trial has the same one."""
    incumbent = SPACE.at_reference(recommend(model, SPACE))
    acqf = MaximallyUncertainChallenge(model, incumbent)
    return acqf.evaluate(in_reference(trial[..., :1, :]))


# What the first and what the second stage maximize.
SCORES: dict[str, tuple[Score, ...]] = {
    "ucb-ald": (ucb, information),
    "ucb99-ald": (bold_ucb, information),
    "lucb-ald": (latent_ucb, information),
    "ucb-fixed": (ucb,),
    "ucb-target": (ucb, targeted),
    "ucb99-target": (bold_ucb, targeted),
    "cbkg": (knowledge_gradient,),
    "kg": (knowledge_gradient,),
    "gradient": (gradient,),
    "bald": (information,),
    "muc-ald": (challenge, information),
    "muc-fixed": (challenge,),
    "muc-target": (challenge, targeted),
}


@deterministic_rules
def test_batch_reaches_what_elements_reach(model_class: ModelClass, rule: str) -> None:
    model = context_model(model_class, batch_shape=(4,))
    trials = suggest(model, SPACE, rule, seed=3)
    for i in range(4):
        alone = element_of(model, i)
        trial = suggest(alone, SPACE, rule, seed=3)
        for score in SCORES[rule]:
            with torch.no_grad():
                torch.testing.assert_close(
                    score(alone, trials[i]), score(alone, trial), rtol=1e-6, atol=0
                )


class TestMaximum:
    """No point of a dense grid is better than the trial."""

    def trials_on_grid(self, model_class: ModelClass) -> Tensor:
        """One context and the parameters of one or two sides."""
        if model_class is BinaryLaplaceGP:
            return unit_grid(61, 2).unsqueeze(-2)
        s, first, second = unit_grid(17, 3).unbind(dim=-1)
        sides = [torch.stack([s, x], dim=-1) for x in (first, second)]
        return torch.stack(sides, dim=-2)

    @deterministic_rules
    @pytest.mark.parametrize("n", [3, 30])
    def test_trial_of_every_rule_is_the_best_of_a_grid(
        self, model_class: ModelClass, rule: str, n: int
    ) -> None:
        model = context_model(model_class, n=n, seed=n)
        trial = suggest(model, SPACE, rule, seed=0)
        first, *second = SCORES[rule]
        with torch.no_grad():
            best = first(model, self.trials_on_grid(model_class)).max()
            assert first(model, trial) >= best - 1e-7
            if second:  # the context, given the parameters of the trial
                contexts = torch.linspace(0, 1, 201).double().reshape(-1, 1, 1)
                same = SPACE.join(SPACE.parameters(trial), contexts)
                assert second[0](model, trial) >= second[0](model, same).max() - 1e-7

    def test_incumbent_of_uncertain_challenge(self) -> None:
        model = context_model(PreferenceLaplaceGP)
        for rule in ("muc-ald", "muc-random"):
            duel = suggest(model, SPACE, rule, seed=0)
            torch.testing.assert_close(
                SPACE.parameters(duel)[0, 1], recommend(model, SPACE), rtol=0, atol=1e-6
            )


@pytest.mark.parametrize(
    ("model_class", "ald", "random"),
    [
        (BinaryLaplaceGP, "ucb-ald", "ucb-random"),
        (BinaryLaplaceGP, "ts-ald", "ts-random"),
        (PreferenceLaplaceGP, "muc-ald", "muc-random"),
        (PreferenceLaplaceGP, "kss-ald", "kss-random"),
    ],
)
def test_ald_is_more_informative_than_a_random_context(
    model_class: ModelClass, ald: str, random: str
) -> None:
    """Under one seed both choose the same parameters; then the context decides."""
    model = context_model(model_class, batch_shape=(20,))
    informative, arbitrary = (suggest(model, SPACE, r, seed=1) for r in (ald, random))
    parameters = SPACE.parameters(informative), SPACE.parameters(arbitrary)
    torch.testing.assert_close(*parameters, rtol=0, atol=1e-9)
    gain = information(model, informative) - information(model, arbitrary)
    assert (gain >= -1e-9).all()
    assert gain.mean() > 0.01
    contexts = arbitrary[:, 0, 0]
    assert 0.3 < contexts.mean() < 0.7
    assert contexts.std() > 0.15


def test_an_informative_context_inside_the_box() -> None:
    """With a threshold as context the most informative test is near the threshold."""
    kernel = AdditiveContextKernel(simple_kernel(dim=1), context_dims=[0])
    kernel.context_variance = 4.0
    # Passed at -1.2 and below, failed at -0.8 and above: one knows where to ask.
    s = double([-3.0, -2.0, -1.2, -0.8, 0.0, 1.0]).repeat(10)
    X = torch.stack([s, torch.full_like(s, 0.5)], dim=-1)
    Y = (s < -1).double().unsqueeze(-1)
    model = BinaryLaplaceGP(X, Y, covar_module=kernel)
    space = ContextSpace(double([[-3.0, 0.0], [3.0, 1.0]]), [0], [0.0])
    selection = Selection(model, space, SearchOptions())
    context = most_informative(selection, double([[0.5]]))
    grid = torch.linspace(-3, 3, 1001).double()
    trials = torch.stack([grid, torch.full_like(grid, 0.5)], dim=-1).unsqueeze(-2)
    expected = grid[information(model, trials).argmax()]
    torch.testing.assert_close(context, expected.reshape(1), rtol=0, atol=6e-3)
