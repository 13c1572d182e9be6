r"""
The settings of an experiment: its variables, its kind of feedback, its rule.

Settings convert to and from plain dictionaries, in the same form for TOML files and for
the journal.
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from botorch.exceptions import InputDataError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.angles import Periodic
from botorch_binary_context.experiment.feedback import (
    PassFail,
    make_feedback,
)
from botorch_binary_context.experiment.feedback_base import Feedback
from botorch_binary_context.experiment.goal import (
    MAP,
    NamedGoal,
)
from botorch_binary_context.experiment.interleaving import (
    CATCH,
)
from botorch_binary_context.experiment.lens import (
    AnyParameter,
    Lens,
)
from botorch_binary_context.experiment.mean_function import MeanFunction
from botorch_binary_context.experiment.settings_checks import (
    SETTING_TABLES,
    check_kinds,
    check_settings,
    find_combinations,
    linear_parameters,
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
from botorch_binary_context.experiment.variables import (
    Categorical,
    Context,
    Integer,
    Real,
    Value,
)
from botorch_binary_context.goals import Goal, ThresholdMap
from botorch_binary_context.models.coordinates import (
    CombineParameters,
    check_combinations,
)

MIN_INITIAL_TRIALS = 5
#: The default rule for learning thresholds.
MEASURE = "bald"
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
        initial_trials: The number of answers before the rule takes over from
            quasi-random trials; by default two for each variable and at least five, but
            none without parameters.
        hyperparameters: Hyperparameters of the kernel that are fixed instead of
            learned, by name, in the units of the box (parameters in [0, 1], contexts in
            [-1, 1]): "outputscale", "lengthscale" (one number, or one for each column
            of the parameters), "slope" (additive kernel), "context_lengthscale"
            (product kernel).
        combinations: Linear combinations that have lengthscales instead of the
            parameters, where these act together: one row of coefficients for each, in
            the parameters' own units; "power-vector" for the sphere and cylinder of a
            lens (with an axis, ``Lens`` is one parameter for all three). None for the
            parameters themselves.
        inference: How the posterior is approximated: "expectation propagation" (the
            default) or "laplace".
        priors: The priors of the kernel: "pooled" (the default) pulls lengthscales
            toward a common one and learns how similar the values of a categorical
            parameter are; "separate" has an unrelated lengthscale for every column,
            including every category; "wide" (the default without parameters) is like
            "pooled", but with an additive kernel also allows for psychometric functions
            much flatter or steeper than usual; "peak" is like "pooled", but expects one
            best setting, with performance falling on all sides of it; "blur" is like
            "peak" for a lens in diopters and letters whose size is in logMAR or on a
            log scale, and knows how blur makes letters harder to read and, if they are
            in logMAR, which acuity healthy eyes have with the best lens.
        stop: When to stop; None to leave that to the experimenter.
        goal: What the parameters should be good at; None for the reference context.
        catch_rate: The share of catch trials, at most a half.
        catch: The values of contexts and parameters that a catch trial shows, by name;
            the others are as in the trial that it replaces. If only parameters of a
            duel are given, they are those of its first side.
        easy_rate: The share of easy trials, which have the easiest contexts.
        kept_out: Which of these the model does not learn from: "catch" (the default) or
            "easy".
        drift: The approximate number of answers over which overall performance changes,
            through learning or fatigue; the speed is learned. Recommendations are then
            about the present. None if it does not change.
        mean_function: The mean function of earlier subjects, which
            ``Experiment.create(..., prior=..., mean_function=True)`` learns.
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
    priors: str | None = None
    stop: Stop | None = None
    goal: NamedGoal | None = None
    catch_rate: float = 0.0
    catch: Mapping[str, Value] = field(default_factory=dict)
    easy_rate: float = 0.0
    kept_out: Sequence[str] = (CATCH,)
    drift: float | None = None
    mean_function: MeanFunction | None = None

    def __post_init__(self) -> None:
        check_kinds(self)
        self._fill_in("rule", MEASURE if self.measures else self.feedback.default_rule)
        if self.space.contexts:
            self._fill_in("kernel", self.feedback.default_kernel)
        num_variables = len(self.space.parameters) + len(self.space.contexts)
        trials = max(MIN_INITIAL_TRIALS, 2 * num_variables)
        # A threshold alone is found sooner without quasi-random trials.
        self._fill_in("initial_trials", trials if self.space.parameters else 0)
        self._fill_in("priors", "pooled" if self.space.parameters else "wide")
        check_settings(self)
        object.__setattr__(self, "kept_out", tuple(self.kept_out))
        if not isinstance(self.combinations, str | None):
            rows = tuple(tuple(map(float, row)) for row in self.combinations)
            object.__setattr__(self, "combinations", rows)

    def _fill_in(self, name: str, default: Any) -> None:
        """Replace None by a default."""
        if getattr(self, name) is None:
            object.__setattr__(self, name, default)

    @property
    def measures(self) -> bool:
        """Whether thresholds are learned, rather than the best parameters."""
        is_map = self.goal is not None and self.goal.kind == MAP
        return is_map or not self.space.parameters

    def coordinates(self) -> CombineParameters | None:
        r"""The input transform of models that takes parameters to combinations.

        Returns:
            The transform of encoded trials; None if there are no combinations.
        """
        if self.combinations is None:
            return None
        space = self.encoder().context_space
        bounds = space.parameter_bounds.new_tensor(
            [parameter.bounds for parameter in linear_parameters(self)]
        )
        widths = bounds[:, 1] - bounds[:, 0]
        units = widths / widths.log().mean().exp()  # of the encoded parameters
        rows = check_combinations(find_combinations(self), len(widths))
        return CombineParameters(space, rows.to(units) * units)

    def encoder(self) -> Encoder:
        r"""The conversion between the user's units and the model's box."""
        centered = self.kernel != "multiplicative"
        return Encoder(self.space, centered, timed=self.drift is not None)

    def make_goal(self) -> Goal | ThresholdMap | None:
        r"""The goal in the units of the models' box.

        Returns:
            The goal; None for the reference context.
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
            A dictionary that :meth:`from_dict` accepts.
        """
        feedback: Any = self.feedback
        return {
            "rule": self.rule,
            "kernel": self.kernel,
            "seed": self.seed,
            "initial_trials": self.initial_trials,
            "feedback": {"kind": feedback.kind, **_to_table(feedback)},
            "parameters": [_parameter_dict(p) for p in self.space.parameters],
            "contexts": [_to_table(c) for c in self.space.contexts],
            "hyperparameters": dict(self.hyperparameters),
            "combinations": self.combinations,
            "inference": self.inference,
            "priors": self.priors,
            **{key: _to_table(getattr(self, key)) for key in SETTING_TABLES},
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
        for key, kind in SETTING_TABLES.items():
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

#: The kinds of parameters by their names.
PARAMETER_TYPES: dict[str, Any] = {
    kind.type: kind for kind in (Real, Integer, Categorical, Periodic, Lens)
}


def _to_table(value: Any) -> Any:
    """The keys of a dataclass, without those that are None by default; None stays."""
    if value is None:
        return None
    absent = {f.name for f in fields(value) if f.default in (None, MISSING)}
    items = asdict(value).items()
    return {key: item for key, item in items if item is not None or key not in absent}


def _parameter_dict(parameter: Any) -> dict[str, Any]:
    return {"type": parameter.type, **_to_table(parameter)}


def _make_parameter(table: dict[str, Any]) -> AnyParameter:
    table = dict(table)
    kind = choose(PARAMETER_TYPES, table.pop("type", Real.type), "type")
    return make(kind, table, "parameters")
