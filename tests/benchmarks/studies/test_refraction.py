from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
import torch
from gpytorch.kernels import ConstantKernel, MaternKernel, RBFKernel
from matplotlib.image import imread

from benchmarks.__main__ import main
from benchmarks.studies import store
from benchmarks.studies.acuity import trials_to_reach
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import SCHEMA, Task, make_case, run_task
from benchmarks.studies.patient_models import MODELS, SURROGATES, TABLES
from benchmarks.studies.refraction import (
    CASES,
    PatientCase,
    draw_prescriptions,
    load,
    name_cases,
    show,
)
from benchmarks.studies.report import write_report
from benchmarks.studies.runner import run_study
from botorch_binary_context import (
    CombineParameters,
    LinearContextMean,
    SearchOptions,
    suggest,
)
from botorch_binary_context.problems import RefractionProblem
from tests.benchmarks.studies.small_studies import compute_here
from tests.closeness import assert_all_close
from tests.tensors import double, uniform

REFRACTION_SCHEMA = pl.Schema({**SCHEMA, "sphere": pl.Float32, "cylinder": pl.Float32})


def make_task(function: str, rule: str = "ucb-ald", iterations: int = 2) -> Task:
    """A short task."""
    study = "refraction-steps" if "," in function else "refraction"
    return Task(study, function, rule, 2, iterations, load(function))


class TestNames:
    def test_cases_are_found_by_their_names(self) -> None:
        assert PatientCase(5, "paper").name == "slope 5, paper"
        assert PatientCase(5).name == "slope 5"
        for name, case in CASES.items():
            assert case.name == name
        assert [show(x) for x in ("slope 5, level", "slope 5", "Levy", "level")] == [
            "slope 5, offset",
            "slope 5",
            "Levy",
            "level",
        ]
        assert name_cases((2, 8), ("power", "2 alternatives, peak")) == (
            "slope 2, power",
            "slope 2, 2 alternatives, peak",
            "slope 8, power",
            "slope 8, 2 alternatives, peak",
        )
        for study in STUDIES.values():
            if study.load is load:
                assert set(study.functions) <= set(CASES)

    def test_a_name_is_the_same_model_in_all_tables(self) -> None:
        for table in TABLES:
            for name, model in table.items():
                assert MODELS[name] is model


class TestCases:
    def test_prescriptions(self) -> None:
        drawn = draw_prescriptions(40)
        assert torch.equal(drawn[:3], draw_prescriptions(3))
        assert bool((drawn.abs() <= 3.0).all())
        assert float(drawn.std(dim=0).min()) > 1.0

    def test_centered(self) -> None:
        case = make_case(make_task("slope 3"))
        assert isinstance(case.problem, RefractionProblem)
        assert case.problem.slope == 3.0
        assert_all_close(case.problem.prescription, double([0.0, 0.0]))
        assert case.refits == frozenset()

    def test_same_randomness_for_all_surrogates(self) -> None:
        cases = [make_case(make_task(PatientCase(5, name).name)) for name in SURROGATES]
        assert len({case.randomness for case in cases}) == 1
        for case in cases:
            assert isinstance(case.problem, RefractionProblem)
            assert_all_close(case.problem.prescription, draw_prescriptions(2))

    def test_what_surrogates_are(self) -> None:
        bare, open_offset = {"paper"}, {"level", "size", "robust", "rough"}
        far, smooth = {"paper", "level"}, {"paper", "level", "size", "robust"}
        guessing, learning = {"default", "power"}, {"learned", "default", "power"}
        for name, surrogate in SURROGATES.items():
            case = make_case(make_task(PatientCase(5, name).name))
            low, high = case.problem.space.bounds
            X = torch.lerp(low, high, uniform(2, 5, 3))
            model: Any = case.model(X, (X[..., :1] > 0.5).double())
            guess_rate = 1 / 26 if name in guessing else 0.0
            assert model.likelihood.guess_rate == guess_rate
            assert surrogate.learns == (name in learning)
            assert bool(case.refits) == (name in learning)
            offsets = [k for k in model.modules() if isinstance(k, ConstantKernel)]
            variances = [float(offset.constant.max()) for offset in offsets]
            assert variances == ([] if name in bare else [25.0])
            is_smooth = any(isinstance(k, RBFKernel) for k in model.modules())
            is_rough = any(isinstance(k, MaternKernel) for k in model.modules())
            assert (is_smooth, is_rough) == (name in smooth, name not in smooth)
            size = float(case.problem.space.reference_context)
            assert size == (1.0 if name in far else 0.5)
            has_mean = isinstance(model.mean_module, LinearContextMean)
            assert has_mean == (name not in bare | open_offset)
            transform = getattr(model, "input_transform", None)
            assert isinstance(transform, CombineParameters) == (name == "power")

    def test_every_surrogate_runs(self) -> None:
        for name in SURROGATES:
            frame = run_task(make_task(PatientCase(5, name).name, iterations=5))
            assert frame.schema == REFRACTION_SCHEMA
            problem = RefractionProblem()
            lens = torch.tensor(frame.select("sphere", "cylinder").to_numpy())
            score = torch.tensor(frame["score"].to_numpy())
            assert_all_close(problem.score(lens), score, atol=1e-5)

    def test_search_of_the_knowledge_gradient(self) -> None:
        with mock.patch("benchmarks.studies.experiment.suggest", wraps=suggest) as spy:
            run_task(make_task("slope 3", "cbkg", iterations=1))
            run_task(make_task("slope 3", "random", iterations=1))
        found = [call.args[3].num_restarts for call in spy.call_args_list]
        assert found == [3, SearchOptions().num_restarts]

    def test_learning(self) -> None:
        task = make_task(PatientCase(5, "default").name, iterations=5)
        with mock.patch("benchmarks.studies.experiment.fit_gpytorch_mll") as fit:
            run_task(task)
        assert fit.call_count == 1  # at ten trials


class TestReport:
    def test_trials_to_reach(self) -> None:
        assert trials_to_reach([0.5, 0.1, 0.3, 0.1, 0.05], 0.1) == 4
        assert trials_to_reach([0.1, 0.1], 0.1) == 1
        assert trials_to_reach([0.1, 0.2], 0.1) is None

    def test_report(self) -> None:
        study = STUDIES["refraction"].subset(
            ["slope 5"], ["ucb-ald", "random"], seeds=2, iterations=3
        )
        with TemporaryDirectory() as directory:
            root = Path(directory)
            run_study(study, root / "refraction", compute_here)
            main(["report", "refraction", "--output", directory])
            text = (root / "refraction" / "report.md").read_text(encoding="utf-8")
            for name in ("acuity.png", "patient.png", "regret.png"):
                assert name in text
                picture = imread(root / "refraction" / name)
                assert min(picture.shape[:2]) > 200
                assert (
                    len(np.unique(picture.reshape(-1, picture.shape[-1]), axis=0)) > 50
                )
            last = store.load(root / "refraction").filter(pl.col("iteration") == 3)
        for rule in study.rules:
            acuity = -last.filter(pl.col("rule") == rule)["score"]
            assert f"| `{rule}` | {acuity.mean():.4f} ± " in text
            assert f"| `{rule}` | {acuity.mean():.3f} |" in text
        assert "0.0248" in text
        assert "logMAR, negated" in text
        assert "surrogates.png" not in text
        assert "## Surrogates" not in text

    def test_case_of_known_results(self) -> None:
        seeds, iterations = 2, 4
        rows: dict[str, Any] = {"seed": np.repeat(range(seeds), iterations)}
        rows["iteration"] = np.tile(range(1, iterations + 1), seeds)
        acuity = np.array([0.9, 0.2, 0.04, 0.03, 0.7, 0.1, 0.04, 0.01])
        rows |= {"study": "refraction", "function": "slope 5", "context": 0.5}
        rows |= {"seconds": 0.1, "score": -acuity, "cylinder": -0.5}
        rows["sphere"] = np.array([0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, -0.4])
        with TemporaryDirectory() as directory:
            root = Path(directory)
            for rule in STUDIES["refraction"].rules:
                frame = pl.DataFrame(rows | {"rule": rule}).select(*REFRACTION_SCHEMA)
                path = store.result_path(root / "refraction", "slope 5", rule)
                store.save(frame.cast(REFRACTION_SCHEMA), path)
            text = write_report("refraction", root).read_text(encoding="utf-8")
        assert (
            "| `cjes` | 0.0200 ± 0.0100 | 0.020 | 0.030 | 0 | -0.100 ± 0.300 | 0.300 | "
            "-0.500 ± 0.000 | 0.500 | 3 | 3 | 4 |" in text
        )

    def test_report_on_unfinished_studies(self) -> None:
        # Only a slope without figures, and no slope that both rules have finished.
        for finished in (
            {"random": "slope 2"},
            {"random": "slope 2", "bald": "slope 5"},
        ):
            with TemporaryDirectory() as directory:
                root = Path(directory)
                for rule, case in finished.items():
                    study = STUDIES["refraction"].subset([case], [rule], 2, 1)
                    run_study(study, root / "refraction", compute_here)
                text = write_report("refraction", root).read_text(encoding="utf-8")
            assert "patient.png" in text
            assert "acuity.png" not in text
            cases = re.findall(r"## Acuity: (.*)\n", text)
            assert cases == list(finished.values())
            for rule, case in finished.items():
                table = text.split(f"## Acuity: {case}\n")[1].split("\n## ")[0]
                assert re.findall(r"^\| `([\w-]+)` ", table, re.MULTILINE) == [rule]

    def test_report_on_surrogates(self) -> None:
        name, rules = "refraction-steps", ("ucb-ald", "ts-ald")
        cases = ("slope 5, paper", "slope 5, level", "slope 5, default")
        study = STUDIES[name].subset(cases, rules, seeds=2, iterations=3)
        with TemporaryDirectory() as directory:
            root = Path(directory)
            run_study(study, root / name, compute_here)
            text = write_report(name, root).read_text(encoding="utf-8")
            for figure in ("acuity.png", "surrogates.png"):
                assert figure in text
                assert (root / name / figure).stat().st_size > 10_000
        assert "| rule | slope 5, paper | slope 5, offset | slope 5, default |" in text
        assert "- `learned`: hyperparameters that are learned" in text
        assert "- `offset`: a constant in the kernel" in text
        assert "| slope 5, paper → offset, `ucb-ald` |" in text
        assert "| slope 5, offset → default, `ts-ald` |" in text
        for case in cases:
            assert f"## Acuity: {show(case)}\n" in text
        assert "level" not in text  # the name in results

    def test_report_on_one_surrogate_has_no_steps(self) -> None:
        name = "refraction-steps"
        study = STUDIES[name].subset(["slope 5, paper"], ["ucb-ald"], 2, 1)
        with TemporaryDirectory() as directory:
            root = Path(directory)
            run_study(study, root / name, compute_here)
            text = write_report(name, root).read_text(encoding="utf-8")
        assert "## Surrogates" in text
        assert "## Steps" not in text
