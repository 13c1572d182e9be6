r"""
Selection rules: which trial to run next.

A rule is a row of a table. Most choose in two stages, as section 3.3 of
[Fauvel2022contextual]_ does: first the parameters ``x`` (or the two sides of a duel),
then the context ``s`` given these. Others choose the whole trial at once. A new rule is
a new row, here with a function ``by_posterior_mean`` of one's own:

    >>> BINARY_RULES["mean-ald"] = TwoStages(by_posterior_mean, most_informative)
    >>> suggest(model, space, rule="mean-ald")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from botorch.exceptions import UnsupportedError
from botorch.utils.sampling import manual_seed
from torch import Tensor

from botorch_binary_context.acquisition.analytic import (
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    LatentUpperConfidenceBound,
    MaximallyUncertainChallenge,
)
from botorch_binary_context.acquisition.base import match_space
from botorch_binary_context.acquisition.entropy_search import (
    ContextualJointEntropySearch,
    maximize_paths,
)
from botorch_binary_context.acquisition.joint_search import (
    NestedKnowledgeGradient,
    maximize_knowledge_gradient,
)
from botorch_binary_context.acquisition.knowledge_gradient import (
    ContextualBinaryKnowledgeGradient,
)
from botorch_binary_context.acquisition.moment_matched import (
    MomentMatchedKnowledgeGradient,
)
from botorch_binary_context.acquisition.posterior_mean import maximize_posterior_mean
from botorch_binary_context.acquisition.targeted import TargetedInformation
from botorch_binary_context.context import ContextSpace
from botorch_binary_context.functionals import DIFFERENCE, VALUE
from botorch_binary_context.models.latent_gp import LatentGP
from botorch_binary_context.models.mixed_gp import MixedGP
from botorch_binary_context.numerics.optim import SearchOptions, maximize
from botorch_binary_context.sampling.paths import draw_sample_paths

# Quasi-random points come in this many sets, so that their neighbours are found once.
NUM_POINT_SETS = 8
COARSE_GAIN = 1e-6
COARSE_EVALUATIONS = 40
BOLD_BETA = NormalDist().inv_cdf(0.99)
# The current best only needs to be good enough to compare others with.
ROUGH_SEARCH = SearchOptions(num_restarts=4, raw_samples=256, max_evaluations=30)
ROUGH_GAIN = 1e-4
CONTEXT_SEARCH = SearchOptions(num_restarts=3, raw_samples=64)


@dataclass(frozen=True)
class Search:
    r"""What a rule has to go by.

    Attributes:
        model: The model of the trials so far.
        space: The box of the trials.
        options: The effort of the search for ``x`` or for the whole trial.
    """

    model: LatentGP
    space: ContextSpace
    options: SearchOptions

    @property
    def coarse_options(self) -> SearchOptions:
        """For functions that cost much: their last digits do not decide a trial."""
        return replace(
            self.options,
            max_evaluations=min(self.options.max_evaluations, COARSE_EVALUATIONS),
            relative_gain=max(self.options.relative_gain, COARSE_GAIN),
        )

    def maximize(
        self,
        function: Callable[[Tensor], Tensor],
        bounds: Tensor,
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The maximiser of a function for every element of the model's batch.

        Args:
            function: Maps ``r x batch_shape x k`` points to ``r x batch_shape`` values.
            bounds: The ``2 x k`` box.
            options: The effort of the search.

        Returns:
            A ``batch_shape x k`` tensor.
        """
        options = self.options if options is None else options
        batch_shape, seed = self.model.batch_shape, draw_point_set()
        return maximize(function, bounds, batch_shape, options, seed=seed)[0]

    def maximize_parameters(self, score: Callable[[Tensor], Tensor]) -> Tensor:
        r"""The parameters that maximise a score of trials in the reference context.

        Args:
            score: Maps ``r x batch_shape x 1 x d`` trials to ``r x batch_shape``
                values.

        Returns:
            A ``batch_shape x 1 x (d - m)`` tensor.
        """
        chosen = self.maximize(
            lambda x: score(self.space.at_reference(x).unsqueeze(-2)),
            self.space.parameter_bounds,
        )
        return chosen.unsqueeze(-2)

    def maximize_trial(
        self,
        score: Callable[[Tensor], Tensor],
        options: SearchOptions | None = None,
    ) -> Tensor:
        r"""The whole trial that maximises a score.

        Args:
            score: Maps ``r x batch_shape x q x d`` trials to ``r x batch_shape``
                values.
            options: The effort of the search.

        Returns:
            A ``batch_shape x q x d`` tensor.
        """
        chosen = self.maximize(
            lambda u: score(self.decode(u)), self.trial_bounds, options
        )
        return self.decode(chosen)

    @property
    def trial_bounds(self) -> Tensor:
        """The ``2 x k`` bounds of a trial's free variables: a duel has one context."""
        sides = [self.space.parameter_bounds] * self.model.functional.num_rows
        return torch.cat([self.space.context_bounds, *sides], dim=-1)

    def decode(self, variables: Tensor) -> Tensor:
        r"""The trial that free variables make.

        Args:
            variables: A ``... x k`` tensor.

        Returns:
            A ``... x q x d`` tensor.
        """
        m, sides = self.space.num_contexts, self.model.functional.num_rows
        parameters = variables[..., m:].unflatten(-1, (sides, -1))
        return self.space.join(parameters, variables[..., None, :m])


def draw_point_set() -> int:
    r"""The seed of one of the sets of quasi-random points."""
    return int(torch.randint(NUM_POINT_SETS, (1,), device="cpu"))


# How parameters are chosen: ``batch_shape x q x (d - m)``.


def by_ucb(search: Search) -> Tensor:
    r"""Parameters of the largest binary upper confidence bound."""
    return search.maximize_parameters(BinaryUpperConfidenceBound(search.model).evaluate)


def by_bold_ucb(search: Search) -> Tensor:
    r"""Parameters of the largest binary UCB at 99 instead of 95 %: more exploration."""
    acqf = BinaryUpperConfidenceBound(search.model, beta=BOLD_BETA)
    return search.maximize_parameters(acqf.evaluate)


def by_latent_ucb(search: Search) -> Tensor:
    r"""Parameters of the largest upper confidence bound of the latent function."""
    return search.maximize_parameters(LatentUpperConfidenceBound(search.model).evaluate)


def by_thompson_sampling(search: Search) -> Tensor:
    r"""Parameters that maximise a function drawn from the posterior."""
    return _path_maximizers(search, 1)


def by_self_sparring(search: Search) -> Tensor:
    r"""A duel of the maximisers of two functions drawn from the posterior (KSS)."""
    return _path_maximizers(search, 2)


def by_uncertain_challenge(search: Search) -> Tensor:
    r"""A duel of the maximally uncertain challenger and the incumbent (MUC)."""
    model, space = search.model, search.space
    incumbent, _ = maximize_posterior_mean(model, space, search.options)
    acqf = MaximallyUncertainChallenge(model, space.at_reference(incumbent))
    challenger = search.maximize_parameters(acqf.evaluate)
    return torch.cat([challenger, incumbent.unsqueeze(-2)], dim=-2)


def _path_maximizers(search: Search, num_paths: int) -> Tensor:
    paths = draw_sample_paths(search.model, num_paths, bounds=search.space.bounds)
    return maximize_paths(paths, search.space, draw_point_set())[0].movedim(0, -2)


# How the context is chosen, given the parameters: ``batch_shape x m``.


def most_informative(search: Search, parameters: Tensor) -> Tensor:
    r"""The context in which the outcome tells most about the latent function (ALD)."""
    if search.space.num_contexts == 0:
        return at_random(search, parameters)
    score = BernoulliMutualInformation(search.model).evaluate
    return _best_context(search, parameters, score)


def most_targeted(search: Search, parameters: Tensor) -> Tensor:
    r"""The context whose outcome tells most about the reference context."""
    if search.space.num_contexts == 0:
        return at_random(search, parameters)
    target = search.space.at_reference(parameters)
    score = TargetedInformation(search.model, target).evaluate
    return _best_context(search, parameters, score)


def _best_context(
    search: Search, parameters: Tensor, score: Callable[[Tensor], Tensor]
) -> Tensor:
    """The context in which given parameters make the trial of the best score."""
    return search.maximize(
        lambda s: score(search.space.join(parameters, s.unsqueeze(-2))),
        search.space.context_bounds,
        CONTEXT_SEARCH,
    )


def at_random(search: Search, parameters: Tensor) -> Tensor:
    r"""A context drawn uniformly."""
    low, high = search.space.context_bounds
    shape = (*search.model.batch_shape, search.space.num_contexts)
    return low + (high - low) * torch.rand(shape, dtype=low.dtype, device=low.device)


def at_reference(search: Search, parameters: Tensor) -> Tensor:
    r"""Always the reference context."""
    reference = search.space.reference_context
    return reference.expand(*search.model.batch_shape, -1)


# How a whole trial is chosen at once: ``batch_shape x q x d``.


def by_knowledge_gradient(search: Search) -> Tensor:
    r"""The trial of the largest knowledge gradient, by refitted posteriors."""
    nested = ContextualBinaryKnowledgeGradient(search.model, search.space)
    return _by_joint_search(search, nested, search.coarse_options)


def by_moment_matched_knowledge_gradient(search: Search) -> Tensor:
    r"""The trial of the largest knowledge gradient, in closed form."""
    nested = MomentMatchedKnowledgeGradient(
        search.model, search.space, options=ROUGH_SEARCH
    )
    options = replace(search.coarse_options, relative_gain=ROUGH_GAIN)
    return _by_joint_search(search, nested, options)


def _by_joint_search(
    search: Search, nested: NestedKnowledgeGradient, options: SearchOptions
) -> Tensor:
    variables, _ = maximize_knowledge_gradient(
        nested, search.decode, search.trial_bounds, options, draw_point_set()
    )
    return search.decode(variables)


def by_mutual_information(search: Search) -> Tensor:
    r"""The trial whose outcome tells most about the latent function (BALD)."""
    return search.maximize_trial(BernoulliMutualInformation(search.model).evaluate)


def by_joint_entropy_search(search: Search) -> Tensor:
    r"""The trial whose outcome tells most about the optimum."""
    acqf = ContextualJointEntropySearch(search.model, search.space)
    return search.maximize_trial(acqf.evaluate, search.coarse_options)


def uniformly(search: Search) -> Tensor:
    r"""A trial drawn uniformly."""
    low, high = search.trial_bounds
    shape = (*search.model.batch_shape, low.shape[-1])
    u = torch.rand(shape, dtype=low.dtype, device=low.device)
    return search.decode(low + (high - low) * u)


@dataclass(frozen=True)
class TwoStages:
    r"""A rule that chooses the parameters first and then the context.

    Attributes:
        parameters: How the parameters are chosen.
        context: How the context is chosen, given the parameters.
    """

    parameters: Callable[[Search], Tensor]
    context: Callable[[Search, Tensor], Tensor]

    def __call__(self, search: Search) -> Tensor:
        r"""Choose a trial.

        Args:
            search: The model and the space.

        Returns:
            A ``batch_shape x q x d`` tensor.
        """
        parameters = self.parameters(search)
        context = self.context(search, parameters)
        return search.space.join(parameters, context.unsqueeze(-2))


Rule = Callable[[Search], Tensor]

#: Rules for pass/fail outcomes.
BINARY_RULES: dict[str, Rule] = {
    "ucb-ald": TwoStages(by_ucb, most_informative),
    "ts-ald": TwoStages(by_thompson_sampling, most_informative),
    "ucb99-ald": TwoStages(by_bold_ucb, most_informative),
    "lucb-ald": TwoStages(by_latent_ucb, most_informative),
    "ucb-random": TwoStages(by_ucb, at_random),
    "ts-random": TwoStages(by_thompson_sampling, at_random),
    "ucb-fixed": TwoStages(by_ucb, at_reference),
    "ts-fixed": TwoStages(by_thompson_sampling, at_reference),
    "ucb-target": TwoStages(by_ucb, most_targeted),
    "ucb99-target": TwoStages(by_bold_ucb, most_targeted),
    "mkg": by_moment_matched_knowledge_gradient,
    "cbkg": by_knowledge_gradient,
    "cjes": by_joint_entropy_search,
    "bald": by_mutual_information,
    "random": uniformly,
}

#: Rules for duels.
DUEL_RULES: dict[str, Rule] = {
    "muc-ald": TwoStages(by_uncertain_challenge, most_informative),
    "kss-ald": TwoStages(by_self_sparring, most_informative),
    "muc-random": TwoStages(by_uncertain_challenge, at_random),
    "kss-random": TwoStages(by_self_sparring, at_random),
    "muc-fixed": TwoStages(by_uncertain_challenge, at_reference),
    "muc-target": TwoStages(by_uncertain_challenge, most_targeted),
    "mkg": by_moment_matched_knowledge_gradient,
    "kg": by_knowledge_gradient,
    "cjes": by_joint_entropy_search,
    "bald": by_mutual_information,
    "random": uniformly,
}

# By what the trials of a model observe.
_RULES = {VALUE: BINARY_RULES, DIFFERENCE: DUEL_RULES}


def suggest(
    model: LatentGP,
    space: ContextSpace,
    rule: str = "ucb-ald",
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int | None = None,
) -> Tensor:
    r"""The next trial to run, for every element of the model's batch.

    Args:
        model: A model of the trials so far, of pass/fail outcomes or of duels.
        space: The box of the trials.
        rule: The name of a rule of ``BINARY_RULES`` or ``DUEL_RULES``.
        options: The effort of the searches.
        seed: The seed of what is random; by default torch's generator.

    Returns:
        A ``batch_shape x 1 x d`` trial or ``batch_shape x 2 x d`` duel, whose two sides
        share the context.

    Example:
        >>> trial = suggest(model, space, rule="ucb-ald")
        >>> model = model.condition_on_observations(trial, outcome)
        >>> duel = suggest(preferences, space, rule="muc-ald")  # 2 x d
        >>> preferences = preferences.condition_on_observations(
        ...     duel.unsqueeze(-3), outcome  # one duel of n' x 2 x d
        ... )
    """
    model, choose = _find_rule(model, rule)
    search = _begin(model, space, options)
    with manual_seed(seed), frozen(model), torch.no_grad():
        return choose(search)


def _find_rule(model: LatentGP, rule: str) -> tuple[LatentGP, Rule]:
    """The rule of a name, and the model that asks the kind of trials it is for."""
    rules = _RULES.get(model.functional, {})
    if rule in rules:
        return model, rules[rule]
    if isinstance(model, MixedGP):
        for kind, likelihood in enumerate(model.kinds):
            others = _RULES.get(likelihood.functional, {})
            if rule in others:
                return model.asking(kind), others[rule]
    names = {VALUE: "pass/fail outcomes", DIFFERENCE: "duels"}
    kind = names.get(model.functional, str(model.functional))
    raise UnsupportedError(
        f"Expected ``rule`` to be a rule for {kind}, one of {', '.join(rules)}, "
        f"but got {rule!r}."
    )


def recommend(
    model: LatentGP,
    space: ContextSpace,
    options: SearchOptions = SearchOptions(),  # noqa: B008
    seed: int = 0,
) -> Tensor:
    r"""The inferred best parameters, for every element of the model's batch.

    They maximise the posterior mean of the latent function in the reference context.

    Args:
        model: A model of the trials so far.
        space: The box of the trials.
        options: The effort of the search.
        seed: The seed of the search, which always repeats itself.

    Returns:
        A ``batch_shape x (d - m)`` tensor of parameters.

    Example:
        >>> best = recommend(model, space)
    """
    search = _begin(model, space, options)
    with frozen(model), torch.no_grad():
        return maximize_posterior_mean(model, search.space, options, seed)[0]


def _begin(model: LatentGP, space: ContextSpace, options: SearchOptions) -> Search:
    return Search(model.eval(), match_space(space, model), options)


@contextmanager
def frozen(model: torch.nn.Module) -> Iterator[None]:
    r"""Hold the hyperparameters constant: no graph is built to them.

    Args:
        model: The model.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
