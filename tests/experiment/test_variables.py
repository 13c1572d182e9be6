r"""Tests of named parameters and contexts."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st

from botorch_binary_context.experiment import Categorical, Context, Integer, Real
from tests.tensors import double

unit = st.floats(0.0, 1.0)


class TestReal:
    def test_linear_scale_encodes_evenly_and_decodes_back(self) -> None:
        sphere = Real("sphere", -4.0, 4.0)
        for value, column in ((-4.0, 0.0), (0.0, 0.5), (2.0, 0.75), (4.0, 1.0)):
            torch.testing.assert_close(sphere.encode(value), double([column]))
            assert sphere.decode(double([column])) == value

    def test_log_scale_encodes_ratios_evenly_and_decodes_back(self) -> None:
        gain = Real("gain", 0.01, 100.0, "log")
        for value, column in ((0.01, 0.0), (1.0, 0.5), (10.0, 0.75), (100.0, 1.0)):
            torch.testing.assert_close(gain.encode(value), double([column]))
            assert gain.decode(double([column])) == value

    @given(unit, st.sampled_from(["linear", "log"]), st.floats(1e-6, 1e6))
    def test_what_is_shown_is_what_is_stored(
        self, u: float, scale: str, low: float
    ) -> None:
        """Six digits, within the bounds, and near to what was wanted."""
        variable = Real("x", low, 1e3 * low, scale)
        value = variable.decode(double([u]))
        assert low <= value <= 1e3 * low
        assert variable.decode(variable.encode(value)) == value
        assert abs(variable.encode(value).item() - u) < 1e-5
        assert float(f"{value:.9g}") == value or value in (low, 1e3 * low)

    def test_snapping_changes_nothing(self) -> None:
        U = double([[0.123], [0.4]])
        assert torch.equal(Real("x", 0.0, 1.0).snap(U), U)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("", 0, 1), "Expected ``name`` to be a text .* but got ''"),
            (("a=b", 0, 1), "Expected ``name`` to be a text .* but got 'a=b'"),
            ((3, 0, 1), "Expected ``name`` to be a text .* but got 3"),
            (("x", 1, 1), "``low`` of 'x' to be less than ``high``, but got 1.0 and 1"),
            (("x", "a", 1), "``low`` of 'x' to be a finite number, but got 'a'"),
            (("x", 0, math.inf), "``high`` of 'x' to be a finite number, but got inf"),
            (("x", 0, True), "``high`` of 'x' to be a finite number, but got True"),
            (("x", 0, 1, "log"), "``low`` of 'x' to be positive on a log scale"),
            (("x", 1, 2, "sqrt"), "to be one of linear, log, but got 'sqrt'"),
        ],
    )
    def test_refuses_wrong_names_bounds_and_scales(
        self, arguments: Any, message: str
    ) -> None:
        with pytest.raises(InputDataError, match=message):
            Real(*arguments)

    @pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, "a", None])
    def test_wrong_value(self, value: Any) -> None:
        with pytest.raises(InputDataError, match="Expected ``value`` of 'x' to be"):
            Real("x", 0.0, 1.0).encode(value)


class TestInteger:
    def test_values_encode_evenly_and_decode_as_integers(self) -> None:
        taps = Integer("taps", 1, 5)
        for value in range(1, 6):
            column = taps.encode(value)
            torch.testing.assert_close(column, double([(value - 1) / 4]))
            assert taps.decode(column) == value
            assert isinstance(taps.decode(column), int)

    @given(unit, st.sampled_from(["linear", "log"]), st.integers(1, 10_000))
    def test_decodes_and_snaps_to_the_nearest_integer(
        self, u: float, scale: str, high: int
    ) -> None:
        """In the user's units, by brute force."""
        variable = Integer("n", 1, 1 + high, scale)
        exact = 1 + u * high if scale == "linear" else (1 + high) ** u
        value = variable.decode(double([u]))
        assert 1 <= value <= 1 + high
        assert abs(value - exact) <= 0.5 + 1e-9 * high
        torch.testing.assert_close(variable.snap(double([u])), variable.encode(value))

    def test_climbers_feel_the_slope(self) -> None:
        U = double([[0.3], [0.6]]).requires_grad_(True)
        Integer("n", 0, 4).snap(U).sum().backward()
        assert torch.equal(U.grad, torch.ones(2, 1).double())  # pyright: ignore

    def test_refuses_fractions_and_values_out_of_range(self) -> None:
        with pytest.raises(InputDataError, match="``high`` of 'n' to be a whole numb"):
            Integer("n", 1, 2.5)  # pyright: ignore
        with pytest.raises(InputDataError, match="``value`` of 'n' to be a whole numb"):
            Integer("n", 1, 3).encode(1.5)
        with pytest.raises(InputDataError, match="from 1 to 3, but got 4"):
            Integer("n", 1, 3).encode(4)


class TestCategorical:
    window = Categorical("window", ["hann", "box", 3])

    def test_values_encode_as_one_hot_and_decode_back(self) -> None:
        assert self.window.num_columns == 3
        for i, value in enumerate(("hann", "box", 3)):
            column = self.window.encode(value)
            assert torch.equal(column, torch.eye(3).double()[i])
            assert self.window.decode(column) == value

    def test_snaps_to_the_largest_column_without_a_gradient(self) -> None:
        U = double([[0.2, 0.9, 0.3], [0.0, 0.0, 0.1]]).requires_grad_(True)
        snapped = self.window.snap(U)
        assert torch.equal(snapped, double([[0, 1, 0], [0, 0, 1]]))
        snapped.sum().backward()
        assert torch.equal(U.grad, torch.zeros(2, 3).double())  # pyright: ignore

    def test_corners_of_the_box_stay(self) -> None:
        bounds = torch.stack([torch.zeros(3), torch.ones(3)]).double()
        assert torch.equal(self.window.snap(bounds), bounds)

    def test_refuses_wrong_categories_and_unknown_values(self) -> None:
        for values in ("ab", ["a"], ["a", "a"], [1, True], [None, 1], 3):
            with pytest.raises(InputDataError, match="at least two different texts"):
                Categorical("window", values)  # pyright: ignore
        with pytest.raises(InputDataError, match="one of 'hann', 'box', 3, but got 'h"):
            self.window.encode("ham")


class TestContext:
    @pytest.mark.parametrize("harder", [None, "down", "up"])
    def test_centered_contexts_have_the_easier_end_at_one(
        self, harder: str | None
    ) -> None:
        """The easier end is at 1."""
        size = Context("size", 0.0, low=-1.0, high=3.0, harder=harder)
        sign = -1 if harder == "up" else 1
        for value, column in ((-1.0, -1.0), (0.0, -0.5), (3.0, 1.0)):
            encoded = size.encode(value, centered=True)
            torch.testing.assert_close(encoded, double([sign * column]))
            assert size.decode(encoded, centered=True) == value

    def test_contexts_not_centered_keep_zero_at_zero(self) -> None:
        """Zero stays zero, whichever way tests become harder."""
        contrast = Context("contrast", 1.0, low=-1.0, high=4.0, harder="up")
        for value, column in ((-1.0, -0.25), (0.0, 0.0), (4.0, 1.0)):
            encoded = contrast.encode(value, centered=False)
            torch.testing.assert_close(encoded, double([column]))
            assert contrast.decode(encoded, centered=False) == value

    def test_log_scale_encodes_ratios_evenly(self) -> None:
        size = Context("size", 1.0, low=0.01, high=100.0, scale="log")
        torch.testing.assert_close(size.encode(1.0, True), double([0.0]))
        assert size.decode(double([0.5]), True) == 10.0

    @pytest.mark.parametrize("scale", ["linear", "log"])
    def test_difficulty_goes_the_way_that_is_harder(self, scale: str) -> None:
        middle = 10.0 if scale == "log" else 50.5
        ends = {"low": 1.0, "high": 100.0, "scale": scale}
        up = Context("noise", 1.0, harder="up", **ends)  # pyright: ignore
        down = Context("size", 1.0, harder="down", **ends)  # pyright: ignore
        shares = (-math.inf, 0.0, 0.5, 1.0, math.inf)
        values = [-math.inf, 1.0, middle, 100.0, math.inf]
        assert [up.at_difficulty(share) for share in shares] == values
        assert [down.at_difficulty(share) for share in shares] == values[::-1]
        for context, centered in itertools.product((up, down), (True, False)):
            found = context.difficulties(5, centered)
            expected = [
                context.encode(context.at_difficulty(i / 4), centered) for i in range(5)
            ]
            torch.testing.assert_close(found, torch.cat(expected), rtol=1e-5, atol=1e-5)

    @given(st.floats(-1.0, 1.0), st.booleans(), st.sampled_from([None, "up", "down"]))
    def test_decodes_and_snaps_to_the_nearest_level(
        self, u: float, centered: bool, harder: str | None
    ) -> None:
        """The nearest level, by brute force; the snapped column is that level's."""
        levels = [0.0, 2.0, 3.0, 8.0]
        size = Context("size", 2.0, levels=levels[::-1], harder=harder)
        u = abs(u) if not centered else u
        value = size.decode(double([u]), centered)
        assert value in levels
        distances = [(size.encode(v, centered).item() - u) ** 2 for v in levels]
        assert distances[levels.index(value)] == min(distances)
        snapped = size.snap(double([u]), centered)
        torch.testing.assert_close(snapped, size.encode(value, centered))

    def test_reference_between_levels(self) -> None:
        """Rules may look at the reference, but it is never shown."""
        size = Context("size", 1.2, levels=[0.0, 1.0, 2.0])
        column = size.encode(1.2, True)
        torch.testing.assert_close(size.snap(column, True), column)
        assert size.decode(column, True) == 1.0

    def test_no_levels(self) -> None:
        U = double([[0.1], [0.7]])
        assert torch.equal(Context("s", 0.0, low=0.0, high=1.0).snap(U, True), U)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, "either ``low`` and ``high`` or ``levels`` of 's', but got None, Non"),
            ({"low": 0.0}, "``high`` of 's' to be a finite number, but got None"),
            (
                {"low": 0.0, "high": 1.0, "levels": [0.0, 1.0]},
                "either ``low`` and ``high`` or ``levels``",
            ),
            ({"levels": [1.0]}, "at least two different numbers, but got"),
            ({"levels": [1.0, "a"]}, "``levels`` of 's' to be a finite number"),
            ({"low": 2.0, "high": 3.0}, "``reference`` of 's' to be from 2.0 to 3.0"),
            ({"low": 0.0, "high": 1.0, "harder": "yes"}, "'up' or 'down' or None"),
        ],
    )
    def test_refuses_wrong_bounds_levels_and_directions(
        self, arguments: Any, message: str
    ) -> None:
        with pytest.raises(InputDataError, match=message):
            Context("s", 1.0, **arguments)

    def test_wrong_value(self) -> None:
        context = Context("s", 1.0, levels=[0.0, 2.0])
        assert context.encode(0.7, True).item() == pytest.approx(-0.3)
        with pytest.raises(InputDataError, match="from 0.0 to 2.0, but got 3"):
            context.encode(3, True)


def test_ranges_are_lists() -> None:
    context = Context("noise", reference=2, levels=range(5))
    assert context.levels == (0, 1, 2, 3, 4)
    assert Categorical("taps", range(3)).values == (0, 1, 2)


class TestSteps:
    """What the equipment can show, of parameters and contexts alike."""

    @pytest.mark.parametrize(
        ("variable", "expected"),
        [
            (Real("x", -1.0, 1.0, step=0.25), [-1 + 0.25 * i for i in range(9)]),
            (Real("x", 0.0, 1.0, step=0.3), [0.0, 0.3, 0.6, 0.9]),
            (Real("x", levels=[4.0, 1.0, 2.0], scale="log"), [1.0, 2.0, 4.0]),
            (Integer("x", 0, 10, step=5), [0, 5, 10]),
            (Integer("x", levels=[8, 1]), [1, 8]),
            (Integer("x", 1, 3), [1, 2, 3]),
            (
                Context("x", 0.0, low=-0.3, high=0.3, step=0.1),
                [i / 10 for i in range(-3, 4)],
            ),
        ],
    )
    def test_choices_are_all_that_can_be_shown(
        self, variable: Any, expected: list[float]
    ) -> None:
        assert list(variable.choices) == expected
        assert variable.bounds == (expected[0], expected[-1])

    @given(unit, st.sampled_from([0.25, 0.3, 0.7]))
    def test_decodes_and_snaps_to_the_nearest_step(self, u: float, step: float) -> None:
        variable = Real("x", -1.0, 2.0, step=step)
        assert variable.choices is not None
        wanted = variable.bounds[0] + u * (variable.bounds[1] - variable.bounds[0])
        shown = variable.decode(double([u]))
        assert shown in variable.choices
        assert abs(shown - wanted) <= step / 2 + 1e-9
        snapped = variable.snap(double([[u]]))[0]
        torch.testing.assert_close(snapped, variable.encode(shown))

    def test_climbers_can_move(self) -> None:
        U = double([[0.1], [0.62]]).requires_grad_()
        Real("x", 0, 1, step=0.25).snap(U).sum().backward()
        assert U.grad is not None
        assert torch.equal(U.grad, torch.ones_like(U))

    def test_contexts_with_steps_equal_those_with_levels(self) -> None:
        """The same as with levels."""
        stepped = Context("s", 0.4, low=0.0, high=1.0, step=0.25, harder="up")
        levels = Context("s", 0.4, levels=[0, 0.25, 0.5, 0.75, 1], harder="up")
        U = torch.linspace(-1, 1, 23, dtype=torch.double).unsqueeze(-1)
        assert torch.equal(stepped.snap(U, True), levels.snap(U, True))
        assert [stepped.decode(u, True) for u in U] == [
            levels.decode(u, True) for u in U
        ]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"low": 0, "high": 1, "step": 0}, "``step`` .* 2 to 10000 .* got 0"),
            ({"low": 0, "high": 1, "step": 2}, "``step`` of 'x' to make 2 to 10000"),
            ({"low": 0, "high": 1, "step": 1e-9}, "from 0 to 1, but got 1e-09"),
            ({"low": 0, "high": 1, "step": "a"}, "``step`` of 'x' to be a finite num"),
            ({"levels": [1, 2], "step": 1}, "``step`` of 'x' to come with bounds"),
            ({"levels": [1]}, "``levels`` of 'x' to be a list of at least two"),
            ({"levels": [1, 2], "low": 0}, "either ``low`` and ``high`` or ``levels``"),
            ({}, "either ``low`` and ``high`` or ``levels`` of 'x'"),
            (
                {"low": 1, "high": 4, "scale": "log", "step": 1},
                "on a linear scale, but got 1: give ``levels`` alone",
            ),
        ],
    )
    def test_refuses_wrong_steps_and_levels(self, arguments: Any, message: str) -> None:
        with pytest.raises(InputDataError, match=message):
            Real("x", **arguments)
        with pytest.raises(InputDataError, match=message):
            Context("x", 1, **arguments)

    def test_whole_steps(self) -> None:
        wrong: list[Any] = [{"low": 0, "high": 4, "step": 0.5}, {"levels": [1, 2.5]}]
        for arguments in wrong:
            with pytest.raises(InputDataError, match="of 'x' to be a whole number"):
                Integer("x", **arguments)
