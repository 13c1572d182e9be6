r"""
The effects of AEPsych's messages on experiments.

A message is ``{"type": ..., "message": {...}}`` with one of the types of
:data:`TYPES`; the answers have the keys of AEPsych's server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from botorch.exceptions import InputDataError, UnsupportedError

from botorch_binary_context.errors import quote
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.integrations.aepsych.configuration import (
    read_configuration,
)
from botorch_binary_context.integrations.aepsych.queries import Query
from botorch_binary_context.integrations.aepsych.strategy import Strategy

QUERIES = ("max", "min", "prediction", "inverse")


class AEPsychSession:
    r"""The experiments of a server of AEPsych, one for each setup.

    AEPsych calls them strategies and counts them from 0. Each has its own journal;
    existing journals are continued.
    """

    def __init__(self, journal: str | Path, seed: int | None = None) -> None:
        r"""
        Args:
            journal: The file of the first experiment; the others have a number at the
                end of their name.
            seed: The seed of new experiments; by default each draws its own.
        """
        self._journal = Path(journal)
        self._seed = seed
        self._strategies: list[Strategy] = []
        self.finished = False
        while (path := self._path(len(self._strategies))).exists():
            self._strategies.append(Strategy(Experiment.open(path)))
        self._current = len(self._strategies) - 1

    def close(self) -> None:
        r"""Close the journals."""
        for strategy in self._strategies:
            strategy.experiment.close()

    def _path(self, number: int) -> Path:
        if number == 0:
            return self._journal
        name = f"{self._journal.stem}-{number + 1}{self._journal.suffix}"
        return self._journal.with_name(name)

    @property
    def has_experiment(self) -> bool:
        """Whether there is an experiment that messages can be about."""
        return self._current >= 0

    def set_up(self, config: str) -> int:
        r"""Begin an experiment.

        Args:
            config: The text of AEPsych's configuration.

        Returns:
            The number of the experiment, counted from 0.
        """
        configuration = read_configuration(config, self._seed)
        path = self._path(len(self._strategies))
        self._strategies.append(Strategy.create(path, configuration))
        self._current = len(self._strategies) - 1
        return self._current

    @property
    def strategy(self) -> Strategy:
        """The experiment that messages are about."""
        if not self.has_experiment:
            raise RuntimeError("Expected a message of type setup first, but got none.")
        return self._strategies[self._current]

    def answer(self, request: Any) -> dict[str, Any]:
        r"""Carry out a message.

        Args:
            request: The message.

        Returns:
            The answer; if that fails, one with the key "server_error".
        """
        try:
            return self._answer(request)
        except Exception as error:  # a client must not end the server
            return {"server_error": repr(error), "message": request}

    def _answer(self, request: Any) -> dict[str, Any]:
        if not isinstance(request, Mapping) or "type" not in request:
            raise RuntimeError(f"Request {quote(request)} contains no request type!")
        kind = request["type"]
        if not isinstance(kind, str) or kind not in TYPES:
            raise RuntimeError(
                f"unknown type: {quote(kind)}. Allowed types: {', '.join(TYPES)}"
            )
        message = request.get("message")
        # Clients send an empty text for a message without content.
        content = dict(message) if isinstance(message, Mapping) else {}
        return TYPES[kind](self, content)

    def _setup(self, message: dict[str, Any]) -> dict[str, Any]:
        if "config_str" not in message:
            raise RuntimeError("Missing a configure message!")
        return {"strat_id": self.set_up(message["config_str"])}

    def _resume(self, message: dict[str, Any]) -> dict[str, Any]:
        number = message.get("strat_id")
        known = range(len(self._strategies))
        if not isinstance(number, int) or number not in known:
            raise InputDataError(
                f"Expected ``strat_id`` to be one of {list(known)}, but got "
                f"{quote(number)}."
            )
        self._current = number
        return {"strat_id": self._current}

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        number = message.get("num_points", 1)
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise InputDataError(
                "Expected ``num_points`` to be a positive whole number, but got "
                f"{quote(number)}."
            )
        config = self.strategy.ask(number, message.get("fixed_pars") or {})
        finished = self.strategy.is_finished()
        return {"config": config, "is_finished": finished, "num_points": number}

    def _tell(self, message: dict[str, Any]) -> dict[str, Any]:
        if "outcome" not in message:
            raise InputDataError("Expected ``outcome`` to be given, but got none.")
        use = bool(message.pop("model_data", True))
        config = message.pop("config", None)
        outcome = message.pop("outcome")
        recorded = self.strategy.tell(config, outcome, use, message)
        return {"trials_recorded": recorded, "model_data_added": recorded * use}

    def _query(self, message: dict[str, Any]) -> dict[str, Any]:
        kind = message.get("query_type", "max")
        if kind not in QUERIES:
            raise InputDataError(
                f"Expected ``query_type`` to be one of {', '.join(QUERIES)}, but got "
                f"{quote(kind)}."
            )
        strategy = self.strategy
        space = bool(message.get("probability_space", False))
        constraints = message.get("constraints") or {}
        fixed = strategy.name_constraints(constraints)
        query = Query(strategy.experiment, space)
        if kind == "prediction":
            points = strategy.split_points(message.get("x"))
            values = query.predict(points)
            y: Any = values[0] if len(values) == 1 else values
            x = strategy.to_config([{**context, **side} for context, side in points])
        else:
            if kind == "inverse":
                y, point = query.inverse(message.get("y"), fixed)
            else:
                y, point = query.extremum(1.0 if kind == "max" else -1.0, fixed)
            x = strategy.to_config([point])
        return {
            "query_type": kind,
            "probability_space": space,
            "constraints": constraints,
            "x": x,
            "y": y,
        }

    def _parameters(self, message: dict[str, Any]) -> dict[str, Any]:
        return self.strategy.bounds()

    def _info(self, message: dict[str, Any]) -> dict[str, Any]:
        strategy = self.strategy
        answered = strategy.num_answers()
        return {
            "db_name": str(strategy.experiment.path),
            "exp_id": 1,
            "strat_count": len(self._strategies),
            "all_strat_names": strategy.strategy_names,
            "current_strat_index": self._current,
            "current_strat_name": strategy.current_name(),
            "current_strat_data_pts": answered,
            "current_strat_model": strategy.experiment.settings.inference,
            "current_strat_acqf": strategy.experiment.rule,
            "current_strat_finished": strategy.is_finished(),
            "current_strat_can_fit": answered > 0,
        }

    def _get_config(self, message: dict[str, Any]) -> dict[str, Any]:
        sections = self.strategy.sections()
        section = message.get("section")
        key = message.get("property")
        if section is None and key is None:
            return dict(sections)
        if section is None or key is None:
            raise UnsupportedError(
                "Expected ``section`` and ``property`` or neither, but got "
                f"{quote(section)} and {quote(key)}."
            )
        if key not in sections.get(section, {}):
            raise InputDataError(
                f"Expected a key of the configuration, but got {quote(key)} of "
                f"[{section}]."
            )
        return {section: {key: sections[section][key]}}

    def _finish_strategy(self, message: dict[str, Any]) -> dict[str, Any]:
        name, index = self.strategy.finish()
        return {"finished_strategy": name, "finished_strat_idx": index}

    def _exit(self, message: dict[str, Any]) -> dict[str, Any]:
        self.finished = True
        return {"termination_type": "Terminate", "success": True}


#: The types of messages, and what answers them.
TYPES: dict[str, Callable[[AEPsychSession, dict[str, Any]], dict[str, Any]]] = {
    "setup": AEPsychSession._setup,
    "ask": AEPsychSession._ask,
    "tell": AEPsychSession._tell,
    "query": AEPsychSession._query,
    "parameters": AEPsychSession._parameters,
    "info": AEPsychSession._info,
    "get_config": AEPsychSession._get_config,
    "resume": AEPsychSession._resume,
    "finish_strategy": AEPsychSession._finish_strategy,
    "exit": AEPsychSession._exit,
}
