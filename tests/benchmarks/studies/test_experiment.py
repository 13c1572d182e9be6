import polars as pl
import torch

from benchmarks.studies.cases import Case
from benchmarks.studies.experiment import (
    SCHEMA,
    derive_seed,
    draw_labels,
    draw_randomness,
    make_case,
    run_task,
)
from botorch_binary_context.problems import ContextProblem
from tests.benchmarks.studies.small_studies import make_task, without_times


def case_of(study: str) -> Case:
    return make_case(make_task(study))


def problem_of(study: str) -> ContextProblem:
    return case_of(study).problem


class TestRandomness:
    def test_derive_seed(self) -> None:
        assert derive_seed("Levy", 0) == 525379987
        assert derive_seed("a", 1) != derive_seed("a1")

    def test_same_for_all_rules_and_any_size(self) -> None:
        case = case_of("binary")
        first, noise = draw_randomness(make_task(seeds=3), case)
        other = make_task(rule="random", seeds=2, iterations=20)
        fewer, longer = draw_randomness(other, case)
        assert torch.equal(first[:2], fewer)
        assert torch.equal(noise[:2], longer[:, :8])
        assert not torch.equal(first[0], first[1])

    def test_first_trials(self) -> None:
        for study, shape in (("binary", (3, 5, 3)), ("duels", (3, 5, 2, 3))):
            trials, noise = draw_randomness(make_task(study), case_of(study))
            assert trials.shape == shape
            assert noise.shape == (3, 8)
        assert torch.equal(trials[..., 0, 0], trials[..., 1, 0])
        trials, _ = draw_randomness(make_task(seeds=20), case_of("threshold"))
        assert float(trials[..., 0].min()) < -1.5
        assert float(trials[..., 0].max()) > 2.5

    def test_label_is_one_where_the_draw_is_below_the_probability(self) -> None:
        case = case_of("binary")
        problem = case.problem
        trials, _ = draw_randomness(make_task(), case)
        probability = problem.success_probability(trials)
        for shift, label in ((-1e-9, 1.0), (1e-9, 0.0)):
            labels = draw_labels(problem, trials, probability + shift)
            assert torch.equal(labels, torch.full((3, 5, 1), label).double())


class TestRunTask:
    def test_table_has_every_seed_and_iteration_in_range(self) -> None:
        for study, rule in (
            ("binary", "ucb-random"),
            ("duels", "muc-ald"),
            ("threshold", "ucb-ald"),
        ):
            frame = run_task(make_task(study, rule=rule, seeds=2, iterations=3))
            assert frame.schema == SCHEMA
            assert frame["seed"].to_list() == [0, 0, 0, 1, 1, 1]
            assert frame["iteration"].to_list() == [1, 2, 3] * 2
            assert set(frame["study"]) == {study}
            low, high = problem_of(study).space.context_bounds.flatten().tolist()
            assert frame["context"].is_between(low, high).all()
            best = problem_of(study).optimal_score
            assert (frame["score"] <= best + 1e-6).all()
            assert (frame["seconds"] > 0).all()

    def test_repeats_itself_whatever_the_global_seed(self) -> None:
        task = make_task(rule="ts-random")
        torch.manual_seed(1)
        first = run_task(task)
        torch.manual_seed(2)
        second = run_task(task)
        assert without_times(first).equals(without_times(second))

    def test_fewer_iterations_are_a_beginning(self) -> None:
        long = run_task(make_task(iterations=3)).filter(pl.col("iteration") <= 2)
        short = run_task(make_task(iterations=2))
        assert without_times(long).equals(without_times(short))
