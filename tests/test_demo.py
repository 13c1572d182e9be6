from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from botorch_binary_context import demo
from botorch_binary_context.problems import visual_acuity
from tests.closeness import assert_all_close
from tests.tensors import double


class TestDemo:
    def test_short_examination(self) -> None:
        with TemporaryDirectory() as directory:
            figure = Path(directory) / "demo.png"
            arguments = ["--repetitions", "2", "--iterations", "6"]
            with (
                redirect_stdout(io.StringIO()) as printed,
                redirect_stderr(io.StringIO()),
            ):
                demo.main([*arguments, "--figure", str(figure)])
            assert figure.stat().st_size > 10_000
        text = printed.getvalue()
        assert "The patient needs -2.25 DS / +1.50 DC" in text
        assert "After 11 letters:" in text
        for label in demo.RULES.values():
            assert label in text

    def test_as_an_optometrist_writes(self) -> None:
        for lens, expected in (
            ((-2.2, 1.55), "-2.25 DS / +1.50 DC"),
            ((0.1, -0.05), "+0.00 DS / +0.00 DC"),
            ((3.9, -4.0), "+4.00 DS / -4.00 DC"),
        ):
            rounded = demo.round_lens(double(lens)).tolist()
            assert demo.write_prescription(rounded) == expected
        assert demo.write_acuity(0.0) == "0.00 logMAR (20/20)"
        assert demo.write_acuity(1.0) == "1.00 logMAR (20/200)"

    def test_acuity_is_that_of_the_lens_that_is_named(self) -> None:
        lens = double([[-2.2, 1.1], [4.0, 4.0]])
        acuity = double([[0.9, 0.5], [0.9, 0.7]])
        nothing = double([])
        examination = demo.Examination(nothing, nothing, acuity, lens)
        text = demo.describe("ts-random", examination)
        error = double([-2.25, 1.0]) - double(demo.PRESCRIPTION)
        expected = demo.write_acuity(visual_acuity(error).item())
        assert f"-2.25 DS / +1.00 DC, {expected}\n" in text
        assert "mean 0.600, worst 0.700" in text

    def test_wrong_arguments(self) -> None:
        for arguments in (
            ["--repetitions", "0"],
            ["--iterations", "-1"],
            ["--figure", "/nowhere/at/all/demo.png"],
            ["--figure", "demo"],
            ["--figure", "demo.xyz"],
        ):
            with (
                redirect_stderr(io.StringIO()) as printed,
                pytest.raises(SystemExit),
            ):
                demo.main(arguments)
            assert arguments[0] in printed.getvalue().splitlines()[-1]

    def test_acuity_is_that_of_the_lens(self) -> None:
        examination = demo.examine("ts-random", repetitions=2, iterations=2)
        assert examination.trials.shape == (2, 7, 3)
        assert examination.answers.shape == (2, 7, 1)
        error = examination.lens - examination.lens.new_tensor(demo.PRESCRIPTION)
        sphere, cylinder = error.unbind(dim=-1)
        squared = (sphere.square() + (sphere + cylinder).square()) / 2
        assert_all_close(examination.acuity[:, -1], (1 + squared).log10())
