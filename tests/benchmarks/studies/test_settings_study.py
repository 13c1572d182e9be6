r"""Tests of the studies of settings, and of their problems."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from torch import Tensor

from benchmarks.studies import default_settings, mixed_duels
from benchmarks.studies.mixed_problems import Kind, MixedDuels
from benchmarks.studies.own_studies import OWN_STUDIES
from benchmarks.studies.settings_study import SettingsStudy, format_means
from tests.tensors import double, uniform

EVERY_KIND = {**mixed_duels.TUNING, **mixed_duels.PROBLEMS}


def best_parameters(problem: MixedDuels) -> Tensor:
    """The encoded parameters of the optimum."""
    columns = []
    for variable, (letter, optimum) in zip(
        problem._variables, problem._letters(), strict=True
    ):
        table = variable.table
        if table is None:
            columns.append(double([optimum]))
            continue
        index = int((table - optimum).abs().argmin())
        one_hot = torch.eye(len(table), dtype=torch.double)[index]
        columns.append(one_hot if letter == "c" else double([index / (len(table) - 1)]))
    return torch.cat(columns)


class TestMixedDuels:
    @pytest.mark.parametrize("name", EVERY_KIND)
    def test_optimum_can_be_shown_and_is_never_beaten(self, name: str) -> None:
        """It is one of the values that can be shown, and none of many is better."""
        problem = MixedDuels(EVERY_KIND[name])
        best = problem.score(best_parameters(problem))
        torch.testing.assert_close(
            best, double(problem.optimal_score), atol=1e-4, rtol=0
        )
        points = uniform(2000, problem.space.dim - 1)
        assert float(problem.score(points).max()) < problem.optimal_score + 1e-6

    @pytest.mark.parametrize("name", EVERY_KIND)
    def test_latent_at_the_reference_is_twice_the_score(self, name: str) -> None:
        """There the latent function is the score, up to its size."""
        problem = MixedDuels(EVERY_KIND[name])
        x = uniform(20, problem.space.dim - 1)
        latent = problem.latent(problem.space.at_reference(x))
        torch.testing.assert_close(latent, 2.0 * problem.score(x))

    def test_contexts_correlate_only_if_they_are_a_gain(self) -> None:
        """A gain is a factor; elsewhere something else is best."""
        parts = (("Hartmann 4D", "rrrr"),)
        x = uniform(200, 4)
        for kind, reference in (("gain", 0.5), ("drift", 0.5), ("blend", 0.0)):
            problem = MixedDuels(Kind(parts, kind, reference))
            here, there = (
                problem.latent(problem.space.join(x, double([s]))) for s in (-0.9, 1.0)
            )
            correlation = torch.corrcoef(torch.stack([here, there]))[0, 1]
            assert float(correlation) > 0.999 if kind == "gain" else correlation < 0.95

    def test_no_function_is_in_both_sets(self) -> None:
        tuned, reported = (
            {function for kind in kinds.values() for function, _ in kind.parts}
            for kinds in (mixed_duels.TUNING, mixed_duels.PROBLEMS)
        )
        assert not tuned & reported
        first = mixed_duels.PROBLEMS["Hartmann 6+3 gain"]
        letters = "".join(letters for _, letters in first.parts)
        assert sorted(letters) == sorted("rrrrrrcci")
        assert len(mixed_duels.PROBLEMS) == 8


class TestDefaultSettings:
    def test_encoded_trial_is_the_same_in_units_of_the_problem(self) -> None:
        """An encoded trial is the same trial in the units of the problem."""
        made = default_settings.threshold("Levy", 2)
        problem = made.problem
        named = made.settings().space
        encoder = made.settings().encoder()
        values = {"x1": 0.2, "x2": 0.7}
        row = encoder.encode({"s": 1.5}, [values])
        inner: Any = problem.problem
        expected = inner.success_probability(double([[1.5, 0.2, 0.7]]))
        torch.testing.assert_close(problem.success_probability(row), expected)
        assert named.contexts[0].harder == "up"
        torch.testing.assert_close(
            problem.score(row[:, 1:]), inner.score(double([[0.2, 0.7]]))
        )

    def test_lenses_have_a_score_for_each_seed_and_tuning_its_own(self) -> None:
        """A patient for each seed, and others in the report."""
        made = default_settings.lenses(5, default_settings.TUNING_SEED, 3)
        score = made.problem.score(uniform(1, 1, 2).expand(3, 1, 2))
        assert score.shape == (3, 1)
        assert len(score.unique()) == 3  # of the same lens
        assert default_settings.TUNING_SEED != default_settings.REPORT_SEED
        assert not set(default_settings.TUNING) & set(default_settings.PROBLEMS)


def tiny() -> SettingsStudy:
    kind = Kind((("Hartmann 3-D", "rci"),), "gain", 0.5)
    return replace(
        mixed_duels.STUDY,
        problems={"tiny": lambda seeds: mixed_duels.make_problem(kind, seeds)},
        ways={"target": {"rule": "muc-target"}, "random": {"rule": "random"}},
        checkpoints=(6, 8),
    )


def test_run_and_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is finished is not computed again, and the report has every way."""
    study = tiny()
    arguments = Namespace(seeds=2, output=tmp_path, functions=None, rules=["target"])
    study.run(arguments)
    assert "target on tiny is finished" in capsys.readouterr().out
    (path,) = (tmp_path / study.name).glob("*.parquet")
    frame = pl.read_parquet(path)
    assert frame.select("trials", "seed").rows() == [(6, 0), (6, 1), (8, 0), (8, 1)]
    assert bool((frame["regret"] >= 0).all())
    study.run(Namespace(seeds=2, output=tmp_path, functions=None, rules=None))
    assert "target" not in capsys.readouterr().out
    text = study.write_report(tmp_path).read_text()
    assert "| target |" in text
    assert "| random |" in text


def test_means_count_each_common_problem_the_same() -> None:
    """Over the problems that all ways have; each counts the same."""
    rows = [("a", "w", 1.0), ("a", "w", 3.0), ("b", "w", 5.0), ("b", "w", 5.0)]
    rows += [("a", "v", 2.0), ("b", "v", 2.0), ("c", "v", 99.0)]
    frame = pl.DataFrame(
        [
            {"problem": p, "way": way, "seed": s, "trials": 9, "regret": r}
            for s, (p, way, r) in enumerate(rows)
        ]
    )
    # The error of the mean of a is 1, that of b is 0; half of it remains.
    text = format_means(frame, {"w": {}, "v": {}, "not run": {}})
    assert "| w | 3.500 ± 0.500 | 2 |" in text
    assert "| v | 2.00" in text
    assert "not run" not in text


def test_studies_of_settings_are_among_the_own_studies() -> None:
    assert {"coverage", "mixed-duels", "default-settings"} <= set(OWN_STUDIES)
