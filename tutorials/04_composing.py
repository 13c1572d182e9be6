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
# # Composing with BoTorch: parts that fit together
#
# The models of this package are BoTorch models, made of GPyTorch kernels and means. So
# parts can be replaced one by one, by stock parts or by your own.
#
# In this tutorial you will
#
# 1. put a pass/fail model into stock acquisition functions and `optimize_acqf`;
# 2. use a pass/fail model as a *constraint*: the fastest robot that still climbs the
#    step;
# 3. build a kernel for a context of your own, a compass direction;
# 4. write a rule of your own, one function and one row of a table, and race it against
#    `ucb-ald`.
#
# The example is again a robot like that of `01_quickstart.py`. A trial is `z = (s, x)`,
# with the height `s` of a step (the context) and the parameters `x`, stiffness and
# stride. The robot gets up with probability `Φ(f(z))`.

# %%
import os

import matplotlib.pyplot as plt
import torch
from botorch.acquisition import (
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qSimpleRegret,
    qUpperConfidenceBound,
)
from botorch.acquisition.analytic import (
    LogConstrainedExpectedImprovement,
    LogProbabilityOfFeasibility,
)
from botorch.acquisition.objective import GenericMCObjective
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelListGP, SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_binary_context import (
    BINARY_RULES,
    BernoulliMutualInformation,
    BinaryLaplaceGP,
    BinaryUpperConfidenceBound,
    ClassProbability,
    ContextSpace,
    ContextualJointEntropySearch,
    LaplaceMarginalLogLikelihood,
    LatentUpperConfidenceBound,
    LinearContextMean,
    ProbitLikelihood,
    SearchOptions,
    psychometric_gp,
    recommend,
    suggest,
)
from botorch_binary_context.plotting import plot_best_so_far
from botorch_binary_context.rules import TwoStages, most_informative

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
ORANGE = "#D55E00"
NAMES = ["step height s (cm)", "stiffness", "stride"]
EFFORT = {"num_restarts": 4, "raw_samples": 32 if SMOKE_TEST else 64}


# %%
def climbable_height(x, best=(0.65, 0.30), peak=16.0):
    """The hidden performance: the height that is climbed half of the time."""
    offset = (x - torch.as_tensor(best)) / torch.tensor([0.35, 0.30])
    return 2 + (peak - 2) * torch.exp(-offset.square().sum(dim=-1))


def run_test(trials, **robot):
    """Pass (1) or fail (0), with probability Φ(g(x) − s)."""
    margin = climbable_height(trials[..., 1:], **robot) - trials[..., 0]
    return torch.bernoulli(torch.special.ndtr(margin)).unsqueeze(-1)


bounds = torch.tensor([[0.0, 0.0, 0.0], [20.0, 1.0, 1.0]])
space = ContextSpace(bounds, context_dims=[0], reference_context=[10.0])


def random_trials(*shape):
    low, high = bounds
    return low + (high - low) * torch.rand(*shape, len(low))


trials = random_trials(10 if SMOKE_TEST else 30)
model = psychometric_gp(trials, run_test(trials), space, harder="up")

# %% [markdown]
# ## Stock acquisition functions
#
# `model.posterior(X)` is the Gaussian posterior of the latent `f`, which is all that
# stock acquisition functions ask for. The context is a column like the others:
# `fixed_features` holds it at the reference. Here are four stock functions.
#
# - `PosteriorMean`: its maximizer is what `recommend` gives.
# - `PosteriorMean` of the probability `Φ(f)`, by `ClassProbability` as its
#   `posterior_transform`.
# - `UpperConfidenceBound` on the latent scale.
# - `qUpperConfidenceBound`, a Monte Carlo function, with a batch of three trials to run
#   at the same time.

# %%
transform = ClassProbability(model.likelihood)
sampler = SobolQMCNormalSampler(torch.Size([128]), seed=0)
functions = {
    "PosteriorMean": (PosteriorMean(model), 1),
    "E Φ(f)": (PosteriorMean(model, posterior_transform=transform), 1),
    "UpperConfidenceBound": (UpperConfidenceBound(model, beta=4.0), 1),
    "qUpperConfidenceBound": (qUpperConfidenceBound(model, 4.0, sampler), 3),
}
candidates = {}
for name, (acqf, q) in functions.items():
    candidates[name], value = optimize_acqf(
        acqf, bounds, q, num_restarts=8, raw_samples=256, fixed_features={0: 10.0}
    )
    found = ", ".join(f"({x:.2f}, {y:.2f})" for x, y in candidates[name][:, 1:])
    print(f"{name:22} {value:6.2f} at {found}")
print(f"{'recommend':22}           {recommend(model, space).numpy().round(2)}")

# %%
side = torch.linspace(0, 1, 31 if SMOKE_TEST else 81)
grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1)
rows = space.at_reference(grid).reshape(-1, 1, 3)  # candidates of q = 1
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
star = {"marker": "*", "s": 220, "color": "white", "edgecolors": "black"}
for ax, name in zip(axes, list(functions)[1:], strict=True):
    with torch.no_grad():
        values = functions[name][0](rows).reshape(grid.shape[:-1])
    filled = ax.contourf(side, side, values, levels=20)
    figure.colorbar(filled, ax=ax, label="value, one trial at a time")
    ax.scatter(*candidates[name][:, 1:].T, clip_on=False, zorder=4, **star)
    ax.set(xlabel=NAMES[1], ylabel=NAMES[2], title=name)

# %% [markdown]
# **What to see.** *Left:* where the robot is expected to climb the step; the star is
# the candidate. The candidate of the plain `PosteriorMean` is printed above;
# `recommend` gives the same setting. *Middle:* an optimist's view of the latent
# function looks where less is known, at the edge. *Right:* the same function for a
# batch. Its three trials are chosen together, and keep apart from each other.

# %% [markdown]
# ## The package's own acquisition functions
#
# The rules of `suggest` are made of acquisition functions in BoTorch's form. These also
# work on their own in `optimize_acqf`, here over the whole trial: setting *and* height.
# Two upper confidence bounds, of the probability and of the latent function; BALD,
# which wants to know everything; and joint entropy search, which wants to know where
# the optimum is. With `observation_noise=True` the posterior is that of labels, a
# `LabelPosterior`, whose mean is the probability of a pass.

# %%
own = {
    "BinaryUpperConfidenceBound": BinaryUpperConfidenceBound(model),
    "LatentUpperConfidenceBound": LatentUpperConfidenceBound(model),
    "BernoulliMutualInformation": BernoulliMutualInformation(model),
    "ContextualJointEntropySearch": ContextualJointEntropySearch(model, space, seed=0),
}
for name, acqf in own.items():
    with manual_seed(0):
        trial, value = optimize_acqf(acqf, bounds, q=1, **EFFORT)
    label = model.posterior(trial, observation_noise=True)
    height, *setting = trial.squeeze(0).tolist()
    print(
        f"{name:28} {value:6.3f} at {height:5.1f} cm, ({setting[0]:.2f}, "
        f"{setting[1]:.2f}), passed with probability {label.mean.item():.2f}"
    )
quick = SearchOptions(num_restarts=2, raw_samples=64)
print(f"suggest, with a quick search {suggest(model, space, 'cjes', quick, seed=0)}")

# %% [markdown]
# The upper confidence bounds take the lowest step, where passing is easiest: they are
# meant to choose the setting at a reference height, and leave the height to BALD. The
# two that are about information take steps that may be passed or not.
#
# Assumptions about the test are parts of the model:
# `BinaryLaplaceGP(trials, outcomes, likelihood=ProbitLikelihood(guess_rate=1/4,
# lapse_rate=0.02), mean_module=LinearContextMean([0], slope=5.0))` models a test with
# four alternatives and a subject whose attention lapses at times.

# %%
careful = BinaryLaplaceGP(
    trials / bounds[1],
    model.train_targets.unsqueeze(-1),
    likelihood=ProbitLikelihood(guess_rate=1 / 4, lapse_rate=0.02),
    mean_module=LinearContextMean([0], slope=5.0, harder="up"),
)
ends = torch.tensor([[0.0, 0.5, 0.5], [1.0, 0.5, 0.5]])
with torch.no_grad():
    easy, hard = careful.probability_posterior(ends).mean.flatten().tolist()
print(f"passed: {easy:.2f} of easy tests, {hard:.2f} of hard ones")

# %% [markdown]
# ## Pass or fail as a constraint
#
# Often the outcome is not the goal but a condition. Say that every trial also shows the
# *speed* of the robot, a number with noise, and that we want the fastest robot among
# those that get up a step of 10 cm nine times out of ten. Stiff legs and a long stride
# make it fast, and unable to climb.
#
# Two models go into a list: a `SingleTaskGP` of the speed, which does not depend on the
# step (its kernel looks at columns 1 and 2), and the pass/fail model. The condition
# `Φ(f) ≥ 0.9` is `f ≥ Φ⁻¹(0.9)`: a lower bound on the second outcome, which is how
# BoTorch writes constraints.


# %%
def speed(x):
    """Meters per second."""
    return 1 + 0.8 * x[..., 0] + 1.5 * x[..., 1]


def measure_speed(trials):
    """The speed with some noise."""
    true = speed(trials[..., 1:]).unsqueeze(-1)
    return true + 0.05 * torch.randn_like(true)


def make_models(trials, speeds, passed):
    """The models of the speed and of the climbing, with fitted hyperparameters."""
    kernel = MaternKernel(nu=2.5, ard_num_dims=2, active_dims=[1, 2])
    objective = SingleTaskGP(trials, speeds, covar_module=ScaleKernel(kernel))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(objective.likelihood, objective))
    climber = psychometric_gp(trials, passed, space, harder="up")
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(climber.likelihood, climber))
    return ModelListGP(objective, climber)


needed = torch.special.ndtri(torch.tensor(0.9)).item()
CONSTRAINTS = {1: (needed, None)}


def constrained_improvement(models, trials):
    """Stock functions: the improvement of the speed, where the robot climbs."""
    with torch.no_grad():
        tried = models.posterior(space.at_reference(space.parameters(trials))).mean
    feasible = tried[:, 1] >= needed
    if not feasible.any():  # first find out what climbs
        return LogProbabilityOfFeasibility(models, CONSTRAINTS)
    best_f = tried[feasible, 0].max()
    return LogConstrainedExpectedImprovement(models, best_f, 0, CONSTRAINTS)


# %% [markdown]
# A trial is chosen in two stages, both by `optimize_acqf`: the parameters by the
# constrained improvement at 10 cm, and then, with these parameters fixed, the step that
# tells most about whether the robot will make it (BALD).

# %%
torch.manual_seed(3)
trials = random_trials(60 if SMOKE_TEST else 8)
speeds, passed = measure_speed(trials), run_test(trials)
for _ in range(2 if SMOKE_TEST else 25):
    models = make_models(trials, speeds, passed)
    acqf = constrained_improvement(models, trials)
    chosen, _ = optimize_acqf(acqf, bounds, q=1, fixed_features={0: 10.0}, **EFFORT)
    parameters = dict(enumerate(chosen[0, 1:].tolist(), start=1))
    informative = BernoulliMutualInformation(models.models[1])
    trial, _ = optimize_acqf(
        informative, bounds, q=1, fixed_features=parameters, **EFFORT
    )
    trials = torch.cat([trials, trial])
    speeds = torch.cat([speeds, measure_speed(trial)])
    passed = torch.cat([passed, run_test(trial)])
models = make_models(trials, speeds, passed)

# %% [markdown]
# What to recommend in the end depends on what is wanted. *Nine in ten*: the fastest
# setting whose mean satisfies the condition. *On average*: a fall costs a run and no
# more, and the setting of the largest expected speed `E[speed Φ(f)]` is wanted. That is
# another stock function, `qSimpleRegret`, with an objective of one line.

# %%
rows = space.at_reference(grid).reshape(-1, 3)
with torch.no_grad():
    mean = models.posterior(rows).mean.reshape(*grid.shape[:-1], 2)
    climbs = models.models[1].probability_posterior(rows).mean.reshape(grid.shape[:-1])
allowed = mean[..., 1] >= mean[..., 1].max().clamp(max=needed)
fastest = grid[allowed][mean[allowed][:, 0].argmax()]
worth = GenericMCObjective(lambda Y, X=None: Y[..., 0] * torch.special.ndtr(Y[..., 1]))
expected = qSimpleRegret(models, objective=worth)
average, _ = optimize_acqf(expected, bounds, 1, fixed_features={0: 10.0}, **EFFORT)
average = average[0, 1:]
height = climbable_height(grid) - 10
optimum = grid[height >= needed][speed(grid[height >= needed]).argmax()]
for name, x in (
    ("nine in ten", fastest),
    ("on average", average),
    ("true optimum", optimum),
):
    trial = space.at_reference(x.unsqueeze(0))
    believed = models.models[1].probability_posterior(trial).mean.item()
    p = torch.special.ndtr(climbable_height(x) - 10)
    place = f"({x[0]:.2f}, {x[1]:.2f})"
    print(f"{name:12} {place}: {speed(x):.2f} m/s, ", end="")
    print(f"climbs {p:.0%} (the model says {believed:.0%})")

# %%
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
filled = axes[0].contourf(side, side, mean[..., 0], levels=20)
figure.colorbar(filled, ax=axes[0], label="E speed (m/s)")
filled = axes[1].contourf(side, side, climbs, levels=20)
figure.colorbar(filled, ax=axes[1], label="probability to get up 10 cm")
for ax in axes[:2]:
    ax.contour(side, side, height, [needed], colors="white", linestyles="--")
    ax.contour(side, side, mean[..., 1], [needed], colors="white")
    ax.scatter(*fastest, label="nine in ten", zorder=4, **star)
    style = {"marker": "D", "s": 60, "color": ORANGE, "edgecolors": "black"}
    ax.scatter(*average, label="on average", zorder=4, **style)
    style = {"marker": "P", "s": 90, "color": "white", "edgecolors": "black"}
    ax.scatter(*optimum, label="true optimum", zorder=3, **style)
    ax.set(xlabel=NAMES[1], ylabel=NAMES[2])
axes[0].legend(loc="lower left", fontsize="small")
tried = space.parameters(trials)
answers = passed.squeeze(-1) == 1
for outcome, marker, color in ((True, "o", "#56B4E9"), (False, "X", ORANGE)):
    style = {"marker": marker, "color": color, "edgecolors": "black", "s": 36}
    axes[1].scatter(*tried[answers == outcome].T, zorder=2, **style)
    style["label"] = "passed" if outcome else "failed"
    number = torch.arange(1, len(trials) + 1)[answers == outcome]
    axes[2].scatter(number, trials[answers == outcome, 0], zorder=2, **style)
axes[2].plot(
    range(1, len(trials) + 1),
    climbable_height(tried),
    color="black",
    label="g(x), hidden",
)
axes[2].set(xlabel="trial", ylabel=NAMES[0])
_ = axes[2].legend(fontsize="small")

# %% [markdown]
# **What to see.** *Left and middle:* both models, with the edge of the region where
# nine in ten tests are passed: the true one (dashed) and what the models infer (solid).
# The fastest settings of all, at the top, do not climb. The recommended setting (star)
# is at the inferred edge, on the side where speed is to be had, and near the true
# optimum. It has `E f = Φ⁻¹(0.9)`, and since `f` is not known exactly, the probability
# that the model gives to a pass is somewhat lower than 0.9 (printed). The setting that
# is best on average (diamond) keeps a distance from the edge. *Right:* when the
# parameters have been chosen, the step follows what the setting can do (black): there
# pass and fail are about equally likely, and tell most about where the edge is. Most
# of the last settings climb 10 to 15 cm, which is near the edge.

# %% [markdown]
# ## A context kernel of your own
#
# A context need not be a difficulty. Say the robot walks across a slope, `s` is the
# compass direction it walks in, and the parameter is its *lean*: to stay upright it has
# to lean to one side or the other, as the direction says. No context kernel of the
# package knows about compasses, but stock kernels do. With `active_dims`, a product
# `k₁(s,s') k₂(x,x')` of any kernels is a kernel of trials: here a `PeriodicKernel`, for
# which 359° and 0° are neighbors. We compare with an `RBFKernel` of the direction, on
# trials in directions up to 270° only.


# %%
def stays_upright(trials):
    """Pass (1) or fail (0) on the slope."""
    return torch.bernoulli(torch.special.ndtr(upright_margin(trials))).unsqueeze(-1)


def upright_margin(trials):
    """The hidden latent function."""
    needed_lean = 0.5 + 0.3 * torch.cos(torch.deg2rad(trials[..., 0]))
    return 2 - ((trials[..., 1] - needed_lean) / 0.15).square()


slope_bounds = torch.tensor([[0.0, 0.0], [360.0, 1.0]])
slope = ContextSpace(slope_bounds, context_dims=[0], reference_context=[330.0])
torch.manual_seed(4)
walks = slope_bounds[1] * torch.rand(20 if SMOKE_TEST else 100, 2)
walks[:, 0] *= 0.75  # up to 270 degrees
upright = stays_upright(walks)


def make_walker(direction_kernel):
    """A model with the kernel k₁(s,s') k₂(x,x'), its hyperparameters fitted."""
    lean_kernel = RBFKernel(active_dims=[1])
    lean_kernel.lengthscale = 0.2
    kernel = ScaleKernel(direction_kernel * lean_kernel)
    kernel.outputscale = 4.0
    walker = BinaryLaplaceGP(walks, upright, covar_module=kernel)
    mll = LaplaceMarginalLogLikelihood(walker.likelihood, walker)
    fit_gpytorch_mll(mll)
    return walker


compass = PeriodicKernel(active_dims=[0])
compass.period_length, compass.lengthscale = 360.0, 1.0
compass.raw_period_length.requires_grad_(False)  # a circle has 360 degrees
ruler = RBFKernel(active_dims=[0])
ruler.lengthscale = 60.0
walkers = {"PeriodicKernel": make_walker(compass), "RBFKernel": make_walker(ruler)}

# %%
directions = torch.linspace(0, 360, 61 if SMOKE_TEST else 121)
leans = torch.linspace(0, 1, 41)
cells = torch.stack(torch.meshgrid(directions, leans, indexing="xy"), dim=-1)
truth = torch.special.ndtr(upright_margin(cells))
figure, axes = plt.subplots(1, 3, figsize=(16, 4.4), layout="constrained")
panels, proposals = {"the truth": truth}, {}
unseen = cells[..., 0] > 270
for name, walker in walkers.items():
    with torch.no_grad():
        found = walker.probability_posterior(cells.reshape(-1, 2)).mean
    panels[name] = found.reshape(truth.shape)
    error = (panels[name] - truth)[unseen].abs().mean()
    best = recommend(walker, slope).item()
    p = torch.special.ndtr(upright_margin(torch.tensor([330.0, best])))
    print(f"{name}: mean error beyond 270 degrees {error:.2f}, at 330 degrees ", end="")
    print(f"lean {best:.2f}, which stays upright with probability {p:.2f}")
    trial = proposals[name] = suggest(walker, slope, rule="ucb-ald", seed=0)[0]
    print(f"  the next trial: lean {trial[1]:.2f} at {trial[0]:.0f} degrees")
for ax, (name, values) in zip(axes, panels.items(), strict=True):
    levels = torch.linspace(0, 1, 21)
    filled = ax.contourf(directions, leans, values, levels=levels)
    ax.axvline(270, color="white", ls="--")
    ax.set(xlabel="direction s (degrees)", ylabel="lean", title=name)
    ax.set_xticks(range(0, 361, 90))
    if name in walkers:
        for outcome, marker, color in ((1, "o", "#56B4E9"), (0, "X", ORANGE)):
            style = {"marker": marker, "color": color, "edgecolors": "black", "s": 30}
            ax.scatter(*walks[upright[:, 0] == outcome].T, **style)
        ax.scatter(*proposals[name], clip_on=False, zorder=4, **star)
_ = figure.colorbar(filled, ax=axes, label="probability to stay upright")

# %% [markdown]
# **What to see.** Left of the dashed line both models have seen trials, and look like
# the truth. Right of it they have to guess. The `PeriodicKernel` knows that the circle
# closes: its bright band leaves at the right where it enters at the left, and bridges
# the gap. The lean that it recommends for 330° is good, though nobody ever walked in
# that direction; that of the `RBFKernel` is not (printed). The stars are the next
# trials by `ucb-ald`. Both go into the gap: the first to its middle, the second to
# 360°, as far as possible from all trials, not knowing that it has seen this direction
# as 0°.

# %% [markdown]
# ## A rule of your own
#
# A rule in two stages is a function that chooses the parameters and one that chooses
# the context: a row of the table `BINARY_RULES`. We keep the second stage,
# `most_informative`, and write the first: the parameters of the largest *expected
# improvement* of the latent function at the reference, over the best of the parameters
# tried so far. The improvement is BoTorch's; `selection` has the model, the space, and
# `maximize_parameters`, which finds the best parameters for every model of a batch.


# %%
def by_expected_improvement(selection):
    """Parameters of the largest expected improvement in the reference context."""
    tried = selection.space.parameters(selection.model.original_datapoints)
    at_reference = selection.space.at_reference(tried)
    model = selection.model
    best_f = model.posterior(at_reference).mean.amax(dim=-2)  # batch_shape x 1
    return selection.maximize_parameters(LogExpectedImprovement(model, best_f))


BINARY_RULES["ei-ald"] = TwoStages(by_expected_improvement, most_informative)

# %% [markdown]
# That is all: `suggest(model, space, rule="ei-ald")` works, also for batches. Here is a
# race on a batch of robots that all differ:

# %%
num_robots, num_trials = (3, 3) if SMOKE_TEST else (16, 30)
torch.manual_seed(5)
robots = {
    "best": 0.2 + 0.6 * torch.rand(num_robots, 1, 2),
    "peak": 6 + 12 * torch.rand(num_robots, 1),
}


def run_experiments(rule):
    """How far below its best each robot is, after each trial."""
    torch.manual_seed(6)
    trials = random_trials(num_robots, 5)
    model = psychometric_gp(trials, run_test(trials, **robots), space, harder="up")
    shortfall = []
    for _ in range(num_trials):
        trial = suggest(model, space, rule)
        model = model.condition_on_observations(trial, run_test(trial, **robots))
        found = climbable_height(recommend(model, space).unsqueeze(-2), **robots)
        shortfall.append((robots["peak"] - found).squeeze(-1))
    return torch.stack(shortfall, dim=-1)  # robots x trials


figure, ax = plt.subplots(figsize=(7.5, 4.4), layout="constrained")
for rule in ("ei-ald", "ucb-ald", "random"):
    shortfall = run_experiments(rule)
    plot_best_so_far(shortfall, label=rule, ax=ax)
    last = shortfall[:, -1]
    error = last.std() / num_robots**0.5
    print(f"{rule:8} {last.mean():.2f} ± {error:.2f} cm below the best at the end")
ax.set(ylabel="cm below the robot's best", title="mean over robots ± standard error")
_ = ax.set_ylim(bottom=0)

# %% [markdown]
# **What to see.** `ucb-ald` finds a good setting for every robot. The new rule ends
# between it and random trials: for some robots it stays with a mediocre setting, hence
# the large standard error (printed). Sixteen robots are few, and other problems may
# favor other rules. But an idea for a rule costs five lines, and a race like this one
# shows where it stands.

# %% [markdown]
# ## Where to go next
#
# - `05_knowledge_gradient.py`: acquisition functions that look a trial ahead, which
#   `optimize_acqf` takes as well.
# - `06_sampling.py`: functions drawn from the posterior, for rules that need those.
# - `08_real_experiment.py`: run your rule with a person in the chair. `Settings` takes
#   its name; a program that opens the journal has to add the row to the table first.
