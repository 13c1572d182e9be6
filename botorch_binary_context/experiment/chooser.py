r"""
Choosing the next trial: by the rule, or along a quasi-random sequence.

A choice depends only on the settings, the answers, the pending trials and the number of
the trial, so the same calls give the same questions in every process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_binary_context.constraints import NoTrialLeftError
from botorch_binary_context.experiment.conditions import Conditions
from botorch_binary_context.experiment.feasible import learn_feasibility
from botorch_binary_context.experiment.feedback import BestOf
from botorch_binary_context.experiment.goal import MEASURING_RULES
from botorch_binary_context.experiment.interleaving import (
    CATCH,
    choose_kind,
    make_catch,
    make_easy,
)
from botorch_binary_context.experiment.settings import Settings
from botorch_binary_context.experiment.space import Encoder, Values
from botorch_binary_context.experiment.state import State
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.feasibility import Feasibility
from botorch_binary_context.goals import AtContext
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules import suggest, suggest_contest

QUASI_RANDOM = "quasi-random"
#: The ``chosen_by`` of trials whose values were all given.
GIVEN = "given"
#: The purposes of random numbers.
PURPOSES = ("ask", QUASI_RANDOM, "recommend")
# Values are shown with six digits, so no search needs more. Where integers or levels
# stop a search, it must not try ever smaller steps.
SEARCH = SearchOptions(max_evaluations=30, relative_gain=1e-6)
# The number of quasi-random points to try before all trials are enumerated.
MAX_SKIPS = 256

#: A context and the parameters of each side.
Question = tuple[Values, tuple[Values, ...]]


def is_pending(question: Question, pending: Sequence[Trial]) -> bool:
    r"""Whether a question has been asked and not been answered yet.

    Args:
        question: The question.
        pending: The pending trials.

    Returns:
        Whether one of them shows the same.
    """
    return any((trial.context, trial.sides) == question for trial in pending)


class Chooser:
    r"""Chooses trials of an experiment."""

    def __init__(self, settings: Settings, encoder: Encoder) -> None:
        r"""
        Args:
            settings: The settings of the experiment.
            encoder: The conversion between the user's units and the models' box.
        """
        self.settings = settings
        self.encoder = encoder
        self.goal = settings.make_goal()

    def seed(self, purpose: str, number: int = 0) -> int:
        r"""A separate seed for every purpose and trial of every experiment.

        Args:
            purpose: One of ``PURPOSES``.
            number: The number of the trial.
        """
        words = [self.settings.seed, PURPOSES.index(purpose), number]
        return int(np.random.SeedSequence(words).generate_state(1)[0])

    def make_trial(
        self, question: Question | None, state: State, given: Conditions
    ) -> Trial:
        r"""The next trial: what the rule chose, or what is asked instead.

        Args:
            question: The rule's choice; None if it is not the rule's turn.
            state: The state of the journal.
            given: The conditions on the trial.

        Returns:
            The pending trial, without the time.
        """
        number = state.next_number
        pending = state.pending
        chosen_by = GIVEN if self._leaves_nothing(given) else str(self.settings.rule)
        if question is None or is_pending(question, pending):
            chosen_by = GIVEN if self._leaves_nothing(given) else QUASI_RANDOM
            feasible = self.feasibility(state)
            question = self.quasi_random(number, pending, given, feasible)
        kind = None if given.context else self._kind_in_between(number)
        if kind is not None:
            context, sides = self._in_between(kind, question)
            changed = given.confine(context, self.settings.space.contexts), sides
            if not is_pending(changed, pending):
                used = kind not in self.settings.kept_out
                return Trial(number, *changed, kind, "", used=used)
        return Trial(number, *question, chosen_by, "")

    def _leaves_nothing(self, given: Conditions) -> bool:
        """Whether there is nothing to choose."""
        space = self.settings.space
        return not space.parameters and len(given.context) == len(space.contexts)

    def feasibility(self, state: State) -> Feasibility | None:
        r"""The restriction to feasible trials, if not all are feasible.

        Args:
            state: The state of the journal.

        Returns:
            The restriction for rules and recommendations.
        """
        if self.settings.feedback.infeasible is None:
            return None
        return learn_feasibility(self.settings, self.encoder, state.told)

    def by_rule(
        self,
        model: LatentGP,
        number: int,
        pending: Tensor,
        given: Conditions,
        feasibility: Feasibility | None = None,
    ) -> Question:
        r"""The rule's choice.

        Args:
            model: The model of the answers.
            number: The number of the trial.
            pending: The rows of the pending trials, in the layout of ``train_X``.
            given: The conditions on the trial.
            feasibility: The restriction to feasible trials, if not all are feasible.
        """
        if self._leaves_nothing(given):
            return given.context, ({},)
        known: dict[str, Any] = {
            "rule": str(self.settings.rule),
            "options": SEARCH,
            "seed": self.seed("ask", number),
            "pending": pending if len(pending) else None,
            "feasibility": feasibility,
        }
        space = self.encoder.context_space
        feedback = self.settings.feedback
        contexts = self.settings.space.contexts
        if isinstance(feedback, BestOf):
            nearest = given.confine(self._goal_context(given), contexts)
            context = self.encoder.encode_context(nearest)
            X = suggest_contest(model, space, feedback.options, context, **known)
        else:
            X = suggest(model, space, **known, **self._hold(given))
        shown, sides = self.encoder.decode(X.reshape(-1, space.dim))
        return given.confine(shown, contexts), sides

    def _goal_context(self, given: Conditions) -> Values:
        """The context of the goal: the given values, otherwise the reference."""
        return {**self.settings.space.reference_context(), **given.context}

    def _hold(self, given: Conditions) -> dict[str, Any]:
        """The arguments of ``suggest`` that fix or limit contexts."""
        columns = self.encoder.encode_context(self._goal_context(given))
        if given.context and len(given.context) == len(self.settings.space.contexts):
            return {"context": columns, "goal": self.goal}
        goal = self.goal
        measures = self.settings.rule in MEASURING_RULES
        if given.context and goal is None and not measures:
            goal = AtContext(columns)
        return {"constraints": given.constraints(self.encoder), "goal": goal}

    def quasi_random(
        self,
        number: int,
        pending: Sequence[Trial],
        given: Conditions,
        feasibility: Feasibility | None = None,
    ) -> Question:
        r"""The first trial of a scrambled Sobol sequence that can be asked.

        It must be feasible and not pending.

        Args:
            number: Where in the sequence to start, from 1.
            pending: The pending trials.
            given: The conditions on the trial.
            feasibility: The restriction to feasible trials, if not all are feasible.
        """
        contexts = self.settings.space.contexts
        for context, sides in itertools.chain(
            self._sequence(number, given), self._all_questions(given)
        ):
            question = given.confine(context, contexts), sides
            is_new = not is_pending(question, pending)
            if is_new and self._is_feasible(question, feasibility):
                return question
        if feasibility is not None:
            raise NoTrialLeftError(
                "Expected a trial that is not pending and likely to be feasible, but "
                "got none."
            )
        raise UnsupportedError(
            "Expected a trial that is not pending, but got none: each of the "
            f"{len(pending)} trials that can be shown has been asked and waits for an "
            "answer."
        )

    def _is_feasible(self, question: Question, feasibility: Feasibility | None) -> bool:
        if feasibility is None:
            return True
        rows = self.encoder.encode(*question)
        with torch.no_grad():
            return bool(feasibility.slack(rows.unsqueeze(0)) >= 0.0)

    def _kind_in_between(self, number: int) -> str | None:
        """The kind of a trial in between: "catch" or "easy"."""
        chosen = self.settings
        assert chosen.seed is not None
        return choose_kind(chosen.seed, number, chosen.catch_rate, chosen.easy_rate)

    def _in_between(self, kind: str, question: Question) -> Question:
        """The catch trial or easy trial that replaces a question."""
        if kind == CATCH:
            return make_catch(*question, self.settings.catch)
        return make_easy(*question, self.settings.space)

    def _sequence(self, number: int, given: Conditions) -> Iterator[Question]:
        space = self.encoder.context_space
        sides = self.settings.feedback.num_sides
        m = space.num_contexts
        k = len(space.parameter_dims)
        seed = self.seed(QUASI_RANDOM)
        engine = SobolEngine(m + sides * k, scramble=True, seed=seed)
        engine.fast_forward(number - 1)
        low, high = given.bounds(self.encoder)
        for _ in range(MAX_SKIPS):
            point = engine.draw(dtype=torch.float64)[0]
            context = low + (high - low) * point[:m]
            X: Tensor = space.join(point[m:].reshape(sides, k), context)
            yield self.encoder.decode(X)

    def _all_questions(self, given: Conditions) -> Iterator[Question]:
        """Every trial that can be shown; empty if there are infinitely many."""
        contexts = self.encoder.space.contexts
        parameters = self.encoder.space.parts
        sides = self.settings.feedback.num_sides
        values: list[Any] = [given.choices(context) for context in contexts]
        values += [p.choices for p in parameters * sides]
        finite = [found for found in values if found is not None]
        if len(finite) < len(values):
            return
        for row in itertools.product(*finite):
            rest = iter(row)
            context = {c.name: next(rest) for c in contexts}
            yield (
                context,
                tuple({p.name: next(rest) for p in parameters} for _ in range(sides)),
            )
