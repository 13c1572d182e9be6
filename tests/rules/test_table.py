r"""The tables of rules."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from botorch_binary_context import (
    BINARY_RULES,
    DUEL_RULES,
    BinaryLaplaceGP,
    ContextSpace,
    PreferenceLaplaceGP,
    recommend,
    suggest,
)
from botorch_binary_context.rules import (
    Selection,
    TwoStages,
    at_reference,
)
from tests.rules.problems import (
    SPACE,
    both_models,
    context_model,
)
from tests.small_models import ModelClass
from tests.tensors import double


def by_posterior_mean(selection: Selection) -> Tensor:
    return selection.maximize_parameters(
        lambda X: selection.model.posterior_mean(X).squeeze(-1)
    )


class TestTable:
    def test_tables_hold_exactly_the_known_rules(self) -> None:
        assert set(BINARY_RULES) == {
            "ucb-ald",
            "ts-ald",
            "cbkg",
            "mkg",
            "ucb-random",
            "ts-random",
            "bald",
            "random",
            "map-mi",
            "map-eavc",
            "map-straddle",
            "cjes",
            "gradient",
            "ucb-fixed",
            "ts-fixed",
            "lucb-ald",
            "ucb99-ald",
            "ucb-target",
            "ucb99-target",
        }
        assert set(DUEL_RULES) == {
            "muc-ald",
            "kss-ald",
            "muc-random",
            "kss-random",
            "eubo-ald",
            "eubo-random",
            "hb-ald",
            "hb-random",
            "bald",
            "random",
            "kg",
            "mkg",
            "cjes",
            "gradient",
            "muc-fixed",
            "muc-target",
        }

    def test_default_rule_is_ucb_ald(self) -> None:
        model = context_model(BinaryLaplaceGP)
        expected = suggest(model, SPACE, "ucb-ald", seed=0)
        assert torch.equal(suggest(model, SPACE, seed=0), expected)

    def test_a_new_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A rule by the posterior mean, in the reference context."""
        rule = TwoStages(by_posterior_mean, at_reference)
        assert repr(rule) == "TwoStages(by_posterior_mean, at_reference)"
        monkeypatch.setitem(BINARY_RULES, "mean-fixed", rule)
        model = context_model(BinaryLaplaceGP, batch_shape=(2,))
        trial = suggest(model, SPACE, "mean-fixed", seed=0)
        expected = SPACE.at_reference(recommend(model, SPACE)).unsqueeze(-2)
        torch.testing.assert_close(trial, expected, rtol=0, atol=1e-6)
        assert torch.equal(suggest(model, SPACE, rule, seed=0), trial)

    def test_a_rule_with_a_wrong_result(self) -> None:
        rule = TwoStages(by_posterior_mean, at_reference)
        model = context_model(PreferenceLaplaceGP, batch_shape=(3,))
        message = r"``rule`` to return .* \[3, 2, 2\], but got \[3, 1, 2\]"
        with pytest.raises(UnsupportedError, match=message):
            suggest(model, SPACE, rule)
        with pytest.raises(UnsupportedError, match="``rule`` to be a rule, .* got 7"):
            suggest(model, SPACE, 7)  # pyright: ignore[reportArgumentType]

    def test_a_row_of_a_whole_trial(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(
            BINARY_RULES,
            "middle",
            lambda selection: selection.space.bounds.mean(0, True),
        )
        trial = suggest(context_model(BinaryLaplaceGP), SPACE, "middle")
        assert torch.equal(trial, double([[0.5, 0.5]]))

    def test_unknown_rule(self) -> None:
        for model_class, kind, rules in (
            (BinaryLaplaceGP, "pass/fail outcomes", BINARY_RULES),
            (PreferenceLaplaceGP, "duels", DUEL_RULES),
        ):
            message = (
                f"Expected ``rule`` to be a rule for {kind}, one of "
                f"{', '.join(rules)}, but got 'ucb'"
            )
            with pytest.raises(UnsupportedError, match=message):
                suggest(context_model(model_class), SPACE, "ucb")

    def test_rule_of_the_other_kind(self) -> None:
        with pytest.raises(UnsupportedError, match="but got 'muc-ald'"):
            suggest(context_model(BinaryLaplaceGP), SPACE, "muc-ald")
        with pytest.raises(UnsupportedError, match="but got 'ucb-ald'"):
            suggest(context_model(PreferenceLaplaceGP), SPACE)

    @both_models
    def test_wrong_space(self, model_class: ModelClass) -> None:
        space = ContextSpace(torch.stack([torch.zeros(3), torch.ones(3)]).double())
        model = context_model(model_class)
        message = "Expected ``space`` to have the 2 columns .* but got 3"
        with pytest.raises(InputDataError, match=message):
            suggest(model, space, "random")
        with pytest.raises(InputDataError, match=message):
            recommend(model, space)
