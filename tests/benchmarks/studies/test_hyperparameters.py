from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from botorch.exceptions import InputDataError
from linear_operator import to_dense

from benchmarks.studies import hyperparameters
from benchmarks.studies.hyperparameters import add, choose, compare_kernels, load, read
from benchmarks.studies.regression import KERNELS
from botorch_binary_context.problems import BENCHMARKS
from tests.strict_case import StrictTestCase

FUNCTION, OTHER = "Forrester et al (2008)", "Gramacy and Lee (2012)"


def run(path: Path, *functions: str) -> str:
    """What the command prints."""
    parser = argparse.ArgumentParser()
    hyperparameters.add_command(parser.add_subparsers())
    parsed = parser.parse_args(
        ["hyperparameters", "--functions", *functions, "--output", str(path)]
    )
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(io.StringIO()):
        parsed.run(parsed)
    return output.getvalue()


def made_up(best: str) -> dict[str, dict[str, Any]]:
    """A comparison that one kernel wins, though it is not the most likely."""
    return {
        kernel: {
            "lengthscales": [0.5, 0.25],
            "outputscale": 2.0,
            "log_likelihood": 0.0 if kernel == best else 100.0,
            "rmse": 0.1 if kernel == best else 0.2,
        }
        for kernel in KERNELS
    }


class TestLoad(StrictTestCase):
    def test_all_functions(self) -> None:
        self.assertEqual(list(read(hyperparameters.PATH)), list(BENCHMARKS))
        for name, benchmark in BENCHMARKS.items():
            for kernel in (None, *KERNELS):
                loaded = load(name, kernel)
                self.assertEqual(len(loaded.lengthscales), benchmark.dim)
                self.assertTrue(all(0.004 < x < 20.1 for x in loaded.lengthscales))
                self.assertTrue(0.0099 < loaded.outputscale < 1.01e4)
                self.assertEqual(set(loaded.rmse), set(KERNELS))
                # Every kernel does better than the mean of the values would.
                self.assertTrue(
                    all(0.0 < error < 1.1 for error in loaded.rmse.values())
                )
                if kernel is None:
                    lowest = min(loaded.rmse.values())
                    self.assertEqual(loaded.rmse[loaded.kernel], lowest)
                else:
                    self.assertEqual(loaded.kernel, kernel)
                if loaded.kernel != "SE-ARD":
                    self.assertEqual(len(set(loaded.lengthscales)), 1)

    def test_covar_module(self) -> None:
        for name in ("Hartmann 3-D", "Ackley"):
            loaded = load(name)
            X = torch.rand(4, BENCHMARKS[name].dim, dtype=torch.double)
            diagonal = to_dense(loaded.covar_module()(X)).diagonal()
            expected = torch.full_like(diagonal, loaded.outputscale)
            self.assertAllClose(diagonal, expected, rtol=1e-12)

    def test_errors(self) -> None:
        with self.assertRaisesRegex(InputDataError, "to be one of .* got 'Nothing'"):
            load("Nothing")
        with self.assertRaisesRegex(InputDataError, "to be one of .* got 'cosine'"):
            load("Levy", kernel="cosine")
        with self.assertRaisesRegex(InputDataError, "Expected hyperparameters of"):
            load("Levy", path=Path("missing.json"))


class TestChoose(StrictTestCase):
    def test_lowest_error(self) -> None:
        for best in KERNELS:
            chosen = choose(made_up(best))
            self.assertEqual(chosen.kernel, best)
            self.assertEqual(chosen.lengthscales, (0.5, 0.25))
            self.assertEqual(chosen.rmse[best], 0.1)


class TestMake(StrictTestCase):
    def setUp(self, suppress_input_warnings: bool = False) -> None:
        super().setUp(suppress_input_warnings)
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.path = Path(directory) / "hyperparameters.json"
        self.enterContext(mock.patch.multiple(
            hyperparameters, NUM_SAMPLES=15, NUM_TEST_POINTS=20
        ))  # fmt: skip

    def test_reproduces_itself(self) -> None:
        printed = run(self.path, FUNCTION)
        first = self.path.read_text(encoding="utf-8")
        self.path.unlink()
        self.assertEqual(run(self.path, FUNCTION), printed)
        self.assertEqual(self.path.read_text(encoding="utf-8"), first)
        self.assertEqual(list(json.loads(first)), [FUNCTION])
        self.assertEqual(list(self.path.parent.iterdir()), [self.path])

    def test_counts_the_choices_of_the_paper(self) -> None:
        add(self.path, "Sphere", made_up("SE-ARD"))  # as the paper
        add(self.path, "Ackley", made_up("Matérn 5/2"))
        add(self.path, "Levy", made_up("SE-ARD"))  # as the paper
        *_, last = run(self.path, "Sphere", "Ackley", "Levy").splitlines()
        self.assertIn("the paper's on 2 of 3 functions", last)

    def test_functions_stay_in_the_order_of_the_table(self) -> None:
        for name in ("Sphere", "Ackley", "Levy"):
            add(self.path, name, made_up("SE-ARD"))
        self.assertEqual(list(read(self.path)), ["Ackley", "Levy", "Sphere"])
        self.assertEqual(load("Levy", path=self.path), choose(made_up("SE-ARD")))

    def test_resumes(self) -> None:
        def killed(name: str) -> dict:
            if name == OTHER:
                raise KeyboardInterrupt
            return compare_kernels(name)

        with (
            mock.patch.object(hyperparameters, "compare_kernels", killed),
            self.assertRaises(KeyboardInterrupt),
        ):
            run(self.path, FUNCTION, OTHER)
        before = read(self.path)
        self.assertEqual(list(before), [FUNCTION])

        computed = mock.Mock(wraps=compare_kernels)
        with mock.patch.object(hyperparameters, "compare_kernels", computed):
            run(self.path, FUNCTION, OTHER)
            run(self.path, FUNCTION, OTHER)
        computed.assert_called_once_with(OTHER)
        self.assertEqual(read(self.path)[FUNCTION], before[FUNCTION])

    def test_writes_nothing_twice(self) -> None:
        add(self.path, FUNCTION, made_up("SE-ARD"))
        with mock.patch.object(hyperparameters, "add") as write:
            run(self.path, FUNCTION)
        write.assert_not_called()
