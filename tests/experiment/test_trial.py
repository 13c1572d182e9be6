r"""Tests of trials."""

from __future__ import annotations

import pytest
from botorch.exceptions import UnsupportedError

from botorch_binary_context.experiment import Trial

ALONE = Trial(1, {"noise": 2.0}, ({"gain": 1.0},), "ucb-ald", "now")
DUEL = Trial(2, {"noise": 2.0}, ({"gain": 1.0}, {"gain": 3.0}), "muc-ald", "now")


def test_values_join_the_context_and_the_parameters() -> None:
    assert ALONE.values == {"noise": 2.0, "gain": 1.0}
    assert ALONE.parameters == {"gain": 1.0}
    assert DUEL.values == {"noise": 2.0, "first.gain": 1.0, "second.gain": 3.0}
    assert (DUEL.first, DUEL.second) == ({"gain": 1.0}, {"gain": 3.0})


def test_plain_data() -> None:
    data = ALONE.to_dict()
    assert (data["id"], data["values"]) == (1, {"noise": 2.0, "gain": 1.0})
    assert (data["status"], data["outcome"]) == ("pending", None)


def test_refuses_parameters_of_a_duel_and_sides_of_a_test() -> None:
    with pytest.raises(UnsupportedError, match="in a duel ``first`` and ``second``"):
        _ = DUEL.parameters
    for side in ("first", "second"):
        with pytest.raises(
            UnsupportedError, match=f"``{side}`` side of, but got a pas"
        ):
            getattr(ALONE, side)
