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
# # The knowledge gradient: what would I do differently if I knew?
#
# Most acquisition functions score a trial by what it teaches, or by how good its
# setting may be. The knowledge gradient (KG) asks a more practical question: *by how
# much would the setting that I recommend be better, after I have seen the outcome?*
# With pass/fail outcomes no sampling is needed for that, because there are only two
# futures to look at.
#
# In this tutorial you will see
#
# 1. the two fantasy posteriors behind one value of KG, and the value computed by hand;
# 2. the surface of KG over context and parameter, next to those of BALD and UCB;
# 3. the *one-shot* form, which BoTorch's `optimize_acqf` maximizes without an inner
#    search, and how it agrees with the *nested* form;
# 4. the same knowledge gradient for duels.
#
# Notation: a trial is `z = (s, x)` with context `s` and parameter `x`, and is passed
# with probability `Φ(f(z))`. What we recommend after the data `D` is the maximizer of
# the posterior mean in the reference context `s₀`, and
#
# `KG(s,x) = Σ_c p(c|s,x) max_{x'} E[f(s₀,x')|D,(s,x,c)] − max_{x'} E[f(s₀,x')|D]`.

# %%
import os

import matplotlib.pyplot as plt
import torch
from botorch.optim import optimize_acqf
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_binary_context import (
    BernoulliMutualInformation,
    BinaryUpperConfidenceBound,
    ContextSpace,
    ContextualBinaryKnowledgeGradient,
    MultiplicativeContextKernel,
    OneShotContextualBinaryKnowledgeGradient,
    PreferenceLaplaceGP,
    gen_one_shot_knowledge_gradient_initial_conditions,
    psychometric_gp,
    recommend,
    suggest,
)
from botorch_binary_context.plotting import View, plot_acquisition, plot_posterior_mean

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
NAMES = ["step height s (cm)", "stiffness x"]

# %% [markdown]
# ## A robot that is half explored
#
# A robot climbs steps, with legs of stiffness `x`. We see whether it gets up a step of
# height `s`, which we choose. It climbs `g(x)` centimeters half of the time, so a
# trial is passed with probability `Φ(g(x) − s)`. There are 24 trials so far, and by bad
# luck all of them with soft legs.

# %%
bounds = torch.tensor([[0.0, 0.0], [20.0, 1.0]])
space = ContextSpace(bounds, context_dims=[0], reference_context=[10.0])
side = torch.linspace(0, 1, 201)
grid = space.at_reference(side.unsqueeze(-1))  # in the reference context, 201 x 2


def climbable_height(x):
    """The hidden performance g(x), with two peaks."""
    low, high = ((x - 0.25) / 0.15) ** 2, ((x - 0.75) / 0.12) ** 2
    return 2 + 8 * torch.exp(-low) + 12 * torch.exp(-high)


def run_test(trials):
    """Pass (1) or fail (0)."""
    heights = climbable_height(trials[..., 1:])
    return torch.bernoulli(torch.special.ndtr(heights - trials[..., :1]))


trials = torch.rand(24, 2) * torch.tensor([14.0, 0.55])
model = psychometric_gp(trials, run_test(trials), space, harder="up")
best = recommend(model, space)
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4), layout="constrained")
left.plot(side, climbable_height(side), color="black", label="g(x), hidden")
outcome = model.train_targets == 1
for passed, marker, color in ((True, "o", "#56B4E9"), (False, "X", ORANGE)):
    shown = trials[outcome == passed]
    style = {"marker": marker, "color": color, "edgecolors": "black", "zorder": 3}
    label = "passed" if passed else "failed"
    left.scatter(shown[:, 1], shown[:, 0], label=label, **style)
left.set(xlabel=NAMES[1], ylabel=NAMES[0], title="the trials so far", xlim=(0, 1))
left.set_ylim(0, 20)
left.legend(loc="upper right")
plot_posterior_mean(model, space, View(names=NAMES), show_data=False, ax=right)
right.set_ylabel("f(s₀, x): mean ± 2 sd")
print(f"recommended now: x = {best.item():.2f}")

# %% [markdown]
# **What to see.** *Left:* the better peak, at stiff legs, has not been tried. *Right:*
# the posterior in the reference context `s₀ = 10 cm`. The model recommends the peak it
# knows (star), and is unsure about stiff legs.

# %% [markdown]
# ## Two futures
#
# Take a candidate trial. It will be passed or failed; `condition_on_observations` shows
# what we would believe then. We look at two candidates: a step of 10 cm with stiff
# legs, and an easy step of 5 cm at the setting that is recommended anyway.

# %%
candidates = {
    "a high step, stiff legs": torch.tensor([[10.0, 0.80]]),
    "an easy step at the recommended setting": torch.tensor([[5.0, best.item()]]),
}
nested = ContextualBinaryKnowledgeGradient(model, space)
figure, axes = plt.subplots(1, 2, figsize=(14, 4.4), sharey=True, layout="constrained")
mean = model.posterior_mean(grid).detach()
for ax, (name, trial) in zip(axes, candidates.items(), strict=True):
    chance = model.probability_posterior(trial).mean.item()
    ax.plot(side, mean, color="black", label="now")
    ax.plot(side[mean.argmax()], mean.max(), "*", color="black", ms=13)
    value = -mean.max()
    for label, p, color, line in (
        ("pass", chance, BLUE, "--"),
        ("fail", 1 - chance, ORANGE, "-."),
    ):
        outcome = torch.tensor([[1.0 if label == "pass" else 0.0]])
        fantasy = model.condition_on_observations(trial, outcome)
        after = fantasy.posterior_mean(grid).detach()
        value = value + p * after.max()
        ax.plot(side, after, color=color, ls=line, label=f"after a {label} ({p:.0%})")
        ax.plot(side[after.argmax()], after.max(), "*", color=color, ms=13)
    ax.axvline(trial[0, 1].item(), color="0.6", lw=1, ls=":")
    ax.set(xlabel=NAMES[1], title=f"{name}\ns = {trial[0, 0]:.0f} cm")
    ax.legend()
    print(f"{name}: KG by hand {value:.4f}, by the class {nested(trial).item():.4f}")
_ = axes[0].set_ylabel("posterior mean of f(s₀, x)")

# %% [markdown]
# **What to see.** The dotted line is where the candidate is tested, stars are what
# would be recommended. *Left:* after a pass (unlikely, but possible) the recommendation
# would jump to stiff legs, and be much better; after a fail it would stay where it is.
# That hope, weighted by its probability, is the knowledge gradient. *Right:* the easy
# step is passed almost surely, a pass changes next to nothing, and KG is close to zero.
# The values computed by hand on a grid agree with the class, which also searches
# between the grid points.

# %% [markdown]
# ## What KG sees, next to BALD and UCB
#
# The same model, three acquisition functions, all over the context and the parameter:
# KG; BALD, the mutual information of the outcome and the latent function; and binary
# UCB, `E Φ(f) + β √V Φ(f)`.

# %%
bald, ucb = BernoulliMutualInformation(model), BinaryUpperConfidenceBound(model)
shown = {"knowledge gradient": nested, "BALD (nats)": bald, "binary UCB": ucb}
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
view = View(dims=[1, 0], names=NAMES, resolution=12 if SMOKE_TEST else 48)
for ax, (name, acqf) in zip(axes, shown.items(), strict=True):
    plot_acquisition(acqf, space, view, ax=ax)
    ax.plot(side, climbable_height(side), color="white", lw=1.5, ls="--")
    ax.set_title(name, pad=24)
lattice = space.join(side[::10, None], torch.linspace(0, 20, 21)[:, None, None])
with torch.no_grad():
    lowest = nested(lattice.flatten(0, 1).unsqueeze(-2)).min()
print(f"the lowest KG on a grid: {lowest:.3f}")

# %% [markdown]
# **What to see.** White dashes: the hidden `g(x)`.
#
# - **KG** is close to zero wherever the outcome would not change the recommendation,
#   which is everywhere on the explored half. It lights up at stiff legs, and at steps
#   that are about as high as the recommended setting can climb, or higher: only by
#   passing one of those would stiff legs prove to be better.
# - **BALD** likes any trial whose outcome is open. Its maximum is at stiff legs, too,
#   but at a much lower step, where pass and fail seem equally likely. Whether stiff
#   legs climb such a step is good to know but of no use: the recommended setting
#   already does.
# - **UCB** says where passes are likely or might be: below, at easy steps. As a
#   function of the context it is useless, and that is why the rules `ucb-…` evaluate it
#   at `s₀` only and choose the context by other means.
#
# The lowest value printed above is below zero. An exact posterior could not do that:
# knowing more cannot hurt. A Laplace approximation is not exactly a martingale (the
# mean of the two future means is not quite the present mean), so KG carries a small
# error.

# %% [markdown]
# ## The one-shot form
#
# To *maximize* KG one has to solve, for every candidate, two inner problems (the stars
# above). The one-shot form makes the two inner points variables of their own, so that a
# candidate has three rows: the trial, `x'` after a pass, and `x'` after a fail. For a
# given trial it looks like this.

# %%
one_shot = OneShotContextualBinaryKnowledgeGradient(model, space)
trial = candidates["a high step, stiff legs"]
inner = side[:: 10 if SMOKE_TEST else 2]
passed, failed = torch.meshgrid(inner, inner, indexing="xy")
rows = torch.stack([passed, failed], dim=-1).unsqueeze(-1)  # pairs x 2 x 1
rows = space.at_reference(rows)
candidate = torch.cat([trial.expand(*rows.shape[:2], 1, 2), rows], dim=-2)
with torch.no_grad():
    surface = one_shot(candidate.flatten(0, 1)).reshape(passed.shape)
    value = nested(trial).item()
figure, ax = plt.subplots(figsize=(6.6, 5), layout="constrained")
filled = ax.contourf(inner, inner, surface, levels=20)
figure.colorbar(filled, ax=ax, label="one-shot value")
row, column = divmod(surface.argmax().item(), len(inner))
star = {"marker": "*", "s": 220, "color": "#CC79A7", "edgecolors": "black"}
ax.scatter(inner[column], inner[row], **star)
ax.plot(inner, inner, color="white", lw=1, ls="--")
ax.set(xlabel="x' after a pass", ylabel="x' after a fail")
ax.set_title("one trial, all inner points")
print(f"one-shot variables of a trial: {list(candidate.shape[-2:])}")
print(f"largest one-shot value {surface.max():.4f}, nested value {value:.4f}")

# %% [markdown]
# **What to see.** The star is the pair of plans "after a pass take the stiff legs,
# after a fail stay with the soft ones". On the dashed diagonal the plan does not depend
# on the outcome. The largest one-shot value, over all plans, is the nested value: any
# other plan is worth less. So the one-shot form is a lower bound of the nested one,
# tight at the best plan. For many trials at once:

# %%
num_trials, num_plans = (10, 5) if SMOKE_TEST else (60, 20)
random_trials = bounds[0] + (bounds[1] - bounds[0]) * torch.rand(num_trials, 1, 2)
with torch.no_grad():
    nested_values = nested(random_trials)
    plans = space.at_reference(torch.rand(num_plans, num_trials, 2, 1))
    spread = random_trials.expand(num_plans, -1, -1, -1)
    bounded = one_shot(torch.cat([spread, plans], dim=-2).flatten(0, 1))
    best_plans = []
    for trial in random_trials:
        means = [
            model.condition_on_observations(trial, torch.full((1, 1), c))
            for c in (1.0, 0.0)
        ]
        best_plans.append([side[m.posterior_mean(grid).argmax()] for m in means])
    plans = space.at_reference(torch.tensor(best_plans).unsqueeze(-1))
    tight = one_shot(torch.cat([random_trials, plans], dim=-2))
figure, ax = plt.subplots(figsize=(6.6, 5), layout="constrained")
repeated = nested_values.expand(num_plans, -1).flatten()
ax.scatter(repeated, bounded, s=9, color="0.6", label="random plans")
ax.scatter(nested_values, tight, s=22, color=BLUE, label="best plan on a grid")
limits = torch.stack([nested_values.min(), nested_values.max()])
ax.plot(limits, limits, color="black", lw=1, label="equal")
ax.set(xlabel="nested KG", ylabel="one-shot KG", ylim=(-1, None))
ax.legend(loc="lower right")
print(f"largest difference at the best plans: {(nested_values - tight).max():.5f}")
print(f"largest excess of a random plan: {(bounded - repeated).max():.1e}")

# %% [markdown]
# **What to see.** Every trial has a column of gray dots, the values of random plans,
# and all of them are below the line. The best plans (blue) are on it.

# %% [markdown]
# ## Maximizing it with BoTorch
#
# `optimize_acqf` knows one-shot acquisition functions. The generator of initial
# conditions screens quasi-random trials by the nested form and gives each the best plan
# it has found, which is a much better start than a random plan. The nested form can be
# maximized, too, as any acquisition function: its gradient follows from the envelope
# theorem.

# %%
effort = {"q": 1, "num_restarts": 4, "raw_samples": 32 if SMOKE_TEST else 256}
candidate, value = optimize_acqf(
    one_shot,
    bounds,
    ic_generator=gen_one_shot_knowledge_gradient_initial_conditions,
    **effort,
)
same, nested_value = optimize_acqf(nested, bounds, **effort)
chosen = suggest(model, space, rule="cbkg", seed=0)
for name, z in (("one-shot", candidate), ("nested", same), ('rule "cbkg"', chosen)):
    s, x = z.squeeze(0).tolist()
    print(f"{name:<12} s = {s:6.3f}, x = {x:.4f}, KG = {nested(z).item():.5f}")

# %% [markdown]
# All three find the same trial (printed above). In practice
# `suggest(model, space, rule="cbkg")` is all that is needed. It also works for batches
# of models.

# %%
explorer = model
for _ in range(2 if SMOKE_TEST else 12):
    trial = suggest(explorer, space, rule="cbkg", seed=1)
    explorer = explorer.condition_on_observations(trial, run_test(trial))
found = recommend(explorer, space)
figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
ax.plot(side, climbable_height(side), color="black", label="g(x), hidden")
old, new = explorer.original_datapoints.split([24, len(explorer.train_targets) - 24])
ax.scatter(old[:, 1], old[:, 0], color="0.7", s=20, label="trials before")
answers = explorer.train_targets[24:] == 1
for passed, marker, color in ((True, "o", "#56B4E9"), (False, "X", ORANGE)):
    style = {"marker": marker, "color": color, "edgecolors": "black", "s": 60}
    label = "chosen by KG: " + ("passed" if passed else "failed")
    ax.scatter(*new[answers == passed].flip(-1).T, label=label, zorder=3, **style)
for i, (height, x) in enumerate(new.tolist(), start=1):
    if x < 0.98:  # those at the edge are on top of each other
        where = {"xytext": (6, 4), "textcoords": "offset points"}
        ax.annotate(str(i), (x, height), size=8, **where)
print(f"trials at the edge, x > 0.98: {(new[:, 1] > 0.98).sum()}")
ax.axvline(found.item(), color="0.5", lw=1, ls=":")
ax.set(xlabel=NAMES[1], ylabel=NAMES[0], xlim=(0, 1.02), ylim=(0, 20))
ax.legend(fontsize="small")
for when, x in (("before", best), ("now", found)):
    height = climbable_height(x).item()
    print(f"recommended {when}: x = {x.item():.2f}, climbs {height:.1f} cm")

# %% [markdown]
# **What to see.** KG goes to the unexplored half at once and tests it with high steps.
# It begins at the edge, where hope is greatest, and is stubborn there: one more fail at
# a high step changes little, and the next one seems as promising. Then it turns inwards
# (the numbers give the order), finds the peak, and the recommendation (dotted) moves to
# it.

# %% [markdown]
# ## Duels: the preferential knowledge gradient
#
# For duels a candidate is a pair, and the two futures are "the first is preferred" and
# "the second is". Nothing else changes: the same class takes a preference model. Here
# an onlooker says which of two settings walks better, watching from near (`s = 1`) or
# from afar (`s = 0`), with the kernel `s s' k(x,x')`.

# %%
duel_space = ContextSpace(
    torch.tensor([[0.0, 0.0], [1.0, 1.0]]), context_dims=[0], reference_context=[1.0]
)


def ask_onlooker(duels):
    """Which of two settings walks better: 1 for the first."""
    values = duels[..., 0] * climbable_height(duels[..., 1]) / 4
    return torch.bernoulli(torch.special.ndtr(values[..., :1] - values[..., 1:]))


base = ScaleKernel(RBFKernel())
base.outputscale, base.base_kernel.lengthscale = 3.0, 0.15
kernel = MultiplicativeContextKernel(base, context_dims=[0])
duels = torch.rand(15, 2, 2)
duels[:, 1, 0] = duels[:, 0, 0]  # one context for both sides
preferences = PreferenceLaplaceGP(duels, ask_onlooker(duels), covar_module=kernel)

axis = torch.linspace(0, 1, 11 if SMOKE_TEST else 41)
pairs = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
contests = duel_space.at_reference(pairs.unsqueeze(-1))  # 41 x 41 x 2 x 2
preferential = ContextualBinaryKnowledgeGradient(preferences, duel_space)
with torch.no_grad():
    gain = preferential(contests.flatten(0, 1)).reshape(pairs.shape[:-1])
    told = BernoulliMutualInformation(preferences)(contests.flatten(0, 1))
    told = told.reshape(pairs.shape[:-1])
duel = suggest(preferences, duel_space, rule="kg", seed=0)[0]  # 2 x 2

# %%
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
plot_posterior_mean(preferences, duel_space, View(names=["s", NAMES[1]]), ax=axes[0])
axes[0].set_ylabel("value f(s₀, x)")
panels = {"preferential knowledge gradient": gain, "BALD (nats)": told}
for ax, (name, values) in zip(axes[1:], panels.items(), strict=True):
    filled = ax.contourf(axis, axis, values, levels=20)
    figure.colorbar(filled, ax=ax)
    ax.set(xlabel="first setting x", ylabel="second setting x'", title=name)
    ax.set_aspect("equal")
axes[1].scatter(duel[0, 1], duel[1, 1], clip_on=False, zorder=4, **star)
first, second = duel[:, 1].tolist()
print(f"the rule kg proposes {first:.2f} against {second:.2f} at s = {duel[0, 0]:.2f}")
print(f"asymmetry: {(gain - gain.T).abs().max():.1e}")

# %% [markdown]
# **What to see.** *Left:* what the onlooker's answers say about the value of settings.
# *Middle:* the gain that is expected from each duel at `s = 1`; the rule `kg` picks the
# star, and a context close to it. Pairs on the diagonal are worth nothing, and the
# panel is symmetric: it does not matter who is named first. *Right:* BALD is spread
# over many pairs that would teach something; KG singles out those that may change the
# recommendation.

# %% [markdown]
# ## Where to go next
#
# - `01_quickstart.py` has whole experiments; try `rule="cbkg"` there.
# - `suggest` takes `options=SearchOptions(...)`, which says how hard to search.
# - The contextual joint entropy search (`ContextualJointEntropySearch`, the rule
#   `cjes`) also cares about the optimum only, by way of information instead of value.
# - `06_sampling.py`: functions drawn from the posterior, for rules that need those.
