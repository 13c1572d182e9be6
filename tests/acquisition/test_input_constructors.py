from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import UnsupportedError
from botorch.models import ModelListGP
from botorch.utils.datasets import SupervisedDataset
from botorch.utils.sampling import manual_seed

import botorch_binary_context
from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    BinaryUpperConfidenceBound,
    ContextAverage,
    ContextualBinaryKnowledgeGradient,
    ContextualJointEntropySearch,
    ExpectedAbsoluteVolumeChange,
    ExpectedBestOption,
    GlobalMutualInformation,
    GoalUpperConfidenceBound,
    GradientInformation,
    LatentGoalUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
    MomentMatchedKnowledgeGradient,
    OneShotContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
    RefittedKnowledgeGradient,
    SampledKnowledgeGradient,
    Straddle,
    TargetedInformation,
    WorstContext,
    acquisition,
)
from tests.acquisition.problems import Problem, assert_close
from tests.devices import RequireDevice
from tests.tensors import double, uniform

BINARY = Problem("product", 1)
DUELS = Problem("product", 1, PreferenceLaplaceGP)
AVERAGE = ContextAverage([0.1, 0.4])
WORST = WorstContext([0.1, 0.4])

# What a user gives beside the model, the settings that may be given, and the rows of
# a candidate beside those of a trial.
REQUIRED: dict[Any, dict[str, Any]] = {
    BinaryUpperConfidenceBound: {},
    LatentUpperConfidenceBound: {},
    GoalUpperConfidenceBound: {"space": BINARY.space},
    LatentGoalUpperConfidenceBound: {"space": BINARY.space},
    BernoulliMutualInformation: {},
    MaximallyUncertainChallenge: {"incumbent": double([0.8, 0.3])},
    ContextualBinaryKnowledgeGradient: {"space": BINARY.space},
    OneShotContextualBinaryKnowledgeGradient: {"space": BINARY.space},
    ContextualJointEntropySearch: {"space": BINARY.space},
    MomentMatchedKnowledgeGradient: {"space": BINARY.space},
    RefittedKnowledgeGradient: {"space": BINARY.space, "goal": WORST},
    SampledKnowledgeGradient: {"space": BINARY.space, "goal": WORST},
    GlobalMutualInformation: {"space": BINARY.space},
    ExpectedAbsoluteVolumeChange: {"space": BINARY.space},
    Straddle: {},
    TargetedInformation: {"target": double([[0.8, 0.3]])},
    ExpectedBestOption: {"space": BINARY.space},
    GradientInformation: {"space": BINARY.space},
}
SETTINGS: dict[Any, dict[str, Any]] = {
    BinaryUpperConfidenceBound: {"beta": 0.3},
    LatentUpperConfidenceBound: {"beta": 0.3},
    GoalUpperConfidenceBound: {"beta": 0.3, "goal": AVERAGE},
    LatentGoalUpperConfidenceBound: {"beta": 0.3, "goal": WORST},
    BernoulliMutualInformation: {"X_pending": double([[0.3, 0.4], [0.6, 0.1]])},
    MaximallyUncertainChallenge: {"X_pending": double([[0.3, 0.4], [0.3, 0.1]])},
    ContextualBinaryKnowledgeGradient: {"num_points": 7, "current_value": double(0.5)},
    OneShotContextualBinaryKnowledgeGradient: {"current_value": double(0.5)},
    ContextualJointEntropySearch: {
        "num_paths": 3,
        "mixture": True,
        "seed": 0,
        "goal": WORST,
    },
    MomentMatchedKnowledgeGradient: {"num_points": 7, "goal": AVERAGE},
    RefittedKnowledgeGradient: {"num_points": 7},
    SampledKnowledgeGradient: {"num_points": 7},
    GlobalMutualInformation: {"num_points": 7, "probability": 0.7},
    ExpectedAbsoluteVolumeChange: {"num_points": 7, "probability": 0.7},
    Straddle: {"width": 1.0, "probability": 0.7},
    TargetedInformation: {"X_pending": double([[0.3, 0.4], [0.6, 0.1]])},
    ExpectedBestOption: {"goal": WORST},
    GradientInformation: {"step": 0.1, "goal": AVERAGE},
}
PENDING = double([[0.3, 0.4], [0.3, 0.1]])
every_class = pytest.mark.parametrize("acqf_class", list(REQUIRED))


def problem_of(acqf_class: Any) -> Problem:
    of_duels = (MaximallyUncertainChallenge, ExpectedBestOption)
    return DUELS if acqf_class in of_duels else BINARY


def rows_of(acqf_class: Any) -> int:
    special = {OneShotContextualBinaryKnowledgeGradient: 3, ExpectedBestOption: 2}
    return special.get(acqf_class, 1)


def exported(module: Any) -> set[Any]:
    """The acquisition functions that a module exports."""
    names = (getattr(module, name) for name in module.__all__)
    return {
        item
        for item in names
        if isinstance(item, type) and issubclass(item, AcquisitionFunction)
    }


def test_every_exported_function_is_covered() -> None:
    assert exported(acquisition) == set(REQUIRED)
    assert exported(botorch_binary_context) == set(REQUIRED)


@every_class
class TestConstructors:
    def test_without_settings_uses_the_defaults_of_the_class(
        self, acqf_class: Any
    ) -> None:
        """Without settings the constructor gives the defaults of the class."""
        problem = problem_of(acqf_class)
        required = {"model": problem.model, **REQUIRED[acqf_class]}
        kwargs = get_acqf_input_constructor(acqf_class)(**required)
        acqf = acqf_class(**kwargs)
        plain = acqf_class(**required)
        assert kwargs["model"] is problem.model
        if acqf_class is ContextualJointEntropySearch:  # its draw has no seed
            torch.manual_seed(0)
            acqf = acqf_class(**kwargs)
            torch.manual_seed(0)
            plain = acqf_class(**required)
        X = uniform(4, rows_of(acqf_class), 2)
        assert_close(acqf(X), plain(X), 1e-12)

    def test_passes_settings_on_to_the_class(self, acqf_class: Any) -> None:
        problem, settings = problem_of(acqf_class), SETTINGS[acqf_class]
        required = {"model": problem.model, **REQUIRED[acqf_class]}
        kwargs = get_acqf_input_constructor(acqf_class)(**required, **settings)
        for name, value in settings.items():
            assert kwargs[name] is value
        X = uniform(4, rows_of(acqf_class), 2)
        expected = acqf_class(**required, **settings)(X)
        assert_close(acqf_class(**kwargs)(X), expected, 1e-12)

    def test_pending_trials(self, acqf_class: Any) -> None:
        """What Ax passes while trials run: it makes a difference."""
        problem = problem_of(acqf_class)
        required = {"model": problem.model, **REQUIRED[acqf_class]}
        if acqf_class is ContextualJointEntropySearch:
            required["seed"] = 0
        kwargs = get_acqf_input_constructor(acqf_class)(**required, X_pending=PENDING)
        acqf = acqf_class(**kwargs)
        idle = acqf_class(**required)
        X = uniform(4, rows_of(acqf_class), 2)
        pending = acqf(X)
        assert (pending - idle(X)).abs().max() > 1e-6
        idle.set_X_pending(PENDING)
        assert_close(idle(X), pending, 1e-12)
        acqf.set_X_pending(None)
        assert_close(acqf(X), acqf_class(**required)(X), 1e-12)

    def test_what_ax_passes_to_all(self, acqf_class: Any) -> None:
        """Arguments that BoTorch passes to every constructor are ignored."""
        problem = problem_of(acqf_class)
        data = SupervisedDataset(
            X=uniform(3, 2),
            Y=double([[0.0], [1.0], [1.0]]),
            feature_names=["s", "x"],
            outcome_names=["c"],
        )
        kwargs = get_acqf_input_constructor(acqf_class)(
            model=problem.model,
            training_data=data,
            bounds=[(0.0, 1.0), (0.0, 1.0)],
            objective=None,
            posterior_transform=None,
            constraints=None,
            **REQUIRED[acqf_class],
        )
        assert isinstance(acqf_class(**kwargs), acqf_class)

    def test_unknown_argument(self, acqf_class: Any) -> None:
        with pytest.raises(TypeError, match="Unexpected keyword argument `beat`"):
            get_acqf_input_constructor(acqf_class)(
                model=problem_of(acqf_class).model, beat=1.0, **REQUIRED[acqf_class]
            )

    def test_missing_argument(self, acqf_class: Any) -> None:
        for name in ("model", *REQUIRED[acqf_class]):
            given = {"model": problem_of(acqf_class).model, **REQUIRED[acqf_class]}
            del given[name]
            with pytest.raises(TypeError, match=name):
                get_acqf_input_constructor(acqf_class)(**given)

    def test_makes_nothing_on_the_default_device(self, acqf_class: Any) -> None:
        """Nothing is made on the default device, from construction to gradient."""
        X = uniform(4, rows_of(acqf_class), 2).requires_grad_()
        with RequireDevice():
            kwargs = get_acqf_input_constructor(acqf_class)(
                model=problem_of(acqf_class).model, **REQUIRED[acqf_class]
            )
            acqf_class(**kwargs)(X).sum().backward()
        assert X.grad is not None
        assert X.grad.isfinite().all()


@every_class
def test_a_list_of_one_model(acqf_class: Any) -> None:
    """Ax wraps the model of a metric in such a list."""
    problem = problem_of(acqf_class)
    X = uniform(4, rows_of(acqf_class), 2, seed=1)
    X[..., 0] = X[..., :1, 0]
    constructor = get_acqf_input_constructor(acqf_class)
    values = []
    for model in (problem.model, ModelListGP(problem.model)):
        with manual_seed(0):
            acqf = acqf_class(**constructor(model=model, **REQUIRED[acqf_class]))
            values.append(acqf(X).detach())
    assert_close(values[1], values[0], 1e-12)


def test_a_list_of_two_models() -> None:
    with pytest.raises(UnsupportedError, match="a single model, but got a list of 2"):
        BinaryUpperConfidenceBound(ModelListGP(BINARY.model, BINARY.model))  # pyright: ignore


def test_problems_are_of_both_kinds() -> None:
    assert isinstance(BINARY.model, BinaryLaplaceGP)
    assert isinstance(DUELS.model, PreferenceLaplaceGP)
