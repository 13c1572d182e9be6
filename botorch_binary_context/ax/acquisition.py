r"""
The package's rules, used instead of Ax's acquisition functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch_base import TorchOptConfig
from botorch.exceptions import UnsupportedError
from botorch.generation.sampling import SamplingStrategy
from torch import Tensor

from botorch_binary_context.ax.columns import TrialColumns
from botorch_binary_context.ax.goals import load_goal
from botorch_binary_context.ax.models import latent_model
from botorch_binary_context.constraints import Constraints
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.goals import AtContext, AtReference, ThresholdMap
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.numerics.optim import SearchOptions
from botorch_binary_context.rules import recommend, suggest

Inequalities = list[tuple[Tensor, Tensor, float]]


class RuleAcquisition(Acquisition):
    r"""Chooses trials by a rule of the package.

    The options are ``rule``, ``contexts`` (the reference value of each, in the units of
    the model), ``goal`` (stored, in the same units), ``search`` (keyword arguments of
    ``SearchOptions``), ``seed``, and ``recommends`` to get the inferred best instead of
    trials.
    """

    def __init__(
        self, *args: Any, torch_opt_config: TorchOptConfig, **kwargs: Any
    ) -> None:
        r"""
        Args:
            args: The arguments of ``Acquisition``.
            torch_opt_config: Ax's configuration of the optimization.
            kwargs: The keyword arguments of ``Acquisition``.
        """
        super().__init__(*args, torch_opt_config=torch_opt_config, **kwargs)
        # Not ``self.X_pending``: Ax leaves out what differs from the fixed features.
        outcome = int(torch_opt_config.objective_weights.abs().sum(dim=0).argmax())
        pending = torch_opt_config.pending_observations
        self.pending_rows = None if pending is None else pending[outcome]

    def _instantiate_acquisition(self) -> None:
        """Make none, since a rule may have several stages."""
        self.acqf = None  # pyright: ignore[reportAttributeAccessIssue]
        self.models_used = [self.surrogate.model_name_by_metric]
        self.acq_function_sequence = None

    @property
    def latent(self) -> LatentGP:
        """The package's model of the objective."""
        return latent_model(self._model)

    def pending_trials(self) -> Tensor | None:
        r"""The trials that wait for an answer, in the layout of ``train_X``."""
        rows = self.pending_rows
        functional = self.latent.functional
        if rows is None or len(rows) == 0:
            return None
        if len(rows) % functional.num_rows:
            raise UnsupportedError(
                "Expected every pending trial to be a duel of two arms, but got "
                f"{len(rows)} arms."
            )
        return functional.trials(rows.to(self.latent.train_targets))

    def space(self, search_space_digest: SearchSpaceDigest) -> ContextSpace:
        r"""The box of the trials.

        Args:
            search_space_digest: Ax's description of the columns.

        Returns:
            The box, with the reference contexts of the options.
        """
        reference = self.options["contexts"]
        return TrialColumns(search_space_digest, list(reference)).space(reference)

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        inequality_constraints: Inequalities | None = None,
        equality_constraints: Inequalities | None = None,
        fixed_features: dict[int, float] | None = None,
        rounding_func: Callable[[Tensor], Tensor] | None = None,
        optimizer_options: dict[str, Any] | None = None,
        candidate_set: Tensor | None = None,
        sampling_strategy: SamplingStrategy | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Choose trials.

        Args:
            n: The number of arms: trials, or 2 for the sides of a duel.
            search_space_digest: Ax's description of the columns.
            inequality_constraints: As in ``optimize_acqf``.
            equality_constraints: As in ``optimize_acqf``.
            fixed_features: Columns that are given; a given context is one.
            rounding_func: Rounds rows to values that exist.
            optimizer_options: Must be empty: the effort is an option of the rule.
            candidate_set: Must be None.
            sampling_strategy: Must be None.

        Returns:
            The ``n x d`` arms, ``n`` zeros in place of values, since rules have no
            common scale, and ``n`` ones, since all arms have the same weight.
        """
        if candidate_set is not None or sampling_strategy is not None:
            raise UnsupportedError(
                "Expected rules to choose among all trials of the search space, but "
                "got ``candidate_set`` or ``sampling_strategy``."
            )
        space = self.space(search_space_digest)
        fixed = {} if fixed_features is None else dict(fixed_features)
        constraints = make_constraints(
            search_space_digest, fixed, inequality_constraints, equality_constraints
        )
        given = [fixed.get(i) for i in space.context_dims]
        context = None
        if given and None not in given:
            context = self.latent.train_targets.new_tensor(given)
        if self.options.get("recommends", False):
            rows = self._recommend(space, constraints, context)
        else:
            rows = self._suggest(n, space, constraints, context)
        if rounding_func is not None:
            rows = torch.stack([rounding_func(row) for row in rows])
        return rows, rows.new_zeros(len(rows)), rows.new_ones(len(rows))

    def _suggest(
        self,
        n: int,
        space: ContextSpace,
        constraints: Constraints | None,
        context: Tensor | None,
    ) -> Tensor:
        """The rows of the next trials."""
        functional = self.latent.functional
        pending = self.pending_trials()
        if functional.num_rows == 2 and n != 2:
            raise UnsupportedError(
                f"Expected ``n`` to be 2, the two sides of a duel, but got {n}; "
                "``botorch_binary_context.ax.get_next_duels`` asks for duels."
            )
        trials = suggest(
            self.latent,
            space,
            rule=self.options["rule"],
            options=SearchOptions(**self.options.get("search", {})),
            seed=self._seed(pending),
            q=n // functional.num_rows,
            pending=pending,
            goal=load_goal(self.options.get("goal")),
            context=context,
            constraints=constraints,
        )
        return trials.reshape(n, space.dim)

    def _recommend(
        self,
        space: ContextSpace,
        constraints: Constraints | None,
        context: Tensor | None,
    ) -> Tensor:
        """The row of the inferred best, in the given context or in the reference."""
        goal = load_goal(self.options.get("goal"))
        if isinstance(goal, ThresholdMap):
            raise UnsupportedError(
                f"Expected ``goal`` to have an optimum, but got {goal}."
            )
        if context is not None:
            goal = AtContext(context)
        elif goal is None:
            goal = AtReference()
        if constraints is not None:
            goal = constraints.restrict(goal, space)
        best = recommend(self.latent, space, goal=goal)
        at = space.reference_context if context is None else context
        row = space.join(best, at).unsqueeze(0)
        return row if constraints is None else constraints.apply(space, row)

    def _seed(self, pending: Tensor | None) -> int:
        """A seed that depends only on the answered and the pending trials."""
        waiting = 0 if pending is None else len(pending)
        answered = self.latent.train_targets.shape[-1]
        return 1000 * self.options.get("seed", 0) + answered + waiting


def make_constraints(
    digest: SearchSpaceDigest,
    fixed: dict[int, float],
    inequality_constraints: Inequalities | None,
    equality_constraints: Inequalities | None = None,
) -> Constraints | None:
    r"""The constraints on trials.

    Args:
        digest: Ax's description of the columns.
        fixed: Columns that are given.
        inequality_constraints: As in ``optimize_acqf``.
        equality_constraints: As in ``optimize_acqf``; each becomes two inequalities.

    Returns:
        The constraints; None if all trials of the box are allowed.
    """
    linear = list(inequality_constraints or ())
    for indices, coefficients, rhs in equality_constraints or ():
        linear.append((indices, coefficients, rhs))
        linear.append((indices, -coefficients, -rhs))
    choices = {i: v for i, v in digest.discrete_choices.items() if i not in fixed}
    if not (linear or fixed or choices):
        return None
    return Constraints(linear, fixed, choices)
