from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from benchmarks.tables import format_mean


@pytest.mark.parametrize("kind", [list, pl.Series])
def test_a_mean_has_its_standard_error(kind: type) -> None:
    # The squares of the deviations are 4, 0 and 4: a variance of 4, over three values.
    values: Any = kind([1.0, 3.0, 5.0])
    assert format_mean(values, 2) == "3.00 ± 1.15"


def test_the_error_of_a_single_value_is_shown_as_zero() -> None:
    assert format_mean([0.25], 3) == "0.250 ± 0.000"
