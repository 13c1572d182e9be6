r"""
The settings of an experiment: its variables, its kind of feedback, its rule.

Settings convert to and from plain dictionaries, in the same form for TOML files and for
the journal.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.drift import check_drift
from botorch_binary_context.experiment.feedback import (
    PassFail,
    make_feedback,
)
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.goal import (
    MAP,
    NamedGoal,
    check_goal,
    check_threshold_only,
)
from botorch_binary_context.experiment.interleaving import (
    CATCH,
    check_interleaving,
)
from botorch_binary_context.experiment.lens import (
    POWER_VECTOR,
    AnyParameter,
    Lens,
    are_sphere_and_cylinder,
)
from botorch_binary_context.experiment.space import Encoder, NamedSpace
from botorch_binary_context.experiment.stopping import Stop
from botorch_binary_context.experiment.toml_tables import (
    check_keys,
    choose,
    make,
    table_of,
    tables,
)
from botorch_binary_context.experiment.trial import SIDE_NAMES, join_values
from botorch_binary_context.experiment.variables import (
    Categorical,
    Context,
    Integer,
    Real,
    Value,
)
from botorch_binary_context.goals import Goal, ThresholdMap
from botorch_binary_context.inference import (
    ExpectationPropagation,
    Inference,
    Laplace,
)
from botorch_binary_context.models.coordinates import (
    CombineParameters,
    check_combinations,
)
from botorch_binary_context.models.power_vectors import SPHERE_AND_CYLINDER

KERNELS = ("additive", "multiplicative", "product")
PRIORS = ("pooled", "separate")
MIN_INITIAL_TRIALS = 5
#: The default rule for learning thresholds.
MEASURE = "bald"
#: Combinations of parameters that have a name.
COMBINATIONS = {POWER_VECTOR: SPHERE_AND_CYLINDER}
MAX_COLUMNS = 500
MAX_COUNT = 10**100
SEED_BITS = 32


@dataclass(frozen=True)
class Settings:
    r"""Everything that is fixed when an experiment begins.

    Attributes:
        space: The parameters and the contexts.
        feedback: ``PassFail``, ``Duels``, ``BestOf`` or another kind of answers.
        rule: The name of a rule of ``BINARY_RULES``, ``DUEL_RULES`` or
            ``CONTEST_RULES``; by default "ucb99-ald" for pass/fail outcomes,
            "muc-target" for duels, "qeubo" for the best of several, and "bald" without
            parameters or for a map.
        kernel: What a context does: "additive" shifts the performance (the default for
            pass/fail outcomes), "multiplicative" scales it, "product" may change it
            freely (the default for duels). None without contexts.
        seed: The random seed. If None, each experiment draws its own when it begins and
            stores it in its journal.
        initial_trials: How many answers there are before the rule takes over from
            quasi-random trials; by default two for each variable and at least five, but
            none without parameters.
        hyperparameters: Hyperparameters of the kernel that are fixed instead of
            learned, by name, in the units of the box (parameters in [0, 1], contexts in
            [-1, 1]): "outputscale", "lengthscale" (one number, or one for each column
            of the parameters), "slope" (additive kernel), "context_lengthscale"
            (product kernel).
        combinations: Linear combinations of the parameters, in their own units, that
            have lengthscales instead of the parameters, where these act together: one
            row for each; "power-vector" for the sphere and cylinder of a lens (with an
            axis, ``Lens`` is one parameter for all three). None for the parameters
            themselves.
        inference: How the posterior is approximated: "expectation propagation" (the
            default) or "laplace".
        priors: The priors of the kernel: "pooled" (the default) pulls lengthscales
            toward a common one and learns how similar the values of a categorical
            parameter are; "separate" has an unrelated lengthscale for every column,
            including every category.
        stop: When to stop; None to leave that to the experimenter.
        goal: What the parameters should be good at; None for the reference context.
        catch_rate: The share of catch trials in between, at most a half.
        catch: The values of contexts and parameters that a catch trial shows, by name;
            the others are as in the trial that it replaces. If only parameters of a
            duel are given, they are those of its first side.
        easy_rate: The share of trials in between whose contexts are the easiest.
        kept_out: Which of these the model does not learn from: "catch" (the default) or
            "easy".
        drift: Over about how many answers the overall performance changes, by learning
            or fatigue; the speed is learned. Recommendations are then about the
            present. None if it does not change.
    """

    space: NamedSpace
    feedback: Feedback = PassFail()
    rule: str | None = None
    kernel: str | None = None
    seed: int | None = None
    initial_trials: int | None = None
    hyperparameters: Mapping[str, float | Sequence[float]] = field(default_factory=dict)
    combinations: str | Sequence[Sequence[float]] | None = None
    inference: str = "expectation propagation"
    priors: str = "pooled"
    stop: Stop | None = None
    goal: NamedGoal | None = None
    catch_rate: float = 0.0
    catch: Mapping[str, Value] = field(default_factory=dict)
    easy_rate: float = 0.0
    kept_out: Sequence[str] = (CATCH,)
    drift: float | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        if self.rule is None:
            rule = MEASURE if self.measures else self.feedback.default_rule
            object.__setattr__(self, "rule", rule)
        if self.kernel is None and self.space.contexts:
            object.__setattr__(self, "kernel", self.feedback.default_kernel)
        if self.initial_trials is None:
            num_variables = len(self.space.parameters) + len(self.space.contexts)
            trials = max(MIN_INITIAL_TRIALS, 2 * num_variables)
            # A threshold alone is found sooner without quasi-random trials.
            found = trials if self.space.parameters else 0
            object.__setattr__(self, "initial_trials", found)
        if not self.space.parameters:
            check_threshold_only(self)
        self._check_rule()
        if self.goal is not None:
            check_goal(self, self.goal)
            self.make_goal()  # checks its contexts
        self._check_kernel()
        if self.drift is not None:
            sees_offset = self.feedback.functional.sees_offset
            check_drift(self.drift, sees_offset, self.goal, self.combinations)
        choose(INFERENCES, self.inference, "inference")
        self._check_priors()
        check_interleaving(
            self.space, self.catch_rate, self.catch, self.easy_rate, self.kept_out
        )
        object.__setattr__(self, "kept_out", tuple(self.kept_out))
        _check_count("initial_trials", self.initial_trials)
        if self.seed is not None:
            _check_count("seed", self.seed)
        self._check_size()
        self._check_names()
        self._check_stop()
        if self.combinations is not None:
            self._check_combinations()
        if not isinstance(self.combinations, str | None):
            rows = tuple(tuple(map(float, row)) for row in self.combinations)
            object.__setattr__(self, "combinations", rows)

    def _check_kinds(self) -> None:
        for name, kind in (
            ("space", NamedSpace),
            ("feedback", Feedback),
            ("hyperparameters", Mapping),
        ):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise InputDataError(
                    f"Expected ``{name}`` to be a {kind.__name__}, but got "
                    f"{quote(value)}."
                )
        for name, kind in (("stop", Stop), ("goal", NamedGoal)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InputDataError(
                    f"Expected ``{name}`` to be a {kind.__name__} or None, but got "
                    f"{quote(value)}."
                )

    @property
    def measures(self) -> bool:
        """Whether thresholds are learned, rather than the best parameters."""
        is_map = self.goal is not None and self.goal.kind == MAP
        return is_map or not self.space.parameters

    def _check_stop(self) -> None:
        if self.stop is None:
            return
        if self.measures:
            self.stop.check_without_best(bool(self.space.parameters))
        graded = [c for c in self.space.contexts if c.harder is not None]
        has_threshold = self.feedback.functional.sees_offset and len(graded) == 1
        if self.stop.threshold_width is not None and not (
            has_threshold and len(self.space.contexts) == 1
        ):
            raise UnsupportedError(
                "Expected pass/fail outcomes and one context that says which way is "
                "``harder`` with ``threshold_width`` of ``stop``, but got "
                f"{self.feedback.kind} and contexts "
                f"{[c.name for c in self.space.contexts]}."
            )

    def _check_size(self) -> None:
        """The searches and quasi-random points of a trial end somewhere."""
        sides = self.feedback.num_sides
        columns = sum(parameter.num_columns for parameter in self.space.parts)
        total = len(self.space.contexts) + sides * columns
        if total > MAX_COLUMNS:
            raise UnsupportedError(
                f"Expected a trial to have at most {MAX_COLUMNS} columns, one for each "
                "context, number and category that it shows, but got "
                f"{total}."
            )

    def _check_names(self) -> None:
        """Check that each value of a trial has its own name."""
        shown = {part.name: "" for part in self.space.parts}
        contexts = self.space.reference_context()
        together = join_values(contexts, (shown,) * self.feedback.num_sides)
        names = SIDE_NAMES[: self.feedback.num_sides]
        if len(together) < len(contexts) + len(names) * len(shown):
            raise InputDataError(
                "Expected ``contexts`` to have other names than the parameters of a "
                f"side, which begin with {' and '.join(names)}, but got "
                f"{', '.join(contexts)}."
            )

    def _check_rule(self) -> None:
        rules = self.feedback.rules
        if not isinstance(self.rule, str) or self.rule not in rules:
            raise UnsupportedError(
                f"Expected ``rule`` to be a rule for {self.feedback.kind}, one of "
                f"{', '.join(rules)}, but got {quote(self.rule)}."
            )

    def _check_priors(self) -> None:
        choose(dict.fromkeys(PRIORS), self.priors, "priors")
        circles = [p.name for p in self.space.parameters if isinstance(p, Periodic)]
        if circles and self.priors == "separate":
            raise InputDataError(
                "Expected ``priors`` to be 'pooled' with periodic parameters, but got "
                f"'separate' with {', '.join(circles)}."
            )

    def _check_kernel(self) -> None:
        if not self.space.contexts:
            if self.kernel is not None:
                raise UnsupportedError(
                    "Expected ``kernel`` to be left out without contexts, but got "
                    f"{quote(self.kernel)}."
                )
            return
        if self.kernel not in KERNELS:
            raise UnsupportedError(
                f"Expected ``kernel`` to be one of {', '.join(KERNELS)}, but got "
                f"{quote(self.kernel)}."
            )
        if self.kernel == "additive" and not self.feedback.functional.sees_offset:
            raise UnsupportedError(
                "Expected ``kernel`` to be 'multiplicative' or 'product' for duels, "
                "but got 'additive', which cancels between the two sides."
            )
        logs = [c.name for c in self.space.contexts if c.scale == "log"]
        if self.kernel == "multiplicative" and logs:
            raise UnsupportedError(
                "Expected contexts on a linear scale with a 'multiplicative' "
                f"``kernel``, but got {', '.join(logs)} on a log scale."
            )

    def _check_combinations(self) -> None:
        linear = {parameter.name for parameter in self._linear_parameters()}
        others = [p.name for p in self.space.parameters if p.name not in linear]
        if others:
            raise UnsupportedError(
                "Expected parameters to be real numbers on a linear scale with "
                f"``combinations``, but got {', '.join(others)}. Sphere, cylinder and "
                'axis are one parameter: ``Lens``, or type = "lens".'
            )
        if self.kernel == "multiplicative":
            raise UnsupportedError(
                "Expected ``kernel`` to be 'additive' or 'product' with "
                "``combinations``, but got 'multiplicative'."
            )
        self.coordinates()  # checks the matrix

    def _find_combinations(self) -> Sequence[Sequence[float]]:
        """The rows of the combinations, also of named ones."""
        if not isinstance(self.combinations, str):
            assert self.combinations is not None
            return self.combinations
        rows = choose(COMBINATIONS, self.combinations, "combinations")
        names = [parameter.name for parameter in self.space.parameters]
        if not are_sphere_and_cylinder(names):
            raise InputDataError(
                f"Expected the parameters of {self.combinations!r} to be sphere and "
                f"cylinder by their names, in this order, but got {', '.join(names)}. "
                "Give others their combinations, as in [[1.0, 0.5], [0.0, 0.5]]."
            )
        return rows

    def _linear_parameters(self) -> list[Real]:
        """The parameters that linear combinations make sense of."""
        return [
            parameter
            for parameter in self.space.parameters
            if type(parameter) is Real and parameter.scale == "linear"
        ]

    def coordinates(self) -> CombineParameters | None:
        r"""The input transform of models that takes parameters to combinations.

        Returns:
            The transform of encoded trials; None if there are no combinations.
        """
        if self.combinations is None:
            return None
        space = self.encoder().context_space
        bounds = space.parameter_bounds.new_tensor(
            [parameter.bounds for parameter in self._linear_parameters()]
        )
        widths = bounds[:, 1] - bounds[:, 0]
        units = widths / widths.log().mean().exp()  # of the encoded parameters
        rows = check_combinations(self._find_combinations(), len(widths))
        return CombineParameters(space, rows.to(units) * units)

    def encoder(self) -> Encoder:
        r"""The conversion between the user's units and the model's box.

        Returns:
            A new encoder.
        """
        centered = self.kernel != "multiplicative"
        return Encoder(self.space, centered, timed=self.drift is not None)

    def make_goal(self) -> Goal | ThresholdMap | None:
        r"""The goal in the units of the models' box.

        Returns:
            The goal; None if there is none but the reference context.
        """
        return None if self.goal is None else self.goal.make(self.encoder())

    def with_seed(self) -> Settings:
        r"""The settings with a seed.

        Returns:
            These settings, or if they have no seed a copy with a new one.
        """
        if self.seed is not None:
            return self
        return replace(self, seed=secrets.randbits(SEED_BITS))

    def to_dict(self) -> dict[str, Any]:
        r"""The settings as a plain dictionary, in the form of a TOML file.

        Returns:
            What :meth:`from_dict` takes.
        """
        feedback: Any = self.feedback
        return {
            "rule": self.rule,
            "kernel": self.kernel,
            "seed": self.seed,
            "initial_trials": self.initial_trials,
            "feedback": {"kind": feedback.kind, **_without_none(asdict(feedback))},
            "parameters": [_parameter_dict(p) for p in self.space.parameters],
            "contexts": [_without_none(asdict(c)) for c in self.space.contexts],
            "hyperparameters": dict(self.hyperparameters),
            "combinations": self.combinations,
            "inference": self.inference,
            "priors": self.priors,
            "stop": None if self.stop is None else _without_none(asdict(self.stop)),
            "goal": None if self.goal is None else _without_none(asdict(self.goal)),
            "catch_rate": self.catch_rate,
            "catch": dict(self.catch),
            "easy_rate": self.easy_rate,
            "kept_out": list(self.kept_out),
            "drift": self.drift,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Settings:
        r"""The settings that a plain dictionary describes.

        Args:
            content: The content of a TOML file or of a journal.
        """
        if not isinstance(content, Mapping):
            raise InputDataError(
                f"Expected ``content`` to be a dictionary, but got {quote(content)}."
            )
        content = dict(content)
        check_keys(content, KEYS, [], "the settings")
        parameters = tables(content, "parameters")
        contexts = tables(content, "contexts")
        feedback = content.pop("feedback", {})
        space = NamedSpace(
            [_make_parameter(table) for table in parameters],
            [make(Context, table, "contexts") for table in contexts],
        )
        content |= {"space": space, "feedback": make_feedback(feedback)}
        for key, kind in (("stop", Stop), ("goal", NamedGoal)):
            if content.get(key) is not None:
                content[key] = make(kind, table_of(content[key], key), key)
        return cls(**content)

    @classmethod
    def from_toml(cls, path: str | Path) -> Settings:
        r"""The settings that a TOML file describes.

        Args:
            path: The file.
        """
        try:
            with Path(path).open("rb") as file:
                content = tomllib.load(file)
        except (ValueError, RecursionError) as error:
            raise InputDataError(
                f"Expected ``path`` to be a TOML file, but got {path}: {error}"
            ) from error
        return cls.from_dict(content)


#: The keys of a TOML file.
KEYS = (
    "feedback",
    "parameters",
    "contexts",
    *(f.name for f in fields(Settings) if f.name not in ("space", "feedback")),
)

#: The ways of inference by their names.
INFERENCES: dict[str, type[Inference]] = {
    "expectation propagation": ExpectationPropagation,
    "laplace": Laplace,
}
#: The kinds of parameters by their names.
PARAMETER_TYPES: dict[str, Any] = {
    kind.type: kind for kind in (Real, Integer, Categorical, Periodic, Lens)
}


def _check_count(name: str, value: Any) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not 0 <= value <= MAX_COUNT:
        raise InputDataError(
            f"Expected ``{name}`` to be a whole number from 0 to {MAX_COUNT:g}, but "
            f"got {quote(value)}."
        )


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _parameter_dict(parameter: Any) -> dict[str, Any]:
    return {"type": parameter.type, **_without_none(asdict(parameter))}


def _make_parameter(table: dict[str, Any]) -> AnyParameter:
    table = dict(table)
    kind = choose(PARAMETER_TYPES, table.pop("type", Real.type), "type")
    return make(kind, table, "parameters")
