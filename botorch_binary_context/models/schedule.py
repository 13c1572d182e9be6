r"""
When to learn hyperparameters during an experiment: whenever the data have grown by a
tenth.
"""

from __future__ import annotations

# Fewer trials than this say nothing about hyperparameters.
FEWEST_TRIALS = 5


def last_scheduled_fit(num_trials: int, first: int) -> int | None:
    r"""The last scheduled time to learn hyperparameters, if there was one.

    Args:
        num_trials: The number of trials with an answer so far.
        first: The number of trials at which to learn first; at least five are used.

    Returns:
        The number of trials to learn from, or None if there are too few.
    """
    due = None
    following = max(first, FEWEST_TRIALS)
    while following <= num_trials:
        due = following
        following = following + -(-following // 10)
    return due


def should_learn(num_trials: int, first: int = 10) -> bool:
    r"""Whether to learn hyperparameters after this many trials.

    They are learned first after ten trials, and then whenever the number of trials has
    grown by a tenth, rounded up: 10, 11, 13, 15, 17, 19, 21, 24, ...

    Args:
        num_trials: The number of trials with an answer so far.
        first: The number of trials at which to learn first; at least five are used.

    Example:
        >>> if should_learn(model.train_targets.shape[-1]):
        >>>     mll = ApproximateMarginalLogLikelihood(model.likelihood, model)
        >>>     fit_gpytorch_mll(mll)
    """
    return last_scheduled_fit(num_trials, first) == num_trials
