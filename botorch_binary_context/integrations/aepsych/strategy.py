r"""
One experiment as AEPsych sees it: points that are dictionaries of lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Self

from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.rows import split_values, value_names
from botorch_binary_context.experiment.space import Values
from botorch_binary_context.experiment.trial import SIDE_NAMES, Trial
from botorch_binary_context.experiment.variables import Value
from botorch_binary_context.integrations.aepsych.configuration import (
    Configuration,
    Sections,
    read_configuration,
)

#: The key of the configuration in the metadata of a journal.
CONFIGURATION = "aepsych_config"
# Clients may keep numbers in single precision.
_TOLERANCE = 1e-5
_SIDES = SIDE_NAMES[:2]  # of a duel


class Strategy:
    r"""An experiment with AEPsych's names and shapes.

    A point of AEPsych is ``{name: [value of each trial]}``; in duels a value is a pair.
    Its outcome of a duel is 0 if the first of the pair is preferred.
    """

    def __init__(self, experiment: Experiment) -> None:
        r"""
        Args:
            experiment: The experiment, whose journal keeps AEPsych's configuration if
                it was made from one.
        """
        self.experiment = experiment
        text = experiment.metadata.get(CONFIGURATION)
        self._configuration: Configuration | None = (
            None if text is None else read_configuration(text)
        )
        self._variables = value_names(experiment.settings)
        self._num_sides = experiment.feedback.num_sides
        self._num_finished = 0

    @classmethod
    def create(cls, path: Path, configuration: Configuration) -> Self:
        r"""Begin an experiment.

        Args:
            path: The journal to make.
            configuration: The configuration of the experiment.
        """
        given = configuration.sections.get("metadata", {})
        metadata = {**given, CONFIGURATION: configuration.text}
        return cls(Experiment.create(path, configuration.settings, metadata))

    # Names

    @property
    def _contexts(self) -> list[str]:
        return [c.name for c in self.experiment.settings.space.contexts]

    @property
    def _order(self) -> Sequence[str]:
        """The names of all of AEPsych's parameters, in order."""
        if self._configuration is not None:
            return self._configuration.names
        parts = [part.name for part in self.experiment.settings.space.parts]
        return [*self._contexts, *parts]

    @property
    def _names(self) -> list[str]:
        """The names of the parameters that vary."""
        return [name for name in self._order if name not in self._fixed]

    @property
    def _fixed(self) -> Mapping[str, Value]:
        return {} if self._configuration is None else self._configuration.fixed

    @property
    def strategy_names(self) -> list[str]:
        """The names of the strategies that the trials are divided among."""
        return [name for name, _ in self._strategies]

    @property
    def _strategies(self) -> Sequence[tuple[str, int]]:
        given = None if self._configuration is None else self._configuration.strategies
        return given or [(self.experiment.rule, 0)]

    def sections(self) -> Sections:
        r"""The configuration.

        Returns:
            The values of its keys by section.
        """
        if self._configuration is None:
            raise UnsupportedError(
                "Expected an experiment that was set up by a message, but its journal "
                "has no configuration of AEPsych."
            )
        return self._configuration.sections

    def bounds(self) -> dict[str, list[Any]]:
        r"""The smallest and the largest value of each parameter.

        Returns:
            The bounds by the names.
        """
        space = self.experiment.settings.space
        found = {}
        for variable in (*space.contexts, *space.parts):
            choices = list(variable.choices or ())
            ends = getattr(variable, "bounds", choices)
            found[variable.name] = [ends[0], ends[-1]]
        return {name: found[name] for name in self._names}

    # Trials

    def num_answers(self) -> int:
        r"""The number of answers."""
        return sum(t.status == "answered" for t in self.experiment.trials)

    def _num_asked(self) -> int:
        asked = [t for t in self.experiment.trials if t.chosen_by != "added"]
        return sum(trial.status != "withdrawn" for trial in asked)

    def _current_index(self) -> int:
        """The index of the current strategy, from the number of trials."""
        sizes = [number for _, number in self._strategies]
        done = self._num_asked()
        index = 0
        while index < len(sizes) - 1 and done > sum(sizes[: index + 1]):
            index += 1
        return min(max(index, self._num_finished), len(sizes) - 1)

    def current_name(self) -> str:
        r"""The name of the current strategy."""
        return self.strategy_names[self._current_index()]

    def finish(self) -> tuple[str, int]:
        r"""End the current strategy; after the last one, no more trials are asked.

        Returns:
            Its name and its number.
        """
        index = self._current_index()
        self._num_finished = index + 1
        return self.strategy_names[index], index

    def is_finished(self) -> bool:
        r"""Whether all planned trials were asked.

        Returns:
            Whether it is over.
        """
        if self._num_finished >= len(self.strategy_names):
            return True
        stop = self.experiment.settings.stop
        limit = None if stop is None else stop.answers
        return limit is not None and self._num_asked() >= limit

    def ask(self, number: int, fixed: Any) -> dict[str, list[Any]]:
        r"""The next trials.

        Args:
            number: The number of trials.
            fixed: The values of contexts that are given.
        """
        given = self._check_fixed(fixed)
        trials = self.experiment.ask(number, context=given or None)
        return self.to_config([trial.values for trial in trials])

    def _check_fixed(self, fixed: Any) -> dict[str, Value]:
        """The given values, if they may be given."""
        contexts = self._contexts
        if isinstance(fixed, Mapping) and set(fixed) <= set(contexts):
            return dict(fixed)
        chosen = [name for name in self._names if name not in contexts]
        raise InputDataError(
            "Expected ``fixed_pars`` to give values to contexts, "
            f"{', '.join(contexts) or 'of which there are none'}, but got "
            f"{quote(fixed)}. The rule chooses {', '.join(chosen) or 'the rest'}; "
            "``role = context`` in the section of a parameter makes it a context."
        )

    def _keys(self, name: str) -> list[str]:
        """The names under which a trial shows a parameter."""
        if self._num_sides == 1 or name in self._contexts:
            return [name]
        return [f"{side}.{name}" for side in _SIDES]

    def _check(self, key: str, value: Any) -> None:
        variable = self._variables[key]
        is_context = key in self._contexts
        variable.encode(value, True) if is_context else variable.encode(value)

    def to_config(self, points: Sequence[Mapping[str, Value]]) -> dict[str, list[Any]]:
        r"""Points in AEPsych's form.

        Args:
            points: The values shown in each trial, by this package's names, or single
                points.
        """
        config: dict[str, list[Any]] = {}
        order = (
            self._names if self._configuration is None else self._configuration.names
        )
        for name in order:
            if name in self._fixed:
                config[name] = [self._fixed[name]] * len(points)
                continue
            config[name] = [self._entry(name, point) for point in points]
        return config

    def _entry(self, name: str, point: Mapping[str, Value]) -> Any:
        sides = [f"{side}.{name}" for side in _SIDES]
        is_duel = any(key.startswith(f"{_SIDES[0]}.") for key in point)
        if not is_duel:
            return point[name]
        return [point.get(side, point.get(name)) for side in sides]

    def tell(
        self, config: Any, outcome: Any, use: bool, extra: Mapping[str, Any]
    ) -> int:
        r"""Write answers down.

        Args:
            config: The points that were shown.
            outcome: Their outcomes: one, a list, or a dictionary with one of these.
            use: Whether the model learns from them.
            extra: What else to note about each of them.

        Returns:
            The number of answers.
        """
        points = self._points(config)
        outcomes = self._outcomes(outcome, len(points))
        for point in points:
            split_values(self.experiment.settings, point, "config")
            for key, value in point.items():
                self._check(key, value)
        noted = self._rename(extra) or None
        for point, label in zip(points, outcomes, strict=True):
            trial = self._find_pending(point)
            if trial is None:
                self.experiment.add(point, label, use=use, extra=noted)
                continue
            self.experiment.tell(trial.id, label, extra=noted)
            if not use:
                self.experiment.exclude(trial.id)
        return len(points)

    def _rename(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """Rename extra data whose names a trial already has."""
        taken = {*self._variables, *(f.name for f in fields(Trial))}
        return {(f"aepsych.{k}" if k in taken else k): v for k, v in extra.items()}

    def _find_pending(self, point: Mapping[str, Value]) -> Trial | None:
        for trial in self.experiment.pending:
            if all(_is_close(trial.values[key], point[key]) for key in point):
                return trial
        return None

    def _outcomes(self, outcome: Any, number: int) -> list[int]:
        if isinstance(outcome, Mapping):
            if len(outcome) != 1:
                raise UnsupportedError(
                    f"Expected one outcome a trial, but got {', '.join(outcome)}."
                )
            (outcome,) = outcome.values()
        given = outcome if isinstance(outcome, list) else [outcome]
        if len(given) != number:
            raise InputDataError(
                f"Expected ``outcome`` to have {number} entries, but got {len(given)}."
            )
        labels = [self.experiment.feedback.parse(value) for value in given]
        return labels if self._num_sides == 1 else [1 - label for label in labels]

    def _points(self, config: Any) -> list[dict[str, Value]]:
        """The values shown in each trial, by this package's names."""
        if not isinstance(config, Mapping) or not set(self._names) <= set(config):
            raise InputDataError(
                f"Expected ``config`` to give values to each of {self._names}, but got "
                f"{quote(config)}."
            )
        columns = {name: self._column(config[name]) for name in self._names}
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise InputDataError(
                "Expected ``config`` to have lists of the same length, but got "
                f"{ {name: len(column) for name, column in columns.items()} }."
            )
        return [self._point(columns, row) for row in range(lengths.pop())]

    def _column(self, value: Any) -> list[Any]:
        """A list with an entry for each trial, which is a pair in duels."""
        if not isinstance(value, list):
            value = [value]
        is_pair = self._num_sides == 2 and not any(isinstance(v, list) for v in value)
        return [value] if is_pair else value

    def _point(self, columns: Mapping[str, list[Any]], row: int) -> dict[str, Value]:
        point: dict[str, Value] = {}
        for name, column in columns.items():
            entry = column[row]
            entries = entry if isinstance(entry, list) else [entry]
            keys = self._keys(name)
            if name in self._contexts:
                entries = entries[:1]  # both sides are shown in one context
            if len(entries) != len(keys):
                raise InputDataError(
                    f"Expected ``config`` to give {name!r} {len(keys)} values a trial, "
                    f"but got {quote(entry)}."
                )
            point |= dict(zip(keys, entries, strict=True))
        return point

    # Queries

    def name_constraints(self, constraints: Any) -> dict[str, Value]:
        r"""The given values, by the names of parameters.

        Args:
            constraints: The values by the names or AEPsych's positions.
        """
        if not isinstance(constraints, Mapping):
            raise InputDataError(
                "Expected ``constraints`` to give values to positions of parameters, "
                f"but got {quote(constraints)}."
            )
        order = (
            self._names if self._configuration is None else self._configuration.names
        )
        places = {str(place): name for place, name in enumerate(order)}
        named = {places.get(str(key), str(key)): v for key, v in constraints.items()}
        return {name: v for name, v in named.items() if name not in self._fixed}

    def split_points(self, config: Any) -> list[tuple[Values, Values]]:
        r"""Single points, even if trials are duels, as contexts and parameters.

        Args:
            config: The points.

        Returns:
            The contexts and the parameters of each.
        """
        if not isinstance(config, Mapping) or not set(self._names) <= set(config):
            raise InputDataError(
                f"Expected ``x`` to give values to each of {self._names}, but got "
                f"{quote(config)}."
            )
        columns = {
            name: config[name] if isinstance(config[name], list) else [config[name]]
            for name in self._names
        }
        try:
            rows = [
                dict(zip(columns, row, strict=True))
                for row in zip(*columns.values(), strict=True)
            ]
        except ValueError:
            raise InputDataError(
                "Expected ``x`` to have lists of the same length, but got "
                f"{quote(config)}."
            ) from None
        contexts = self._contexts
        return [
            (
                {name: row[name] for name in contexts},
                {name: value for name, value in row.items() if name not in contexts},
            )
            for row in rows
        ]


def _is_close(one: Any, other: Any) -> bool:
    if isinstance(one, str) or isinstance(other, str):
        return one == other
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-9)
