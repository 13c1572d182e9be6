import pytest
import torch
from botorch.exceptions import InputDataError
from linear_operator import to_dense

from benchmarks.studies.cases import multiplicative_kernel, threshold_kernel
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.hyperparameters import Hyperparameters
from benchmarks.studies.study import estimate_cost
from benchmarks.studies.tuned import TEN_FUNCTIONS
from botorch_binary_context.problems import BENCHMARKS
from tests.benchmarks.studies.small_studies import stub_hyperparameters
from tests.closeness import assert_all_close
from tests.tensors import uniform


class TestStudies:
    def test_sizes(self) -> None:
        sizes = {
            name: (len(study.rules), len(study.functions), study.seeds)
            for name, study in STUDIES.items()
        }
        expected = {
            "binary": (11, 34, 40),
            "duels": (7, 34, 40),
            "duels-kg": (1, 10, 20),
            "threshold": (11, 34, 20),
            "goals": (3, 30, 20),
            "batches": (2, 20, 20),
            "refraction": (9, 8, 20),
            "refraction-anywhere": (12, 6, 40),
            "refraction-steps": (4, 9, 40),
            "refraction-inference": (3, 4, 40),
            "fresh-binary": (13, 34, 40),
            "fresh-binary-ep": (7, 10, 20),
            "fresh-duels": (9, 34, 40),
            "fresh-duels-ep": (7, 10, 20),
            "fresh-threshold": (13, 34, 20),
            "fresh-threshold-ep": (7, 10, 20),
            "fresh-refraction": (9, 8, 20),
            "fresh-refraction-ep": (6, 8, 20),
            "fresh-refraction-anywhere": (4, 1, 100),
            "fresh-refraction-anywhere-ep": (4, 14, 100),
            "fresh-alternatives": (4, 10, 100),
        }
        assert sizes == expected
        lengths = {name: study.iterations for name, study in STUDIES.items()}
        assert lengths.pop("refraction") == 260
        assert lengths.pop("fresh-refraction") == 260
        assert lengths.pop("fresh-refraction-ep") == 260
        assert lengths.pop("refraction-anywhere") == 150
        assert lengths.pop("refraction-steps") == 150
        assert lengths.pop("refraction-inference") == 100
        assert lengths.pop("fresh-refraction-anywhere") == 150
        assert lengths.pop("fresh-refraction-anywhere-ep") == 150
        assert lengths.pop("fresh-alternatives") == 150
        assert set(lengths.values()) == {60}

    def test_paper_tables(self) -> None:
        for study in STUDIES.values():
            assert set(study.paper) <= set(study.rules)
            ranks = [rank for rank, _ in study.paper.values()]
            assert ranks == list(range(1, len(ranks) + 1))

    def test_kg_functions_have_all_kernels(self) -> None:
        chosen = [BENCHMARKS[name] for name in TEN_FUNCTIONS]
        assert len({x.kernel for x in chosen}) == 3
        assert {x.dim for x in chosen} == {1, 2, 3, 4, 6}

    def test_subset(self) -> None:
        study = STUDIES["binary"].subset(["Levy", "Ackley"], ["cbkg"], 2, 4)
        assert study.functions == ("Ackley", "Levy")
        assert (study.rules, study.seeds) == (("cbkg",), 2)
        assert STUDIES["binary"].subset() == STUDIES["binary"]

    def test_wrong_subset(self) -> None:
        for name, value in (
            ("functions", ["Levi"]),
            ("rules", ["muc-ald"]),
            ("seeds", 0),
            ("iterations", -1),
        ):
            with pytest.raises(InputDataError, match=f"``{name}``"):
                STUDIES["binary"].subset(**{name: value})  # pyright: ignore

    def test_cost(self) -> None:
        slow = estimate_cost("Hartmann 6D", "cbkg")
        assert slow > estimate_cost("Hartmann 6D", "ucb-ald")
        assert slow > estimate_cost("Levy", "cbkg")


class TestKernels:
    def test_multiplicative(self) -> None:
        X = uniform(5, 3)
        kernel = multiplicative_kernel(stub_hyperparameters("Levy"))
        base = (-torch.cdist(X[:, 1:], X[:, 1:]).square() / 2 / 0.3**2).exp()
        expected = X[:, :1] @ X[:, :1].T * base
        assert_all_close(to_dense(kernel(X)), expected)

    def test_threshold(self) -> None:
        X = 2 * uniform(5, 3)
        hyperparameters = Hyperparameters("Matérn 3/2", (0.4, 0.4), 0.5, 0.0, {})
        kernel = threshold_kernel(hyperparameters)
        distance = 3**0.5 * torch.cdist(X[:, 1:], X[:, 1:]) / 0.4
        base = 0.5 * (1 + distance) * (-distance).exp()
        expected = 9 * (X[:, :1] @ X[:, :1].T + base + 1)
        assert_all_close(to_dense(kernel(X)), expected)
