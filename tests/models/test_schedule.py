from __future__ import annotations

from botorch_binary_context import should_learn
from botorch_binary_context.models.schedule import last_scheduled_fit


def test_learns_whenever_the_trials_have_grown_by_a_tenth() -> None:
    due = [last_scheduled_fit(n, first=8) for n in range(150)]
    assert due[:8] == [None] * 8
    scheduled = sorted({n for n in due if n is not None})
    assert scheduled[:5] == [8, 9, 10, 11, 13]
    assert all(
        b == -(-11 * a // 10) for a, b in zip(scheduled, scheduled[1:], strict=False)
    )
    assert all(d is None or d <= n < 1.1 * d + 1 for n, d in enumerate(due))


def test_does_not_learn_from_fewer_than_five_trials() -> None:
    assert last_scheduled_fit(4, first=0) is None
    assert last_scheduled_fit(5, first=0) == 5
    assert not any(should_learn(n, first=0) for n in range(5))


def test_should_learn_at_scheduled_numbers_of_trials_only() -> None:
    found = [n for n in range(60) if should_learn(n)]
    assert found == [10, 11, 13, 15, 17, 19, 21, 24, 27, 30, 33, 37, 41, 46, 51, 57]
