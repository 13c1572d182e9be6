r"""Tests of the space of an experiment and of its encoding."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions import InputDataError
from hypothesis import given
from hypothesis import strategies as st

from botorch_binary_context.experiment import Context, NamedSpace, Real
from botorch_binary_context.experiment.space import Encoder, Snap, SnapParameters
from tests.experiment.simulation import CONTINUOUS, MIXED
from tests.tensors import double


class TestNamedSpace:
    def test_reference_context_has_a_value_for_each_context(self) -> None:
        assert MIXED.reference_context() == {"noise": 2.0}
        assert NamedSpace([Real("x", 0, 1)]).reference_context() == {}

    def test_refuses_no_variables_repeated_names_and_wrong_kinds(self) -> None:
        x = Real("x", 0, 1)
        s = Context("x", 0.0, low=0.0, high=1.0)
        with pytest.raises(InputDataError, match="at least one variable, but got none"):
            NamedSpace([], [])
        with pytest.raises(InputDataError, match="but got x more than once"):
            NamedSpace([x], [s])
        with pytest.raises(InputDataError, match="``contexts`` to be contexts with"):
            NamedSpace([x], [x])  # pyright: ignore
        with pytest.raises(InputDataError, match="but got 'gain'"):
            NamedSpace(["gain"])  # pyright: ignore


class TestEncoder:
    def test_box_has_contexts_first_and_a_column_for_each_category(self) -> None:
        """Contexts first, then the parameters; one column for each category."""
        encoder = Encoder(MIXED)
        space = encoder.context_space
        assert encoder.column_names == [
            "noise",
            "gain",
            "taps",
            "window = hann",
            "window = box",
            "window = flat",
        ]
        assert space.bounds.tolist() == [[-1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]]
        assert space.context_dims == (0,)
        assert space.reference_context.tolist() == [0.0]
        assert not encoder.is_continuous
        assert Encoder(CONTINUOUS).is_continuous

    def test_contexts_not_centered_run_from_zero_to_one(self) -> None:
        encoder = Encoder(CONTINUOUS, centered=False)
        assert encoder.context_space.bounds.tolist() == [[0, 0, 0], [1, 1, 1]]
        assert encoder.context_space.reference_context.tolist() == [0.5]

    def test_no_contexts(self) -> None:
        encoder = Encoder(NamedSpace([Real("x", 0, 2)]))
        assert encoder.context_space.num_contexts == 0
        X = encoder.encode({}, [{"x": 1.0}, {"x": 2.0}])
        assert X.tolist() == [[0.5], [1.0]]
        assert encoder.decode(X) == ({}, ({"x": 1.0}, {"x": 2.0}))

    @given(st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12), st.booleans())
    def test_there_and_back(self, numbers: list[float], centered: bool) -> None:
        """What is shown for a point is encoded as the snapped point."""
        encoder = Encoder(MIXED, centered)
        low, high = encoder.context_space.bounds
        X = low + (high - low) * double(numbers).reshape(2, 6)
        X[1, 0] = X[0, 0]
        context, sides = encoder.decode(X)
        rows = encoder.encode(context, sides)
        assert encoder.decode(rows) == (context, sides)
        snapped = encoder.snap(X)
        undecided = (X[:, 3:] == X[:, 3:4]).all(dim=-1, keepdim=True)
        at_reference = snapped[:, :1] == encoder.context_space.reference_context
        free = torch.cat([at_reference, *[undecided] * 5], dim=-1)
        torch.testing.assert_close(snapped[~free], rows[~free], rtol=0, atol=2e-6)

    def test_contexts_are_snapped_or_stay(self) -> None:
        encoder = Encoder(MIXED)
        X = double([[0.3, 0.5, 0.49, 0.1, 0.2, 0.0]])
        snapped = double([[0.25, 0.5, 0.5, 0, 1, 0]])
        torch.testing.assert_close(encoder.snap(X), snapped)
        torch.testing.assert_close(Snap(encoder)(X), snapped)
        free = double([[0.3, 0.5, 0.5, 0, 1, 0]])
        torch.testing.assert_close(encoder.snap_parameters(X), free)
        torch.testing.assert_close(SnapParameters(encoder)(X), free)

    def test_refuses_missing_names_and_values_out_of_range(self) -> None:
        encoder = Encoder(CONTINUOUS)
        parameters = {"gain": 1.0, "shift": 0.0}
        with pytest.raises(InputDataError, match=r"each of \['noise'\], but got \[\]"):
            encoder.encode({}, [parameters])
        with pytest.raises(InputDataError, match=r"each of \['gain', 'shift'\], but"):
            encoder.encode({"noise": 1.0}, [{"gain": 1.0}])
        with pytest.raises(InputDataError, match="of 'noise' to be from 0.0 to 4.0"):
            encoder.encode({"noise": 9.0}, [parameters])


def test_equal_transforms() -> None:
    snap = Snap(Encoder(MIXED))
    assert snap.equals(Snap(Encoder(MIXED)))
    assert not snap.equals(SnapParameters(Encoder(MIXED)))
    assert not SnapParameters(Encoder(MIXED)).equals(snap)
    assert not snap.equals(Snap(Encoder(CONTINUOUS)))
    assert not snap.equals(torch.nn.Identity())  # pyright: ignore
