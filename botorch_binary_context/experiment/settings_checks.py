r"""
Checks that the settings of an experiment are valid together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.drift import check_drift
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.goal import (
    NamedGoal,
    check_goal,
    check_threshold_only,
)
from botorch_binary_context.experiment.interleaving import check_interleaving
from botorch_binary_context.experiment.lens import (
    POWER_VECTOR,
    are_sphere_and_cylinder,
)
from botorch_binary_context.experiment.lens_blur import check_blur
from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.experiment.space import NamedSpace
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.toml_tables import choose
from botorch_binary_context.experiment.trial import SIDE_NAMES, join_values
from botorch_binary_context.experiment.variables import Real
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.power_vectors import SPHERE_AND_CYLINDER

if TYPE_CHECKING:
    from botorch_binary_context.experiment.settings import Settings

KERNELS = ("additive", "multiplicative", "product")
PRIORS = ("pooled", "separate", "wide", "peak", "blur")
#: The ways of inference by their names.
INFERENCES: dict[str, type[Inference]] = {
    "expectation propagation": ExpectationPropagation,
    "laplace": Laplace,
}
#: Combinations of parameters that have a name.
COMBINATIONS = {POWER_VECTOR: SPHERE_AND_CYLINDER}
#: Settings with keys of their own.
SETTING_TABLES = {"stop": Stop, "goal": NamedGoal, "mean_function": MeanFunction}
MAX_COLUMNS = 500
MAX_COUNT = 10**100


def check_settings(settings: Settings) -> None:
    r"""Raise an error if settings do not go together.

    Args:
        settings: The settings, with every default filled in.
    """
    if not settings.space.parameters:
        check_threshold_only(settings)
    _check_rule(settings)
    if settings.goal is not None:
        check_goal(settings, settings.goal)
        settings.make_goal()  # checks its contexts
    _check_kernel(settings)
    if settings.drift is not None:
        sees_offset = settings.feedback.functional.sees_offset
        check_drift(settings.drift, sees_offset, settings.goal, settings.combinations)
    choose(INFERENCES, settings.inference, "inference")
    _check_priors(settings)
    check_interleaving(
        settings.space,
        settings.catch_rate,
        settings.catch,
        settings.easy_rate,
        settings.kept_out,
    )
    _check_count("initial_trials", settings.initial_trials)
    if settings.seed is not None:
        _check_count("seed", settings.seed)
    _check_size(settings)
    _check_names(settings)
    _check_stop(settings)
    if settings.combinations is not None:
        _check_combinations(settings)


def check_kinds(settings: Settings) -> None:
    r"""Raise an error if a setting is of the wrong kind, before any other check.

    Args:
        settings: The settings.
    """
    for name, kind in (
        ("space", NamedSpace),
        ("feedback", Feedback),
        ("hyperparameters", Mapping),
    ):
        value = getattr(settings, name)
        if not isinstance(value, kind):
            raise InputDataError(
                f"Expected ``{name}`` to be a {kind.__name__}, but got {quote(value)}."
            )
    for name, kind in SETTING_TABLES.items():
        value = getattr(settings, name)
        if value is not None and not isinstance(value, kind):
            raise InputDataError(
                f"Expected ``{name}`` to be a {kind.__name__} or None, but got "
                f"{quote(value)}."
            )


def _check_stop(settings: Settings) -> None:
    if settings.stop is None:
        return
    if settings.measures:
        settings.stop.check_without_best(bool(settings.space.parameters))
    graded = [c for c in settings.space.contexts if c.harder is not None]
    has_threshold = settings.feedback.functional.sees_offset and len(graded) == 1
    if settings.stop.threshold_width is not None and not (
        has_threshold and len(settings.space.contexts) == 1
    ):
        raise UnsupportedError(
            "Expected pass/fail outcomes and one context that says which way is "
            "``harder`` with ``threshold_width`` of ``stop``, but got "
            f"{settings.feedback.kind} and contexts "
            f"{[c.name for c in settings.space.contexts]}."
        )


def _check_size(settings: Settings) -> None:
    """Check that trials are not too large for searches and quasi-random points."""
    sides = settings.feedback.num_sides
    columns = sum(parameter.num_columns for parameter in settings.space.parts)
    total = len(settings.space.contexts) + sides * columns
    if total > MAX_COLUMNS:
        raise UnsupportedError(
            f"Expected a trial to have at most {MAX_COLUMNS} columns, one for each "
            "context, number and category that it shows, but got "
            f"{total}."
        )


def _check_names(settings: Settings) -> None:
    """Check that each value of a trial has its own name."""
    shown = {part.name: "" for part in settings.space.parts}
    contexts = settings.space.reference_context()
    together = join_values(contexts, (shown,) * settings.feedback.num_sides)
    names = SIDE_NAMES[: settings.feedback.num_sides]
    if len(together) < len(contexts) + len(names) * len(shown):
        raise InputDataError(
            "Expected ``contexts`` to have other names than the parameters of a "
            f"side, which begin with {' and '.join(names)}, but got "
            f"{', '.join(contexts)}."
        )


def _check_rule(settings: Settings) -> None:
    rules = settings.feedback.rules
    if not isinstance(settings.rule, str) or settings.rule not in rules:
        raise UnsupportedError(
            f"Expected ``rule`` to be a rule for {settings.feedback.kind}, one of "
            f"{', '.join(rules)}, but got {quote(settings.rule)}."
        )


def _check_priors(settings: Settings) -> None:
    choose(dict.fromkeys(PRIORS), settings.priors, "priors")
    circles = [p.name for p in settings.space.parameters if isinstance(p, Periodic)]
    if circles and settings.priors in ("separate", "peak", "blur"):
        raise InputDataError(
            "Expected ``priors`` to be 'pooled' with periodic parameters, but got "
            f"{quote(settings.priors)} with {', '.join(circles)}."
        )
    if settings.priors not in ("peak", "blur"):
        return
    if not settings.space.parameters or settings.kernel != "additive":
        raise UnsupportedError(
            f"Expected ``priors`` to be {settings.priors!r} only with parameters and "
            f"an additive kernel, but got the kernel {quote(settings.kernel)} and "
            f"{len(settings.space.parameters)} parameters."
        )
    if settings.priors == "blur":
        check_blur(settings)


def _check_kernel(settings: Settings) -> None:
    if not settings.space.contexts:
        if settings.kernel is not None:
            raise UnsupportedError(
                "Expected ``kernel`` to be left out without contexts, but got "
                f"{quote(settings.kernel)}."
            )
        return
    if settings.kernel not in KERNELS:
        raise UnsupportedError(
            f"Expected ``kernel`` to be one of {', '.join(KERNELS)}, but got "
            f"{quote(settings.kernel)}."
        )
    if settings.kernel == "additive" and not settings.feedback.functional.sees_offset:
        raise UnsupportedError(
            "Expected ``kernel`` to be 'multiplicative' or 'product' for duels, "
            "but got 'additive', which cancels between the two sides."
        )
    logs = [c.name for c in settings.space.contexts if c.scale == "log"]
    if settings.kernel == "multiplicative" and logs:
        raise UnsupportedError(
            "Expected contexts on a linear scale with a 'multiplicative' "
            f"``kernel``, but got {', '.join(logs)} on a log scale."
        )


def _check_combinations(settings: Settings) -> None:
    linear = {parameter.name for parameter in linear_parameters(settings)}
    others = [p.name for p in settings.space.parameters if p.name not in linear]
    if others:
        raise UnsupportedError(
            "Expected parameters to be real numbers on a linear scale with "
            f"``combinations``, but got {', '.join(others)}. Sphere, cylinder and "
            'axis are one parameter: ``Lens``, or type = "lens".'
        )
    if settings.kernel == "multiplicative":
        raise UnsupportedError(
            "Expected ``kernel`` to be 'additive' or 'product' with "
            "``combinations``, but got 'multiplicative'."
        )
    settings.coordinates()  # checks the matrix


def find_combinations(settings: Settings) -> Sequence[Sequence[float]]:
    r"""The rows of the combinations, including named ones.

    Args:
        settings: The settings, with combinations.

    Returns:
        A row for each combination.
    """
    if not isinstance(settings.combinations, str):
        assert settings.combinations is not None
        return settings.combinations
    rows = choose(COMBINATIONS, settings.combinations, "combinations")
    names = [parameter.name for parameter in settings.space.parameters]
    if not are_sphere_and_cylinder(names):
        raise InputDataError(
            f"Expected the parameters of {settings.combinations!r} to be sphere and "
            f"cylinder by their names, in this order, but got {', '.join(names)}. "
            "Give others their combinations, as in [[1.0, 0.5], [0.0, 0.5]]."
        )
    return rows


def linear_parameters(settings: Settings) -> list[Real]:
    r"""The parameters for which linear combinations make sense.

    Args:
        settings: The settings.

    Returns:
        The real ones on a linear scale.
    """
    return [
        parameter
        for parameter in settings.space.parameters
        if type(parameter) is Real and parameter.scale == "linear"
    ]


def _check_count(name: str, value: Any) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 0 <= value <= MAX_COUNT:
        raise InputDataError(
            f"Expected ``{name}`` to be a whole number from 0 to {MAX_COUNT:g}, but "
            f"got {quote(value)}."
        )
