r"""Arguments of wrong kinds: each is refused by its name, and nothing is NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError, InputDataError
from torch import Tensor

from botorch_binary_context import (
    BINARY_RULES,
    DUEL_RULES,
    AtContext,
    AveragedGP,
    BinaryGP,
    ContextSpace,
    PreferenceGP,
    ProbitLikelihood,
    SearchOptions,
    draw_optima,
    draw_sample_paths,
    recommend,
    recommend_for_contexts,
    suggest,
    uncertainty_of_answer,
    value_of_next_trial,
)
from botorch_binary_context.models.latent_gp import LatentGP

FAST = SearchOptions(num_restarts=1, raw_samples=4, max_evaluations=2)
BOUNDS = torch.tensor([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.double)
SPACE = ContextSpace(BOUNDS, [0], [0.5])
NAN = float("nan")
WRONG: list[Any] = [None, 1.5, "x", [1, 2], {}, object(), NAN, 10**400, torch.eye(2)]
OF_NO_KIND = [value for value in WRONG if value is not None]


def make_binary(*batch_shape: int) -> BinaryGP:
    X = torch.linspace(0.1, 0.9, 9, dtype=torch.double).reshape(3, 3).cos()
    Y = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double)
    return BinaryGP(X.expand(*batch_shape, 3, 3), Y.expand(*batch_shape, 3, 1))


def make_duels(*batch_shape: int) -> PreferenceGP:
    X = torch.linspace(0.0, 1.0, 18, dtype=torch.double).reshape(3, 2, 3).clone()
    X[:, 1, 0] = X[:, 0, 0]
    Y = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double)
    return PreferenceGP(
        X.expand(*batch_shape, 3, 2, 3), Y.expand(*batch_shape, 3, 1), context_dims=[0]
    )


MODEL = make_binary()
DUELS = make_duels()
X = torch.full((2, 3), 0.5, dtype=torch.double)
Y = torch.ones(2, 1, dtype=torch.double)
PAIRS = torch.full((2, 2, 3), 0.5, dtype=torch.double)

CALLS: list[tuple[str, Callable[[Any], Any], list[Any]]] = [
    ("model", lambda v: suggest(v, SPACE), WRONG),
    ("space", lambda v: suggest(MODEL, v), WRONG),
    ("rule", lambda v: suggest(MODEL, SPACE, v), WRONG),
    ("options", lambda v: suggest(MODEL, SPACE, options=v), WRONG),
    ("seed", lambda v: suggest(MODEL, SPACE, "random", seed=v), OF_NO_KIND),
    ("q", lambda v: suggest(MODEL, SPACE, "random", q=v), [*WRONG, 0, -1, True]),
    ("pending", lambda v: suggest(MODEL, SPACE, "random", pending=v), OF_NO_KIND[:-1]),
    ("goal", lambda v: suggest(MODEL, SPACE, "random", goal=v), OF_NO_KIND),
    ("context", lambda v: suggest(MODEL, SPACE, "random", context=v), OF_NO_KIND),
    ("model", lambda v: recommend(v, SPACE), WRONG),
    ("space", lambda v: recommend(MODEL, v), WRONG),
    ("options", lambda v: recommend(MODEL, SPACE, v), WRONG),
    ("seed", lambda v: recommend(MODEL, SPACE, FAST, seed=v), OF_NO_KIND),
    ("goal", lambda v: recommend(MODEL, SPACE, FAST, goal=v), OF_NO_KIND),
    ("X", MODEL.posterior, WRONG),
    ("X", DUELS.probability_posterior, WRONG),
    ("X", MODEL.posterior_mean, WRONG),
    ("X", MODEL.exact_posterior, WRONG),
    ("X", lambda v: MODEL.condition_on_observations(v, Y), WRONG),
    ("Y", lambda v: MODEL.condition_on_observations(X, v), WRONG),
    ("train_X", lambda v: BinaryGP(v, Y), WRONG[:-1]),
    ("train_Y", lambda v: BinaryGP(X, v), WRONG),
    ("train_X", lambda v: PreferenceGP(v, Y), WRONG),
    ("train_Y", lambda v: PreferenceGP(PAIRS, v), WRONG),
    ("context_dims", lambda v: ContextSpace(BOUNDS, v, [0.5]), WRONG[:3] + WRONG[5:]),
    ("reference_context", lambda v: ContextSpace(BOUNDS, [0], v), WRONG),
    ("num_restarts", lambda v: SearchOptions(num_restarts=v), [*WRONG, 0]),
    ("raw_samples", lambda v: SearchOptions(raw_samples=v), [*WRONG, 0]),
    ("max_evaluations", lambda v: SearchOptions(max_evaluations=v), WRONG),
    ("relative_gain", lambda v: SearchOptions(relative_gain=v), WRONG[2:]),
    ("guess_rate", lambda v: ProbitLikelihood(guess_rate=v), WRONG),
    ("num_paths", lambda v: draw_sample_paths(MODEL, v), [*WRONG, -1]),
    ("context", AtContext, WRONG[2:3] + WRONG[4:8]),
]


@pytest.mark.parametrize(
    ("name", "call", "values"),
    CALLS,
    ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CALLS)],
)
def test_wrong_kinds_are_refused_by_name(
    name: str, call: Callable[[Any], Any], values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(BotorchError, match=rf"Expected .*``{name}``"):
            call(value)


@pytest.mark.parametrize("model", [MODEL, DUELS], ids=["outcomes", "duels"])
def test_no_posterior_at_nan(model: LatentGP) -> None:
    for number in (NAN, float("inf")):
        points = torch.tensor([[0.1, 0.2, 0.3], [0.1, number, 0.3]]).double()
        for method in (
            model.posterior,
            model.posterior_mean,
            model.probability_posterior,
            model.exact_posterior,
        ):
            with pytest.raises(InputDataError, match=r"``X`` .* at index \[1, 1\]"):
                method(points)


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.cfloat])
def test_half_precision_is_refused_at_construction(dtype: torch.dtype) -> None:
    for make in (
        lambda: BinaryGP(X.to(dtype), Y.to(dtype)),
        lambda: PreferenceGP(PAIRS.to(dtype), Y.to(dtype)),
    ):
        with pytest.raises(InputDataError, match=str(dtype)):
            make()


def test_numbers_of_other_libraries_are_numbers() -> None:
    trial = suggest(MODEL, SPACE, "random", seed=3)
    same = suggest(MODEL, SPACE, "random", seed=np.int64(3), q=np.int32(1))  # type: ignore
    assert torch.equal(trial, same)


RULES = [(rule, make_binary) for rule in BINARY_RULES]
RULES += [(rule, make_duels) for rule in DUEL_RULES]


@pytest.mark.parametrize(("rule", "make"), RULES)
def test_no_experiments(rule: str, make: Callable[..., LatentGP]) -> None:
    model = make(0)
    trials = suggest(model, SPACE, rule, FAST, seed=0)
    assert trials.shape == (0, 1, *make().train_inputs[0].shape[1:])


def test_recommend_for_no_experiments() -> None:
    assert recommend(make_binary(0), SPACE, FAST).shape == (0, 2)


POINTS = torch.tensor([[0.2, 0.3, 0.4], [0.9, 0.1, 0.5]]).double()
COMPUTATIONS: dict[str, Callable[[LatentGP], Tensor]] = {
    "posterior": lambda model: model.posterior(POINTS).mean,
    "exact posterior": lambda model: model.exact_posterior(POINTS, 64).mean,
    "averaged": lambda model: AveragedGP(model, 4).exact_posterior(POINTS, 64).mean,
    "value of next trial": lambda model: value_of_next_trial(
        model, SPACE, options=FAST
    ),
    "uncertainty": lambda model: uncertainty_of_answer(model, SPACE),
    "for contexts": lambda model: recommend_for_contexts(model, SPACE, [0.2], FAST),
    "losses": lambda model: (
        draw_optima(
            AveragedGP(model, 4), SPACE, recommend(model, SPACE, FAST), num_draws=8
        ).losses
    ),
}


class TestInferenceMode:
    @pytest.mark.parametrize(("rule", "make"), RULES)
    def test_suggestion_is_the_same_as_outside(
        self, rule: str, make: Callable[[], LatentGP]
    ) -> None:
        """The same trial as outside, whether the model was made inside or not."""
        expected = suggest(make(), SPACE, rule, FAST, seed=0)
        model = make()
        with torch.inference_mode():
            assert torch.equal(suggest(model, SPACE, rule, FAST, seed=0), expected)

    def test_model_made_inside(self) -> None:
        expected = recommend(make_binary(), SPACE, FAST)
        trial = suggest(make_binary(), SPACE, "ucb-ald", FAST, seed=0)
        with torch.inference_mode():
            model = make_binary()
            found: list[Tensor] = [
                recommend(model, SPACE, FAST),
                suggest(model, SPACE, "ucb-ald", FAST, seed=0),
            ]
        found.append(recommend(model, SPACE, FAST))
        assert torch.allclose(found[0], expected)
        assert torch.allclose(found[1], trial)
        assert torch.allclose(found[2], expected)

    @pytest.mark.parametrize("is_made_inside", [False, True])
    @pytest.mark.parametrize("compute", COMPUTATIONS.values(), ids=COMPUTATIONS)
    def test_what_follows_from_a_model(
        self, compute: Callable[[LatentGP], Tensor], is_made_inside: bool
    ) -> None:
        """The same as outside, and what was kept can be used there afterwards."""
        expected = compute(make_binary())
        model = make_binary()
        with torch.inference_mode():
            if is_made_inside:
                model = make_binary()
            inside = compute(model)
        assert torch.allclose(inside, expected)
        assert torch.allclose(compute(model), expected)
