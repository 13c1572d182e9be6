import itertools
from dataclasses import replace
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
import torch
from linear_operator import to_dense

from benchmarks.studies import report, store, variants
from benchmarks.studies.analysis import analyze
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import Task, make_case, run_task
from benchmarks.studies.hyperparameters import Hyperparameters
from benchmarks.studies.moving_optimum import (
    MovingOptimumProblem,
    best_score,
    moving_kernel,
)
from benchmarks.studies.variant_report import final_regrets
from botorch_binary_context.problems import make_objective
from tests.benchmarks.studies.small_studies import fake_results, stub_hyperparameters
from tests.closeness import assert_all_close
from tests.tensors import uniform

FUNCTION = "Levy"


def make_task(study: str, variant: str, iterations: int = 6) -> Task:
    name = f"{FUNCTION}, {variant}"
    fitted = stub_hyperparameters(FUNCTION)
    return Task(study, name, "ucb-ald", 2, iterations, fitted)


class TestProblem:
    def test_latent_by_hand(self) -> None:
        objective = make_objective(FUNCTION)
        problem = MovingOptimumProblem(objective, "worst")
        low, high = objective.bounds
        for t, s, x1, x2 in [(-1.0, 0.0, 0.3, 0.9), (2.5, 0.8, 1.0, 0.0)]:
            u = [0.7 * x1 + 0.3 * s, 0.7 * x2 + 0.3 * (1 - s)]
            point = low + (high - low) * torch.tensor(u, dtype=torch.double)
            expected = 3 * (objective(point) - t)
            row = torch.tensor([t, s, x1, x2], dtype=torch.double)
            assert_all_close(problem.latent(row), expected)

    def test_optima_differ(self) -> None:
        """Each goal has a best setting of its own; a grid finds none better."""
        side = torch.linspace(0, 1, 101, dtype=torch.double)
        grid = torch.cartesian_prod(side, side)
        best = {}
        for goal in variants.GOALS:
            problem = MovingOptimumProblem(make_objective(FUNCTION), goal)
            values = problem.score(grid)
            best[goal] = grid[values.argmax()]
            optimum = best_score(FUNCTION, goal)
            assert optimum >= float(values.max())
            assert optimum - float(values.max()) < 0.2
        for one, other in itertools.combinations(best.values(), 2):
            assert float((one - other).abs().max()) > 0.02

    def test_score_is_the_goal(self) -> None:
        """What counts is what the goal of the package makes of the latent values."""
        for name, goal in variants.GOALS.items():
            case = make_case(make_task("goals", name))
            problem, x = case.problem, uniform(7, 2)
            values = problem.latent(goal.rows(problem.space, x))
            model = case.model(uniform(3, 4), torch.ones(3, 1).double())
            expected = goal.combine(values, model) / 3 + 2
            assert_all_close(problem.score(x), expected)

    def test_kernel_along_each_variable_is_that_of_the_shifts(self) -> None:
        """Along each variable alone it is the kernel of the shifted function."""
        for kind in ("SE-ARD", "Matérn 3/2", "Matérn 5/2"):
            fitted = Hyperparameters(kind, (0.4, 0.4), 0.5, 0.0, {})
            kernel = moving_kernel(fitted)
            move = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.0, 0.0]])
            move = torch.cat([move, torch.tensor([[0.0, 0.0, 0.5, 0.2]])]).double()
            shifts = torch.tensor([[0.0, 0.0], [0.18, -0.18], [0.35, 0.14]]).double()
            base = to_dense(fitted.covar_module()(shifts[:1], shifts))
            assert_all_close(to_dense(kernel(move[:1], move)), 9 * (base + 1))


class TestTasks:
    def test_score_of_no_goal_exceeds_its_best(self) -> None:
        for goal in variants.GOALS:
            frame = run_task(make_task("goals", goal, iterations=2))
            best = best_score(FUNCTION, goal)
            assert (frame["score"] <= best + 1e-5).all()

    def test_scores_stay_the_same_within_a_batch(self) -> None:
        study = replace(STUDIES["batches"], measure_every=4)
        task = replace(make_task("batches", "batches of 4"), rule="random", seeds=8)
        with mock.patch.dict(STUDIES, {"batches": study}):
            frame = run_task(task)
        scores = frame["score"].to_numpy().reshape(8, 6)
        assert (scores[:, :4] == scores[:, :1]).all()  # the first batch
        assert (scores[:, 4:] == scores[:, 5:]).all()  # the two that are left
        assert (scores[:, 0] != scores[:, 5]).any()
        assert frame["context"].n_unique() == 48

    def test_same_randomness(self) -> None:
        cases = [make_case(make_task("batches", size)) for size in variants.BATCH_SIZES]
        assert {case.randomness for case in cases} == {FUNCTION}
        assert [case.batch_size for case in cases] == [1, 4]


class TestReports:
    @pytest.fixture(autouse=True)
    def empty_folder(self, tmp_path: Path) -> None:
        self.root = tmp_path

    def save(self, study: str, scores: dict[str, float]) -> None:
        for rule, variant in itertools.product(STUDIES[study].rules, scores):
            task = make_task(study, variant)
            task = Task(study, task.function, rule, 2, 6, task.hyperparameters)
            score = scores[variant] - STUDIES[study].rules.index(rule)
            path = store.result_path(self.root / study, task.function, rule)
            store.save(fake_results(task, score), path)

    def test_goals_are_reported_with_scores_and_what_is_missing(self) -> None:
        self.save("goals", dict.fromkeys(variants.GOALS, 0.0))
        text = report.write_report("goals", self.root).read_text(encoding="utf-8")
        best = best_score(FUNCTION, "worst")
        assert f"| worst | `ucb-ald` | {best - 0.005:.2f} ± 0.00 |" in text
        assert "1 of 1 |" in text
        assert "## Missing" in text

    def test_incomplete_functions_are_left_out(self) -> None:
        self.save("goals", {"worst": 0.0, "average": 0.0})
        regrets = final_regrets(analyze(STUDIES["goals"], self.root))
        assert set(regrets["variant"]) == {"worst", "average"}
        task = Task("goals", "Gramacy and Lee (2012), worst", "ucb-ald", 2, 6, None)
        path = store.result_path(self.root / "goals", task.function, task.rule)
        store.save(fake_results(task), path)
        regrets = final_regrets(analyze(STUDIES["goals"], self.root))
        assert set(regrets["function"]) == {FUNCTION}

    def test_batches_are_reported_with_the_regret_of_each_size(self) -> None:
        best = STUDIES["batches"].optimum(f"{FUNCTION}, one by one")
        self.save("batches", {"one by one": best - 1.0, "batches of 4": best - 1.5})
        text = report.write_report("batches", self.root).read_text(encoding="utf-8")
        regrets = final_regrets(analyze(STUDIES["batches"], self.root))
        means = regrets.group_by("rule", "variant").agg(pl.col("regret").mean())
        one = means.filter(rule="ucb-ald", variant="one by one")["regret"].item()
        assert one == pytest.approx(0.995, rel=0, abs=0.5e-5)
        assert "| `ucb-ald` | all |  |  | +50% |  | 0 of 1 |" in text
        assert "| `ucb-ald` | Levy | 0.995 | 1.495 | +50% | 0.5 |  |" in text
