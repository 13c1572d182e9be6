r"""
One experiment and the clients that answer its trials.

A client is a browser or a program with a name. The journal keeps the name as the rater
of a trial, so a client finds its pending trial again after the server was restarted.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from typing import Any

from botorch.exceptions.errors import BotorchError

from botorch_binary_context.experiment.conditions import read_conditions
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.web.ahead import Ahead
from botorch_binary_context.web.ending import STOPPED, Ending
from botorch_binary_context.web.refusals import RefusalError

#: The longest name of a client.
MAX_NAME = 64
#: The number of clients for whose trials questions are prepared.
MAX_AHEAD = 4
#: The beginning of the metadata keys that say what a client can show.
LIMITS = "limits."
#: The key of the metadata with a text for participants.
INSTRUCTIONS = "instructions"


class Desk:
    r"""What clients may do with an experiment. Any thread may call it."""

    def __init__(
        self,
        name: str,
        experiment: Experiment,
        ahead: Ahead,
        ending: Ending,
        simulated: Callable[[Trial], Any] | None = None,
    ) -> None:
        r"""
        Args:
            name: The name of the experiment in addresses.
            experiment: The experiment.
            ahead: Prepares questions in advance.
            ending: Decides when the experiment ends.
            simulated: A simulated person, whose answer is sent along with each trial.
        """
        self.name = name
        self.experiment = experiment
        self.ending = ending
        self._ahead = ahead
        self._simulated = simulated
        self._simulated_outcomes: dict[int, str] = {}
        self._asking = threading.Lock()
        self._clients: dict[str, None] = {}  # the latest last

    def describe(self) -> dict[str, Any]:
        r"""What a page needs to know to show trials.

        Returns:
            The kind of experiment, its outcomes and its variables.
        """
        settings = self.experiment.settings
        feedback = self.experiment.feedback
        content = settings.to_dict()
        return {
            "name": self.name,
            "kind": feedback.kind,
            "outcomes": list(feedback.outcomes),
            "infeasible": list(feedback.infeasible_outcomes),
            "num_sides": feedback.num_sides,
            "feedback": content["feedback"],
            "parameters": content["parameters"],
            "contexts": content["contexts"],
            "instructions": self.experiment.metadata.get(INSTRUCTIONS),
            "simulated": self._simulated is not None,
        }

    def status(self, client: str | None = None) -> dict[str, Any]:
        r"""How far the experiment is, without computing anything.

        Args:
            client: A client whose own trials are also counted.

        Returns:
            The numbers of trials by their status, and whether it has ended.
        """
        experiment = self.experiment
        status = {
            "name": self.name,
            **experiment.count(),
            "revision": experiment.revision,
            "finished": self.ending.reason,
            "limit": self.ending.max_answers,
        }
        if client is not None:
            name = _check_client(client)
            own = [trial for trial in experiment.pending if trial.rater == name]
            status["client"] = {
                **experiment.count(name),
                "pending": [trial.id for trial in own],
                "finished": self._finished(own),
            }
        return status

    def _finished(self, own: list[Trial]) -> str | None:
        """Why a client is asked no more; it may still answer what is pending."""
        reason = self.ending.reason
        return None if own and reason != STOPPED else reason

    def ask(self, client: str) -> dict[str, Any]:
        r"""The trial that a client is to answer: its pending one, or a new one.

        Args:
            client: The name of the client.

        Returns:
            The trial; None with the reason if the experiment has ended. A trial that
            was pending when it ended is still given, unless the experimenter stopped
            it.
        """
        name = _check_client(client)
        with self._asking:
            pending = self.experiment.pending
            own = [trial for trial in pending if trial.rater == name]
            finished = self._finished(own)
            if finished is not None:
                return {"trial": None, "finished": finished}
            if not own:
                own = [self.experiment.ask(rater=name, limits=self._limits(name))]
                pending += own
            self._clients.pop(name, None)
            self._clients[name] = None
            self._look_ahead(pending)
        self.ending.look()
        return {"trial": self.to_dict(own[0]), "finished": None}

    def limit(self, client: str, limits: Any) -> dict[str, Any]:
        r"""Note what a client can show; its questions stay within it from now on.

        Args:
            client: The name of the client.
            limits: The smallest and the largest value of contexts, by name; None
                instead of a value means the bound in the settings.

        Returns:
            The limits within the bounds; those that exclude nothing are left out.
        """
        name = _check_client(client)
        conditions = read_conditions(self.experiment.settings, None, limits)
        found = {name: list(pair) for name, pair in conditions.limits.items()}
        if found != (self._limits(name) or {}):
            self.experiment.describe(**{LIMITS + name: found or None})
        return {"limits": found}

    def _limits(self, client: str) -> Any:
        return self.experiment.metadata.get(LIMITS + client)

    def tell(
        self, client: str, trial_id: int, outcome: Any, details: Mapping[str, Any]
    ) -> dict[str, Any]:
        r"""Write the answer of a client down.

        Args:
            client: The name of the client.
            trial_id: The id of a pending trial of the client.
            outcome: The outcome.
            details: The arguments "infeasible", "shown", "reaction_time" and "extra" of
                :meth:`.Logbook.tell`, if they are given.

        Returns:
            A dictionary with the answered trial under the key "trial".
        """
        self._check_own(client, trial_id)
        self._ahead.give_up(self.experiment)
        try:
            self.experiment.tell(trial_id, outcome, rater=client, **details)
        except BotorchError:
            self._check_own(client, trial_id)  # perhaps it was answered meanwhile
            raise
        return {"trial": self.to_dict(self.experiment.trial(trial_id))}

    def withdraw(self, client: str, trial_id: int) -> dict[str, Any]:
        r"""Give up a pending trial of a client.

        Args:
            client: The name of the client.
            trial_id: The id of the trial.
        """
        self._check_own(client, trial_id)
        try:
            self.experiment.withdraw(trial_id)
        except BotorchError:
            self._check_own(client, trial_id)
            raise
        return {"trial": self.to_dict(self.experiment.trial(trial_id))}

    def undo(self, client: str) -> dict[str, Any]:
        r"""Take the last answer of a client back.

        Args:
            client: The name of the client.

        Returns:
            The trial, which is pending again.
        """
        name = _check_client(client)
        last = self.experiment.last_answer(name)
        if last is None:
            raise RefusalError(
                409, "nothing-to-undo", f"Expected an answer of {name!r}, but got none."
            )
        self._ahead.give_up(self.experiment)
        trial = self.experiment.undo(last.id)
        self.ending.take_back()
        return {"trial": self.to_dict(trial)}

    def stop(self) -> dict[str, Any]:
        r"""Ask no more trials."""
        self.ending.stop()
        return self.status()

    def resume(self) -> dict[str, Any]:
        r"""Ask trials again after :meth:`stop`, or after the experiment has ended."""
        self.ending.resume()
        return self.status()

    def to_dict(self, trial: Trial) -> dict[str, Any]:
        r"""A trial as sent to clients.

        Args:
            trial: The trial.

        Returns:
            The trial as plain data, with its sides apart and a seed for what a page
            draws at random, which is the same whenever the trial is sent.
        """
        seed = f"{self.experiment.settings.seed} {trial.id}".encode()
        sent = {
            **trial.to_dict(),
            "context": dict(trial.context),
            "sides": [dict(side) for side in trial.sides],
            "seed": int.from_bytes(hashlib.sha256(seed).digest()[:4], "big"),
        }
        if self._simulated is not None and trial.status == "pending":
            sent["simulated"] = self._simulate(trial)
        return sent

    def _simulate(self, trial: Trial) -> str:
        """The simulated answer, the same however often the trial is sent."""
        if trial.id not in self._simulated_outcomes:
            assert self._simulated is not None
            label = self.experiment.feedback.parse(self._simulated(trial))
            outcome = self.experiment.feedback.outcomes[label]
            self._simulated_outcomes[trial.id] = outcome
        return self._simulated_outcomes[trial.id]

    def _look_ahead(self, pending: list[Trial]) -> None:
        """Prepare for the latest clients, the last one first."""
        of_client = {trial.rater: trial for trial in pending}
        latest = [name for name in reversed(self._clients) if name in of_client]
        urgent = [(of_client[name], self._limits(name)) for name in latest[:MAX_AHEAD]]
        self._ahead.prepare(self.experiment, urgent)

    def _check_own(self, client: str, trial_id: Any) -> None:
        """Raise an error unless this client may answer a trial."""
        name = _check_client(client)
        is_whole = isinstance(trial_id, int) and not isinstance(trial_id, bool)
        if not is_whole:
            raise RefusalError(
                422, "invalid", "Expected ``id`` to be the whole number of a trial."
            )
        if not 1 <= trial_id <= self.experiment.num_trials:
            raise RefusalError(
                404, "no-such-trial", "Expected ``id`` to be that of a trial."
            )
        trial = self.experiment.trial(trial_id)
        if trial.rater != name:
            raise RefusalError(
                403, "not-yours", f"Expected a trial of {name!r}, but got another's."
            )
        if trial.status != "pending":
            raise RefusalError(
                409,
                "not-pending",
                f"Expected trial {trial_id} to be pending, but it was {trial.status} "
                f"at {trial.closed_at}.",
                trial=self.to_dict(trial),
            )


def _check_client(client: Any) -> str:
    is_name = isinstance(client, str) and client.strip() == client and client
    if not is_name or len(client) > MAX_NAME or not client.isprintable():
        raise RefusalError(
            422,
            "invalid",
            f"Expected ``client`` to be a name of 1 to {MAX_NAME} characters.",
        )
    return client
