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
# # Sampling: functions drawn from the posterior
#
# Thompson sampling and kernel self-sparring need *whole functions* drawn from the
# posterior, which can be evaluated and maximized anywhere. Values at a fixed grid are
# not enough, and a joint draw at every point that a search visits becomes slow. So
# functions are made of finitely many features, and the way in which data enter them
# matters more than one might think.
#
# In this tutorial you will see
#
# 1. what a prior made of features looks like: Hilbert-space and random Fourier
#    features;
# 2. how samples in *weight space* lose their variance away from the data as trials
#    accumulate ("variance starvation"), and how *decoupled* paths do not;
# 3. samples for duels that are antisymmetric by construction;
# 4. Thompson sampling from paths, and paths through stock BoTorch functions.

# %%
import os

import matplotlib.pyplot as plt
import torch
from botorch.sampling.pathwise import draw_matheron_paths
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_binary_context import (
    BinaryLaplaceGP,
    ContextSpace,
    MultiplicativeContextKernel,
    PreferenceLaplaceGP,
    draw_sample_paths,
    draw_weight_space_paths,
)
from botorch_binary_context.sampling import FeatureOptions, kernel_features

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"

# %% [markdown]
# ## A system with a context
#
# A trial is `z = (s, x)`: a parameter `x` between 0 and 1, tested in a context `s`
# between 0 and 1, and passed with probability `Φ(s g(x))`. The matching kernel is
# `s s' k(x,x')`. Everything below is drawn in the reference context `s₀ = 1`.

# %%
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
space = ContextSpace(bounds, context_dims=[0], reference_context=[1.0])
x = torch.linspace(0, 1, 201)
grid = space.at_reference(x.unsqueeze(-1))  # 201 x 2


def performance(x):
    """The hidden performance g(x)."""
    return torch.sin(6 * x) + 3 * torch.exp(-(((x - 0.5) / 0.1) ** 2))


def make_kernel():
    """The kernel s s' k(x,x') with a squared exponential k."""
    base = ScaleKernel(RBFKernel())
    base.outputscale, base.base_kernel.lengthscale = 4.0, 0.08
    return MultiplicativeContextKernel(base, context_dims=[0])


def run_tests(num_trials):
    """Random trials on both sides of a gap in the middle, and their outcomes."""
    generator = torch.Generator().manual_seed(0)
    s, x = torch.rand(2, num_trials, 1, generator=generator)
    s, x = 0.5 + 0.5 * s, torch.where(x < 0.5, 0.6 * x, 0.4 + 0.6 * x)
    chances = torch.special.ndtr(s * performance(x))
    outcomes = torch.bernoulli(chances, generator=generator)
    return torch.cat([s, x], dim=-1), outcomes


def show_gap(ax):
    """Mark where there are trials: below 0.3 and above 0.7."""
    for low, high in ((0, 0.3), (0.7, 1)):
        label = "where the trials are" if low == 0 else None
        ax.axvspan(low, high, ymax=0.03, color=GREEN, label=label)


# %% [markdown]
# ## A prior made of features
#
# A function drawn from the prior is `f(z) = φ(z)ᵀω` with standard normal weights `ω`;
# it has the covariance `φ(z)ᵀφ(z')`, which should be close to `k(z,z')`. Two kinds of
# features are built in.
#
# - **Hilbert-space features** are sine waves on a box, weighted by the spectral density
#   of the kernel. They are deterministic, and their number follows from the accuracy.
#   They are used if the `bounds` of the box are given.
# - **Random Fourier features** are waves of random frequencies. They need no box and
#   work in many dimensions, but their error shrinks only slowly with their number.
#
# The context comes for free: the features of `s s' k(x,x')` are `s φ(x)`.

# %%
kernel = make_kernel()
center = space.at_reference(torch.tensor([[0.3]]))
with torch.no_grad():
    exact = kernel(center, grid).to_dense().squeeze()
kinds = {
    "Hilbert-space": FeatureOptions(bounds, dim=2),
    "8 random Fourier": FeatureOptions(None, dim=2, max_features=8),
    "500 random Fourier": FeatureOptions(None, dim=2, max_features=500),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4), layout="constrained")
left.plot(x, exact, color="black", lw=4, alpha=0.3, label="exact kernel")
styles = zip(kinds.items(), (BLUE, ORANGE, GREEN), ("-", "--", ":"), strict=True)
for (label, options), color, line in styles:
    features = kernel_features(kernel, options)
    approximate = (features(center) * features(grid)).sum(dim=-1)
    error = (approximate - exact).abs()
    left.plot(x, approximate, color=color, ls=line, label=label)
    right.semilogy(x, error, color=color, ls=line, label=label)
    print(
        f"{label:<19}: {features(grid).shape[-1]:4} features, error {error.max():.4f}"
    )
left.set(xlabel="x", ylabel="k((1, 0.3), (1, x))", title="the kernel and its features")
left.legend()
right.set(xlabel="x", ylabel="absolute error", title="what the features miss")
right.set_ylim(1e-4, 100)
_ = right.legend(loc="upper center", ncols=3, fontsize="small")

# %% [markdown]
# **What to see.** The Hilbert-space features cannot be told from the kernel with the
# naked eye. Eight random features are right close to 0.3 but invent
# correlations far away from it; 500 do the same on a smaller scale. Their number is
# printed above: on an interval, fewer than twenty sine waves do better than 500 random
# ones.

# %% [markdown]
# ## Two ways to condition on data
#
# **Weight space** treats the features as the model: a Bayesian linear regression on
# `φ(z)`, in two steps because outcomes are binary (latent values at the trials from
# their Laplace posterior, then weights given these values). That is
# `draw_weight_space_paths`.
#
# **Decoupled** paths use the features for the prior only, and the kernel for the data:
# a function from the prior, plus an update `k(·,X) v` that moves it to where the data
# want it (Matheron's rule). That is `draw_sample_paths`.
#
# To make the difference plain we give both just 8 random Fourier features, and more and
# more trials. None of them is in the middle of the box, where the optimum lies.

# %%
NUM_FEATURES = 8
counts = (10, 50, 200) if SMOKE_TEST else (10, 100, 1000)
models = {n: BinaryLaplaceGP(*run_tests(n), covar_module=make_kernel()) for n in counts}
methods = {"weight space": draw_weight_space_paths, "decoupled": draw_sample_paths}
colors = {"weight space": ORANGE, "decoupled": BLUE}
figure, axes = plt.subplots(
    2, 3, figsize=(15, 7), sharex=True, sharey=True, layout="constrained"
)
for row, (label, draw) in zip(axes, methods.items(), strict=True):
    for ax, (n, model) in zip(row, models.items(), strict=True):
        with torch.no_grad():
            posterior = model.posterior(grid)
            paths = draw(model, 15, max_features=NUM_FEATURES, seed=5)(grid)
        mean = posterior.mean.detach().squeeze(-1)
        width = 2 * posterior.variance.detach().sqrt().squeeze(-1)
        band = {"color": "0.8", "label": "exact posterior, ± 2 sd"}
        ax.fill_between(x, mean - width, mean + width, **band)
        ax.plot(x, paths.T, color=colors[label], lw=0.9, alpha=0.8)
        ax.plot(x, performance(x), color="black", ls="--", label="truth")
        show_gap(ax)
        ax.set(title=f"{label}, {n} trials", ylim=(-7, 7), xlim=(0, 1))
    row[0].set_ylabel("f(s₀, x)")
for ax in axes[1]:
    ax.set_xlabel("x")
_ = axes[0, 2].legend(loc="upper right", fontsize="small")

# %% [markdown]
# **What to see.** The gray band is the posterior that samples should spread over. Where
# trials are, it shrinks as they accumulate. In the gap nothing was tested and it stays
# wide: the optimum may well be there. Decoupled paths (blue) keep spreading in the gap,
# however many trials there are; how far depends on the eight features that happened to
# be drawn, and the next figure looks at many draws. Samples in weight space (orange) do
# much the same with ten trials. With more, the trials on the two sides pin down all the
# weights there are, and nothing is left to vary in the gap: the samples *agree with
# each other and are wrong*.
#
# How bad is it? Below is the variance of samples in the middle of the gap, relative to
# the exact posterior variance there: the median over draws of the features, and a band
# between the quartiles. One is right.


# %%
def relative_variance(model, draw, num_features, repeats):
    """The variance of samples in the gap, in units of the posterior's."""
    gap = grid[(x > 0.4) & (x < 0.6)]
    exact = model.posterior(gap.unsqueeze(-2)).variance.squeeze()
    ratios = []
    for seed in range(repeats):
        paths = draw(model, 100, max_features=num_features, seed=seed)
        ratios.append((paths(gap).var(dim=0) / exact).mean())
    return torch.stack(ratios)


repeats = 4 if SMOKE_TEST else 12
sizes = (10, 30, 100) if SMOKE_TEST else (10, 30, 100, 300, 1000)
curves = {("weight space", 8): [], ("weight space", 16): [], ("decoupled", 8): []}
with torch.no_grad():
    for n in sizes:
        model = BinaryLaplaceGP(*run_tests(n), covar_module=make_kernel())
        for (label, m), ratios in curves.items():
            ratios.append(relative_variance(model, methods[label], m, repeats))

# %%
figure, ax = plt.subplots(figsize=(8, 4.4), layout="constrained")
quartiles = torch.tensor([0.25, 0.5, 0.75])
styles = zip(curves.items(), (ORANGE, PINK, BLUE), "osD", strict=True)
for ((label, m), ratios), color, marker in styles:
    low, middle, high = torch.stack(ratios).quantile(quartiles, dim=-1)
    look = {"color": color, "marker": marker, "label": f"{label}, {m} features"}
    ax.loglog(sizes, middle, **look)
    ax.fill_between(sizes, low, high, color=color, alpha=0.2, lw=0)
    print(f"{label}, {m} features, {sizes[-1]} trials: {middle[-1]:.2f}")
ax.axhline(1, color="0.5", lw=1)
ax.set(xlabel="number of trials, none in the gap")
ax.set_ylabel("variance in the gap, relative to exact")
_ = ax.legend()

# %% [markdown]
# **What to see.** With 8 features in weight space the variance in the gap *starves* as
# trials accumulate, though none of them was anywhere near. Twice the features put that
# off, at the price of another error: to follow the data on both sides they swing
# between them, and the variance is too large. Decoupled paths stay close to one, even
# with 8 features. For Thompson sampling this is the difference between an experiment
# that goes on exploring and one that has talked itself into certainty.

# %% [markdown]
# ## Duels: samples that are antisymmetric
#
# A duel compares `f(z)` with `f(z')`. One may be tempted to model the preference
# `h(x, x')` directly, with a stationary kernel on pairs. But a preference is
# *antisymmetric*, `h(x, x') = −h(x', x)`: who wins does not depend on who is named
# first. A sample of a stationary process does not know that. `PreferenceLaplaceGP` has
# a prior on the value function, so that the features of a duel are `φ(z) − φ(z')` and
# every sample is antisymmetric by construction.

# %%
duels = torch.rand(25, 2, 1)
chances = torch.special.ndtr(performance(duels[:, 0]) - performance(duels[:, 1]))
wins = torch.bernoulli(chances)
pair_kernel = ScaleKernel(RBFKernel())
pair_kernel.outputscale, pair_kernel.base_kernel.lengthscale = 8.0, 0.15
value_kernel = ScaleKernel(RBFKernel())
value_kernel.outputscale, value_kernel.base_kernel.lengthscale = 4.0, 0.15
naive = BinaryLaplaceGP(duels.flatten(1), wins, covar_module=pair_kernel)
values = PreferenceLaplaceGP(duels, wins, covar_module=value_kernel)

side = torch.linspace(0, 1, 61)
pairs = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1)  # 61 x 61 x 2
unit = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
with torch.no_grad():
    path = draw_sample_paths(naive, bounds=unit, seed=0)
    naive_sample = path(pairs.flatten(0, 1)).reshape(61, 61)
    path = draw_sample_paths(values, bounds=unit[:, :1], seed=0)
    sample = path.contrast(pairs.reshape(-1, 1)).reshape(61, 61)

# %%
figure, axes = plt.subplots(1, 3, figsize=(15, 4.4), layout="constrained")
shown = {"a stationary kernel on pairs": naive_sample, "a value function": sample}
levels = torch.linspace(-6, 6, 25)
for ax, (label, h) in zip(axes, shown.items(), strict=False):
    filled = ax.contourf(side, side, h, levels=levels, cmap="RdBu", extend="both")
    ax.plot(side, side, color="black", lw=1, ls="--")
    ax.set(xlabel="x", ylabel="x'", title=f"one sample: {label}", aspect="equal")
figure.colorbar(filled, ax=axes[1], label="h(x, x'): positive where x is preferred")
for (label, h), color in zip(shown.items(), (ORANGE, BLUE), strict=True):
    axes[2].plot(side, h.diagonal(), color=color, label=label)
    print(f"{label:<29}: largest |h(x,x') + h(x',x)| = {(h + h.T).abs().max():.1e}")
axes[2].set(xlabel="x", ylabel="h(x, x)", title="x against itself")
axes[2].set_ylim(-6, 6)
_ = axes[2].legend(loc="upper center")

# %% [markdown]
# **What to see.** In the middle sample a reflection at the dashed diagonal swaps the
# colors, up to rounding errors; the left one, drawn after the same duels, is
# contradictory: there are pairs in which either side beats the other, depending on the
# order they are named in. It even prefers some settings to themselves (right panel).

# %% [markdown]
# ## Thompson sampling from paths
#
# Thompson sampling tests a setting with the probability that it is the best. Draw a
# function, maximize it at `s₀`: the maximizer is a draw from `p(x*|D)`. On a grid,
# exact joint samples give that distribution, too, for comparison.

# %%
model = models[counts[-1]]
num_draws = 10 if SMOKE_TEST else 100  # for each of ten draws of the features
coarse = grid[::8]  # on a finer grid, exact samples become singular
exact = model.posterior(coarse).rsample(torch.Size([10 * num_draws])).squeeze(-1)
draws = {"exact, on the grid": exact.detach()}
with torch.no_grad():
    for label, draw in list(methods.items())[::-1]:
        options = {"max_features": NUM_FEATURES}
        paths = [draw(model, num_draws, seed=i, **options)(coarse) for i in range(10)]
        draws[f"{label}, {NUM_FEATURES} features"] = torch.cat(paths)

# %%
figure, axes = plt.subplots(1, 3, figsize=(15, 3.8), sharey=True, layout="constrained")
bins = (torch.arange(27) - 0.5) / 25
for ax, (label, f), color in zip(
    axes, draws.items(), ("0.5", BLUE, ORANGE), strict=True
):
    best = x[::8][f.argmax(dim=-1)]
    weights = torch.full_like(best, 1 / len(best))
    ax.hist(best, bins=bins, weights=weights, color=color, edgecolor="white", lw=0.5)
    show_gap(ax)
    ax.set(xlabel="x*, the maximizer of a sample", title=label, xlim=(-0.02, 1.02))
    inside = ((best > 0.3) & (best < 0.7)).double().mean()
    print(f"{label:<24}: {inside:.0%} of the maximizers in the gap")
_ = axes[0].set_ylabel("fraction of the samples")

# %% [markdown]
# **What to see.** After all the trials on both sides (green), the optimum is either on
# the left, where the system was found to be fairly good, or somewhere in the gap, where
# it might be better. Decoupled paths agree with the exact samples on that, with only 8
# features. Samples in weight space mostly vote for the left: Thompson sampling with
# them would rarely test the gap, where the true optimum is.
#
# The rules `ts-ald` and `kss-ald` work in this way, with a gradient search instead of a
# grid: paths are differentiable functions.

# %%
start = torch.tensor([[1.0, 0.52]], requires_grad=True)
paths = draw_sample_paths(model, 3, bounds, seed=0)
(gradient,) = torch.autograd.grad(paths(start)[0].sum(), start)
step = torch.tensor([[0.0, 1e-5]])
difference = paths(start + step)[0] - paths(start - step)[0]
print(f"df/dx of the first path, by autograd:     {gradient[0, 1]:.6f}")
print(f"df/dx of the first path, by differences:  {difference.item() / 2e-5:.6f}")

# %% [markdown]
# ## Stock BoTorch functions
#
# Our models are registered with BoTorch's pathwise sampling, so that code which calls
# `draw_matheron_paths` gets decoupled paths, too. (It passes no bounds: these paths
# have random Fourier features.)

# %%
num_draws = 256 if SMOKE_TEST else 4096
model = models[counts[1]]
with torch.no_grad():
    posterior = model.posterior(grid)
    stock = draw_matheron_paths(model, sample_shape=torch.Size([num_draws]))(grid)
    ours = draw_sample_paths(model, num_draws, bounds, seed=1)(grid)
figure, (left, right) = plt.subplots(1, 2, figsize=(13, 3.8), layout="constrained")
exact = {"color": "black", "lw": 4, "alpha": 0.3, "label": "exact posterior"}
left.plot(x, posterior.mean.squeeze(-1), **exact)
right.plot(x, posterior.variance.sqrt().squeeze(-1), **exact)
drawn = {
    "draw_sample_paths": (ours, BLUE, "-"),
    "draw_matheron_paths": (stock, GREEN, "--"),
}
for label, (paths, color, line) in drawn.items():
    left.plot(x, paths.mean(dim=0), color=color, ls=line, label=label)
    right.plot(x, paths.std(dim=0), color=color, ls=line, label=label)
left.set(xlabel="x", ylabel="mean of f(s₀, x)")
right.set(xlabel="x", ylabel="standard deviation of f(s₀, x)", ylim=(0, None))
_ = left.legend()

# %% [markdown]
# **What to see.** The mean and the standard deviation of both kinds of samples follow
# the exact posterior, up to the noise of finitely many draws.

# %% [markdown]
# ## Where to go next
#
# - `suggest(model, space, rule="ts-ald")` for pass/fail outcomes and `rule="kss-ald"`
#   for duels choose trials by such samples; see `01_quickstart.py` and `02_duels.py`.
# - `ContextualJointEntropySearch` uses the maxima of paths to ask which trial tells
#   most about the optimum.
# - `05_knowledge_gradient.py`: a rule that needs no samples, since a trial has only two
#   outcomes.
