from __future__ import annotations

import argparse
import contextlib
import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from botorch.exceptions import InputDataError
from linear_operator import to_dense

from benchmarks.studies import hyperparameters
from benchmarks.studies.hyperparameters import add, choose, compare_kernels, load, read
from benchmarks.studies.regression import KERNELS
from botorch_binary_context.problems import BENCHMARKS
from tests.closeness import assert_all_close

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


class TestLoad:
    def test_all_functions(self) -> None:
        assert list(read(hyperparameters.PATH)) == list(BENCHMARKS)
        for name, benchmark in BENCHMARKS.items():
            for kernel in (None, *KERNELS):
                loaded = load(name, kernel)
                assert len(loaded.lengthscales) == benchmark.dim
                assert all(0.004 < x < 20.1 for x in loaded.lengthscales)
                assert 0.0099 < loaded.outputscale < 1.01e4
                assert set(loaded.rmse) == set(KERNELS)
                # Every kernel does better than the mean of the values would.
                assert all(0.0 < error < 1.1 for error in loaded.rmse.values())
                if kernel is None:
                    lowest = min(loaded.rmse.values())
                    assert loaded.rmse[loaded.kernel] == lowest
                else:
                    assert loaded.kernel == kernel
                if loaded.kernel != "SE-ARD":
                    assert len(set(loaded.lengthscales)) == 1

    def test_covar_module(self) -> None:
        for name in ("Hartmann 3-D", "Ackley"):
            loaded = load(name)
            X = torch.rand(4, BENCHMARKS[name].dim, dtype=torch.double)
            diagonal = to_dense(loaded.covar_module()(X)).diagonal()
            expected = torch.full_like(diagonal, loaded.outputscale)
            assert_all_close(diagonal, expected, rtol=1e-12)

    def test_refuses_unknown_functions_kernels_and_files(self) -> None:
        with pytest.raises(InputDataError, match="to be one of .* got 'Nothing'"):
            load("Nothing")
        with pytest.raises(InputDataError, match="to be one of .* got 'cosine'"):
            load("Levy", kernel="cosine")
        with pytest.raises(InputDataError, match="Expected hyperparameters of"):
            load("Levy", path=Path("missing.json"))


class TestChoose:
    def test_lowest_error(self) -> None:
        for best in KERNELS:
            chosen = choose(made_up(best))
            assert chosen.kernel == best
            assert chosen.lengthscales == (0.5, 0.25)
            assert chosen.rmse[best] == 0.1


class TestMake:
    @pytest.fixture(autouse=True)
    def few_points(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = tmp_path / "hyperparameters.json"
        monkeypatch.setattr(hyperparameters, "NUM_SAMPLES", 15)
        monkeypatch.setattr(hyperparameters, "NUM_TEST_POINTS", 20)

    def test_reproduces_itself(self) -> None:
        printed = run(self.path, FUNCTION)
        first = self.path.read_text(encoding="utf-8")
        self.path.unlink()
        assert run(self.path, FUNCTION) == printed
        assert self.path.read_text(encoding="utf-8") == first
        assert list(json.loads(first)) == [FUNCTION]
        assert list(self.path.parent.iterdir()) == [self.path]

    def test_counts_the_choices_of_the_paper(self) -> None:
        add(self.path, "Sphere", made_up("SE-ARD"))  # as the paper
        add(self.path, "Ackley", made_up("Matérn 5/2"))
        add(self.path, "Levy", made_up("SE-ARD"))  # as the paper
        *_, last = run(self.path, "Sphere", "Ackley", "Levy").splitlines()
        assert "the paper's on 2 of 3 functions" in last

    def test_functions_stay_in_the_order_of_the_table(self) -> None:
        for name in ("Sphere", "Ackley", "Levy"):
            add(self.path, name, made_up("SE-ARD"))
        assert list(read(self.path)) == ["Ackley", "Levy", "Sphere"]
        assert load("Levy", path=self.path) == choose(made_up("SE-ARD"))

    def test_resumes_after_a_kill_and_computes_nothing_twice(self) -> None:
        def killed(name: str) -> dict:
            if name == OTHER:
                raise KeyboardInterrupt
            return compare_kernels(name)

        with (
            mock.patch.object(hyperparameters, "compare_kernels", killed),
            pytest.raises(KeyboardInterrupt),
        ):
            run(self.path, FUNCTION, OTHER)
        before = read(self.path)
        assert list(before) == [FUNCTION]

        computed = mock.Mock(wraps=compare_kernels)
        with mock.patch.object(hyperparameters, "compare_kernels", computed):
            run(self.path, FUNCTION, OTHER)
            run(self.path, FUNCTION, OTHER)
        computed.assert_called_once_with(OTHER)
        assert read(self.path)[FUNCTION] == before[FUNCTION]

    def test_writes_nothing_twice(self) -> None:
        add(self.path, FUNCTION, made_up("SE-ARD"))
        with mock.patch.object(hyperparameters, "add") as write:
            run(self.path, FUNCTION)
        write.assert_not_called()
