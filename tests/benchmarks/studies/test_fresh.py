r"""Tests of the studies on fresh seeds."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.studies import refraction
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import Task, draw_randomness, make_case, run_task
from botorch_binary_context.inference import ExpectationPropagation, Laplace
from tests.benchmarks.studies.small_studies import stub_hyperparameters
from tests.tensors import uniform


def task(study: str, function: str = "Levy", rule: str = "random") -> Task:
    fitted = (
        refraction.load(function)
        if function.startswith("slope")
        else stub_hyperparameters(function)
    )
    return Task(study, function, rule, 2, 2, fitted)


@pytest.mark.parametrize("name", ["binary", "duels", "threshold"])
def test_same_problem_on_other_seeds(name: str) -> None:
    tasks = [task(name), task(f"fresh-{name}"), task(f"fresh-{name}-ep")]
    cases = [make_case(t) for t in tasks]
    drawn = [draw_randomness(t, c) for t, c in zip(tasks, cases, strict=True)]
    assert not torch.equal(drawn[0][0], drawn[1][0])
    assert not torch.equal(drawn[0][1], drawn[1][1])
    # The two inferences see the same trials and the same noise.
    assert torch.equal(drawn[1][0], drawn[2][0])
    assert torch.equal(drawn[1][1], drawn[2][1])
    Y = uniform(2, drawn[1][0].shape[1], 1).round()
    models = [case.model(drawn[1][0], Y) for case in cases]
    kinds = [type(model.inference) for model in models]
    assert kinds == [Laplace, Laplace, ExpectationPropagation]


def test_fresh_patients() -> None:
    name = STUDIES["fresh-refraction-anywhere"].functions[0]
    known: Any = make_case(task("refraction-anywhere", name)).problem
    new: Any = make_case(task("fresh-refraction-anywhere", name)).problem
    again: Any = make_case(task("fresh-refraction-anywhere-ep", name)).problem
    assert not torch.equal(known.prescription, new.prescription)
    assert torch.equal(again.prescription, new.prescription)
    two: Any = make_case(task("fresh-alternatives", "slope 5, 2 alternatives")).problem
    assert torch.equal(two.prescription, new.prescription)
    assert float(two.likelihood.guess_rate) == 0.5


def test_a_task_runs() -> None:
    for study, rule in (("fresh-binary-ep", "mkg"), ("fresh-duels", "eubo-ald")):
        frame = run_task(task(study, rule=rule))
        assert len(frame) == 4
