from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory

from botorch_binary_context import demo
from tests.helpers import StrictTestCase


class TestDemo(StrictTestCase):
    def test_short_examination(self) -> None:
        with TemporaryDirectory() as directory:
            figure = Path(directory) / "demo.png"
            arguments = ["--repetitions", "2", "--iterations", "6"]
            with (
                redirect_stdout(io.StringIO()) as printed,
                redirect_stderr(io.StringIO()),
            ):
                demo.main([*arguments, "--figure", str(figure)])
            self.assertGreater(figure.stat().st_size, 10_000)
        text = printed.getvalue()
        self.assertIn("The patient needs -2.25 DS / +1.50 DC", text)
        self.assertIn("After 11 letters:", text)
        for label in demo.RULES.values():
            self.assertIn(label, text)

    def test_as_an_optometrist_writes(self) -> None:
        for lens, expected in (
            ((-2.2, 1.55), "-2.25 DS / +1.50 DC"),
            ((0.1, -0.05), "+0.00 DS / +0.00 DC"),
            ((3.9, -4.0), "+4.00 DS / -4.00 DC"),
        ):
            self.assertEqual(demo.write_prescription(lens), expected)
        self.assertEqual(demo.write_acuity(0.0), "0.00 logMAR (20/20)")
        self.assertEqual(demo.write_acuity(1.0), "1.00 logMAR (20/200)")

    def test_acuity_is_that_of_the_lens(self) -> None:
        examination = demo.examine("ts-random", repetitions=2, iterations=2)
        self.assertEqual(examination.trials.shape, (2, 7, 3))
        self.assertEqual(examination.answers.shape, (2, 7, 1))
        error = examination.lens - examination.lens.new_tensor(demo.PRESCRIPTION)
        sphere, cylinder = error.unbind(dim=-1)
        squared = (sphere.square() + (sphere + cylinder).square()) / 2
        self.assertAllClose(examination.acuity[:, -1], (1 + squared).log10())
