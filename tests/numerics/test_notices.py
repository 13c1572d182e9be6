from __future__ import annotations

import threading
import warnings

import pytest
from botorch.exceptions.warnings import NumericsWarning

from botorch_binary_context.numerics.notices import silent, warn_of_inaccuracy


def test_a_warning_names_the_caller_of_what_warns():
    def compute() -> None:
        warn_of_inaccuracy("off by 1")

    with pytest.warns(NumericsWarning, match="off by 1") as caught:
        compute()
    assert caught[0].filename == __file__


def test_silence_ends_with_its_block_even_after_an_error():
    def fail() -> None:
        with silent():
            warn_of_inaccuracy("not heard")
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    with pytest.warns(NumericsWarning, match="heard again"):
        warn_of_inaccuracy("heard again")


def test_one_thread_does_not_silence_another():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with silent():
            other = threading.Thread(target=warn_of_inaccuracy, args=("from there",))
            other.start()
            other.join()
            warn_of_inaccuracy("from here")
    assert [str(warning.message) for warning in caught] == ["from there"]
