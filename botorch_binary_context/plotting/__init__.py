r"""Pictures of models, acquisition functions and experiments.

Every function draws on the given axes, or on the axes of a new figure, and returns
them. New figures do not pass through ``pyplot``: none has to be closed.

    >>> ax = plot_success_probability(model, space)
    >>> ax.figure.savefig("success.png")

A :class:`~.view.View` says what is along the axes, where the rest is held, and what the
columns are called:

    >>> view = View(dims=[2], context=[0.5], names=["size", "gain", "tilt", "pace"])
    >>> ax = plot_success_probability(model, space, view)

Several plots on one figure fit best if it makes room for their titles and legends:

    >>> figure, axes = plt.subplots(1, 2, layout="constrained")
    >>> plot_posterior_mean(model, space, ax=axes[0])
    >>> plot_success_probability(model, space, ax=axes[1])
"""

from botorch_binary_context.plotting.acquisition import plot_acquisition
from botorch_binary_context.plotting.approximation import plot_approximation
from botorch_binary_context.plotting.curves import (
    plot_best_so_far,
    plot_contexts,
    plot_psychometric_curves,
)
from botorch_binary_context.plotting.goals import (
    plot_best_setting,
    plot_goal,
    plot_threshold_map,
)
from botorch_binary_context.plotting.posterior import (
    plot_posterior_mean,
    plot_success_probability,
)
from botorch_binary_context.plotting.view import View

__all__ = [
    "View",
    "plot_acquisition",
    "plot_approximation",
    "plot_best_setting",
    "plot_best_so_far",
    "plot_contexts",
    "plot_goal",
    "plot_posterior_mean",
    "plot_psychometric_curves",
    "plot_success_probability",
    "plot_threshold_map",
]
