# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Quickstart: pass or fail, at a difficulty that you choose
#
# A robot has to climb steps. Two numbers can be tuned, the stiffness of its legs and
# the length of its stride, and nobody can measure how good a setting is. All we can do
# is put the robot in front of a step and see whether it gets up: one bit. But *we
# choose how high the step is*, and that decides how much the bit is worth.
#
# The whole experiment is a loop of two lines:
#
# ```python
# for _ in range(35):
#     trial = suggest(model, space)  # a setting, and how high a step to test it on
#     model = model.condition_on_observations(trial, run_test(trial))
# best = recommend(model, space)
# ```
#
# In this tutorial you will
#
# 1. see what a test tells at each difficulty, and why the best difficulty depends on
#    the setting;
# 2. run one experiment with `suggest`, `condition_on_observations` and `recommend`;
# 3. compare ways to choose the difficulty on many robots at once, as one batched model.
#
# Notation: a *trial* is `z = (s, x)` with the *context* `s` (here the height of the
# step) and the *parameters* `x` (stiffness and stride). It is passed with probability
# `p(c=1|z) = Φ(f(z))`, where `Φ` is the normal distribution function and the latent
# function `f` has a Gaussian process prior.

# %%
import os

import matplotlib.pyplot as plt
import torch

from botorch_binary_context import (
    BernoulliMutualInformation,
    ContextSpace,
    psychometric_gp,
    recommend,
    suggest,
)
from botorch_binary_context.plotting import (
    View,
    plot_acquisition,
    plot_best_so_far,
    plot_contexts,
    plot_psychometric_curves,
    plot_success_probability,
)

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
NAMES = ["step height s (cm)", "stiffness", "stride"]

# %% [markdown]
# ## A system you can picture
#
# Each setting `x` has a height `g(x)` that the robot climbs half of the time. Lower
# steps it climbs nearly always, higher ones hardly ever: `f(s, x) = g(x) − s`, in
# centimeters. The functions below play the robot. The rest of the tutorial never looks
# into them, except to draw the truth and to keep the score.


# %%
def climbable_height(x, best=(0.65, 0.30), peak=16.0):
    """The hidden performance g(x): it falls faster on one side of the best setting."""
    offset = x - torch.as_tensor(best)
    below, above = torch.tensor([0.40, 0.18]), torch.tensor([0.15, 0.40])
    distance = offset / torch.where(offset < 0, below, above)
    return 2 + (peak - 2) * torch.exp(-distance.square().sum(dim=-1))


def pass_probability(trials, **robot):
    """The probability Φ(g(x) − s) that the robot gets up the step."""
    heights = climbable_height(trials[..., 1:], **robot)
    return torch.special.ndtr(heights - trials[..., 0])


def run_test(trials, **robot):
    """Pass (1) or fail (0): all that an experiment shows."""
    return torch.bernoulli(pass_probability(trials, **robot)).unsqueeze(-1)


# %% [markdown]
# Take three settings: a poor one, a middling one and the best. For each, the middle
# panel below shows the *psychometric curve*, the probability of a pass against the
# height of the step. The right panel shows what a test says about `g(x)`: the Fisher
# information of its outcome, `φ(f)² / (Φ(f) (1 − Φ(f)))`.

# %%
settings = torch.tensor([[0.20, 0.65], [0.35, 0.30], [0.65, 0.30]])
heights = torch.linspace(0, 20, 401)
side = torch.linspace(0, 1, 101)
grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1)

figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(14, 4), layout="constrained"
)
filled = left.contourf(side, side, climbable_height(grid), levels=16, cmap="viridis")
figure.colorbar(filled, ax=left, label="g(x): height climbed half of the time (cm)")
styles = zip(settings, (BLUE, ORANGE, GREEN), "XsP", ("-", "--", "-."), strict=True)
for x, color, marker, line in styles:
    f = climbable_height(x) - heights
    p = torch.special.ndtr(f)
    # By logarithms, since Φ(f) is zero in floating point where f is very negative.
    log_variance = torch.special.log_ndtr(f) + torch.special.log_ndtr(-f)
    information = torch.exp(-f.square() - log_variance) / (2 * torch.pi)
    look = {"color": color, "linestyle": line}
    mark = {"s": 110, "color": color, "edgecolors": "white", "zorder": 5}
    left.scatter(*x, marker=marker, **mark)
    middle.plot(heights, p, label=f"x = ({x[0]:.2f}, {x[1]:.2f})", **look)
    right.plot(heights, information, **look)
left.set(xlabel=NAMES[1], ylabel=NAMES[2], title="the hidden performance")
middle.set(xlabel=NAMES[0], ylabel="pass probability", title="what tests show")
middle.legend(loc="lower left", fontsize="small")
right.set(xlabel=NAMES[0], ylabel="Fisher information", title="what tests tell")
for setting, height in zip(settings.tolist(), climbable_height(settings), strict=True):
    print(f"x = {setting}: g(x) = {height:.1f} cm")

# %% [markdown]
# **What to see.** A test is informative only in a window of a few centimeters around
# `s = g(x)`, where pass and fail are about equally likely. Outside that window the
# outcome is known beforehand and the test is wasted. The windows of the three settings
# hardly overlap: *no single difficulty suits all settings*. And since we do not know
# `g`, we do not know where the window is, either.

# %% [markdown]
# ## The model
#
# `ContextSpace` says which column is the context, and in which *reference context* `s₀`
# the robot should be good in the end (here 10 cm). `psychometric_gp` is a model that
# can be used before anything has been fitted: `f(s, x) = a s + b(x)`, where a Gaussian
# process `b` says how the parameters shift the curve. `harder="up"` says that tests get
# harder as `s` rises; without it they get easier, as larger letters do. The experiment
# begins with five random trials.

# %%
bounds = torch.tensor([[0.0, 0.0, 0.0], [20.0, 1.0, 1.0]])
space = ContextSpace(bounds, context_dims=[0], reference_context=[10.0])


def random_trials(*shape):
    low, high = bounds
    return low + (high - low) * torch.rand(*shape, len(low))


trials = random_trials(5)
first_model = psychometric_gp(trials, run_test(trials), space, harder="up")

# %% [markdown]
# ## One experiment
#
# Now the loop of two lines. The rule `ts-ald` first draws a function from the posterior
# and takes the parameters that maximize it at `s₀` (Thompson sampling). Then it takes
# the difficulty at which the outcome tells most about a robot with these parameters
# ("active learning by disagreement").

# %%
model = first_model
for _ in range(5 if SMOKE_TEST else 35):
    trial = suggest(model, space, rule="ts-ald")
    model = model.condition_on_observations(trial, run_test(trial))
best = recommend(model, space)
print(f"recommended setting: stiffness {best[0]:.2f}, stride {best[1]:.2f}")
print(f"true height it climbs: {climbable_height(best):.1f} cm (at best 16.0 cm)")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
contexts = space.contexts(model.original_datapoints)
plot_contexts(contexts, model.train_targets, ax=left)
tried = climbable_height(space.parameters(model.original_datapoints))
left.plot(range(1, len(tried) + 1), tried, color="black", lw=1.2, label="g(x), hidden")
left.set(ylabel=NAMES[0], title="the step of each trial, and what the setting could do")
left.legend()
plot_success_probability(model, space, View(names=NAMES), ax=right)
truth = {"marker": "P", "s": 110, "color": "white", "edgecolors": "black"}
right.scatter(0.65, 0.30, zorder=6, label="true optimum", **truth)
above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "frameon": False}
above["borderaxespad"] = 0.2
right.legend(ncols=4, columnspacing=1, handletextpad=0.3, **above)
print(f"passed: {model.train_targets[5:].mean():.0%} of the trials that were chosen")

# %% [markdown]
# **What to see.** *Left:* the first five steps are random. Then the steps come down
# until the robot passes some, and from there on they follow the hidden line up and
# down: a weak setting gets a low step, a strong one a high step, and most tests could
# go either way. *Right:* the model's probability of passing the 10 cm step. The trials
# gather where the robot is good, and the recommended setting (star) lies near the true
# optimum (white plus).

# %% [markdown]
# ## What the model would like to know
#
# How did it choose the steps? BALD, the mutual information `I(c, f | s, x)` between the
# outcome and the latent function, is the Fisher information's counterpart for somebody
# who does not know `g`. Here it is over the height of the step and the stiffness, with
# the stride held at the recommended one: after the five random trials, and at the end.

# %%
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
stiffness = torch.linspace(0, 1, 101)
line = torch.stack([stiffness, best[1].expand(101)], dim=-1)
for ax, stage, count in zip(axes, (first_model, model), (5, len(tried)), strict=False):
    acqf = BernoulliMutualInformation(stage)
    plot_acquisition(acqf, space, View(dims=[1, 0], at=best, names=NAMES), ax=ax)
    with torch.no_grad():
        values = acqf(space.join(line, heights[:, None, None]).unsqueeze(-2))
    ax.plot(stiffness, heights[values.argmax(dim=0)], color="white", lw=2)
    ax.plot(stiffness, climbable_height(line), color="white", lw=2, ls="--")
    ax.text(0.02, 18.7, f"BALD after {count} trials", color="white", weight="bold")
labels = [f"x = ({a:.2f}, {b:.2f})" for a, b in settings.tolist()]
view = View(names=NAMES)
plot_psychometric_curves(model, space, settings, view, labels=labels, ax=axes[2])
for x, color in zip(settings, (BLUE, ORANGE, GREEN), strict=True):
    truth = torch.special.ndtr(climbable_height(x) - heights)
    axes[2].plot(heights, truth, color=color, ls=":")
axes[2].legend(loc="upper right", fontsize="small")
_ = axes[2].set_title("what the model believes at the end", size="medium")

# %% [markdown]
# **What to see.** The solid white line is the most informative step for each stiffness,
# the dashed one the hidden `g(x)`. *Left:* after five random trials the model cannot
# tell settings apart, and would test all of them at the same height. *Middle:* at the
# end the two lines run together: **the informative difficulty is a function of the
# setting**, and the model has learned it. *Right:* the psychometric curves that the
# model believes in, with 90 % bands, for the three settings of the first figure. They
# are in the right order, with the best setting still underrated. The true curves
# (dotted) are steeper: the slope is a cautious default, which more trials or a fit of
# the hyperparameters would correct.

# %% [markdown]
# ## Does the choice of the difficulty pay? Twenty robots at once
#
# One experiment is an anecdote. Repetitions are a *batch*: a model of twenty
# experiments is one model with `batch_shape = (20,)`, and `suggest`,
# `condition_on_observations` and `recommend` work on all of them together. To make it a
# fair test, every robot is different: its best setting, and the height it then climbs
# (6 to 18 cm), are drawn at random. Before the experiment nobody can know which steps
# will be informative.

# %%
num_robots, num_trials = (3, 4) if SMOKE_TEST else (20, 45)
torch.manual_seed(1)
robots = {
    "best": 0.2 + 0.6 * torch.rand(num_robots, 1, 2),
    "peak": 6 + 12 * torch.rand(num_robots, 1),
}


def run_experiments(rule, reference=10.0):
    """How far below its best each robot is, after each trial."""
    torch.manual_seed(2)
    space = ContextSpace(bounds, context_dims=[0], reference_context=[reference])
    trials = random_trials(num_robots, 5)
    if rule == "ts-fixed":
        trials[..., 0] = reference
    model = psychometric_gp(trials, run_test(trials, **robots), space, harder="up")
    shortfall = []
    for _ in range(num_trials):
        trial = suggest(model, space, rule)
        model = model.condition_on_observations(trial, run_test(trial, **robots))
        found = climbable_height(recommend(model, space).unsqueeze(-2), **robots)
        shortfall.append((robots["peak"] - found).squeeze(-1))
    return torch.stack(shortfall, dim=-1)  # robots x trials


# %% [markdown]
# The rule `ts-random` draws the height of each step at random; `ts-fixed` always tests
# in the reference context, which we set to an easy, a middling and a hard step in turn.

# %%
results = {
    "chosen": run_experiments("ts-ald"),
    "at random": run_experiments("ts-random"),
    "always 5 cm": run_experiments("ts-fixed", reference=5.0),
    "always 10 cm": run_experiments("ts-fixed", reference=10.0),
    "always 15 cm": run_experiments("ts-fixed", reference=15.0),
}
print("cm below the best, at the end:   mean   worst robot")
for label, shortfall in results.items():
    last = shortfall[:, -1]
    print(f"  {label:<28} {last.mean():7.2f} {last.max():9.2f}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.4), layout="constrained")
for label, shortfall in results.items():
    plot_best_so_far(shortfall, label=label, ax=left)
left.set(ylabel="cm below the robot's best", title="mean over robots ± standard error")
left.set_ylim(0, 12)
left.legend(loc="upper right", ncols=2, fontsize="small")
markers = zip(results.items(), "oXs^D", strict=True)
colors = [line.get_color() for line in left.lines]
for ((label, shortfall), marker), color in zip(markers, colors, strict=True):
    peak = robots["peak"].squeeze(-1)
    style = {"edgecolors": color, "facecolors": "none", "marker": marker, "s": 36}
    right.scatter(peak, shortfall[:, -1], label=label, **style)
right.set(xlabel="the robot's best height (cm)", ylabel="cm below it, at the end")
right.set_title("each robot")
_ = right.legend()

# %% [markdown]
# **What to see.** *Left:* with the difficulty chosen, the robots end closest to their
# best. *Right:* why. A fixed step works for the robots that it happens to suit and
# fails for others: with 15 cm most robots fail nearly every test, learn nothing from
# failures that were to be expected, and stay where they began. With 10 cm some are
# lucky. The low step of 5 cm is the quickest at first, because every robot can pass it
# somewhere. Then progress stalls, most of all for the best robots: one that climbs 16
# cm passes a step of 5 cm with many settings, and the test cannot tell them apart.
# Choosing the step needs no luck. The same rule serves the weak robots and the strong,
# and even its worst robot (last column of the table) does well, where every other row
# has some robot that is far off.

# %% [markdown]
# ## Where to go next
#
# - Your own system: replace `run_test` by your experiment and `space` by its box. If
#   one of `k` answers is right by chance, pass `guess_rate=1/k` to `psychometric_gp`.
# - Hyperparameters are learned the BoTorch way:
#   `fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))`.
# - Other rules are other names: see `BINARY_RULES`; `ucb-ald`, the default, takes an
#   upper confidence bound, `cbkg` is the knowledge gradient, `cjes` asks about the
#   optimum itself.
# - `02_duels.py`: when the answer is "this one rather than that one".
# - `05_knowledge_gradient.py` and `06_sampling.py`: what the rules are made of.
