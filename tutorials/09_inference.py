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
# # Inference: posteriors and intervals that can be trusted
#
# An outcome of one bit says little, and many of them give a *skewed* posterior: a test
# that was passed says that the performance is not low, but not how high it is. To stay
# fast, a model approximates that posterior by a Gaussian.
#
# This tutorial shows
#
# 1. two approximations, Laplace's method and expectation propagation, and the true
#    posterior, which is sampled without any approximation;
# 2. how to check in one line how far an approximation is off;
# 3. why intervals must allow for hyperparameters that are not known, and how they do;
# 4. pass/fail outcomes and duels about one latent function, in one posterior.

# %%
import os

import matplotlib.pyplot as plt
import torch
from botorch.fit import fit_gpytorch_mll

from botorch_binary_context import (
    ApproximateMarginalLogLikelihood,
    AveragedGP,
    ContextSpace,
    MixedGP,
    Observations,
    PreferenceLikelihood,
    ProbitLikelihood,
    check_approximation,
    draw_optima,
    psychometric_gp,
    recommend,
)
from botorch_binary_context.inference import ExpectationPropagation, Laplace

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"

# %% [markdown]
# ## Two alternatives
#
# In the most common task of psychophysics a person chooses one of two answers, and half
# of the guesses are right. The hidden truth here: a test of the setting `x` in the
# context `s` (the size of a letter, say) is passed with probability
# `1/2 + 1/2 Φ(5 s + 2 - 12 (x - 0.6)²)`.

# %%
bounds = torch.tensor([[-1.0, 0.0], [1.0, 1.0]])
space = ContextSpace(bounds, context_dims=[0], reference_context=[0.0])


def latent(trials):
    """The hidden truth."""
    s, x = trials[..., 0], trials[..., 1]
    return 5 * s + 2 - 12 * (x - 0.6) ** 2


def run_tests(trials):
    """One bit for each trial."""
    p = 0.5 + 0.5 * torch.special.ndtr(latent(trials))
    return torch.bernoulli(p).unsqueeze(-1)


num_trials = 15 if SMOKE_TEST else 40
trials = bounds[0] + (bounds[1] - bounds[0]) * torch.rand(num_trials, 2)
outcomes = run_tests(trials)
model = psychometric_gp(trials, outcomes, space, guess_rate=0.5)
fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))

# %% [markdown]
# `model` approximates by expectation propagation, the default. `with_inference` gives
# the same model with another approximation; `exact_posterior` draws from the true
# posterior, and says how large its own Monte Carlo error is.

# %%
num_samples = 512 if SMOKE_TEST else 4096
s = torch.linspace(-1, 1, 101)
line = torch.stack([s, torch.full_like(s, 0.6)], dim=-1)  # the best setting

fig, axis = plt.subplots(figsize=(7, 4))
for inference, color in ((Laplace(), ORANGE), (ExpectationPropagation(), BLUE)):
    with torch.no_grad():
        posterior = model.with_inference(inference).posterior(line.unsqueeze(-2))
    mean = posterior.mean.flatten()
    spread = 1.645 * posterior.variance.flatten().sqrt()
    axis.plot(s, mean, color=color, label=type(inference).__name__)
    axis.fill_between(s, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)
with torch.no_grad():
    exact = model.exact_posterior(line.unsqueeze(-2), num_samples)
    low, high = exact.quantile(torch.tensor([0.05, 0.95]))[..., 0, 0]
axis.plot(s, exact.mean.flatten(), color=GREEN, ls="--", label="true posterior")
axis.plot(s, low, color=GREEN, ls=":", lw=1)
axis.plot(s, high, color=GREEN, ls=":", lw=1)
axis.plot(s, latent(line), color="black", lw=1, label="truth")
axis.set(xlabel="context s", ylabel="latent performance f(s, 0.6)")
axis.legend(frameon=False)
fig.tight_layout()
plt.show()

# %% [markdown]
# Laplace's method sits at the mode of the posterior, whose mean lies elsewhere, and its
# intervals are too narrow. Expectation propagation matches the mean and the variance.
#
# ## One line that says how far off
#
# `check_approximation` compares a model with its true posterior at the trials, or
# anywhere else.

# %%
for inference in (Laplace(), ExpectationPropagation()):
    print(check_approximation(model.with_inference(inference), num_samples=num_samples))

# %% [markdown]
# ## Hyperparameters that are not known
#
# So far the slope of the psychometric function and the lengthscale were taken as known,
# as if the most probable values were the true ones. After forty bits they are not.
# `AveragedGP` draws sets of them from their own posterior, the prior times the
# evidence, and averages over these.

# %%
averaged = AveragedGP(model, num_draws=8 if SMOKE_TEST else 32)
slopes = averaged.draws.mean_module.slope.detach().flatten()
print(f"learned slope: {model.mean_module.slope.item():.1f}")
print(f"slopes that may be: {slopes.min():.1f} to {slopes.max():.1f}")

best = recommend(model, space)
row = space.at_reference(best).unsqueeze(0)
tails = torch.tensor([0.05, 0.95])
with torch.no_grad():
    for name, some in (("learned", model), ("averaged", averaged)):
        posterior = some.exact_posterior(row, num_samples)
        low, high = posterior.probability_quantile(tails).flatten()
        mean = posterior.probability.item()
        print(f"success of the best, {name}: {mean:.3f} ({low:.3f} to {high:.3f})")

# %% [markdown]
# In the study `coverage`, 90 % intervals of such a success probability held the truth
# in 76 to 83 % of simulated experiments with learned hyperparameters, and in 86 to 91 %
# with averaged ones.
#
# ## How much may be lost
#
# The best setting is not known either. `draw_optima` draws whole functions from the
# true posterior, hyperparameters included, and looks at their optima: where they are,
# and how much better they are than the recommended setting.

# %%
draws = draw_optima(averaged, space, best, num_draws=16 if SMOKE_TEST else 64)
low, high = draws.near.quantile(tails, dim=0).flatten()
print(f"recommended: {best.item():.2f}; the peak is between {low:.2f} and {high:.2f}")
print(
    f"expected loss: {draws.losses.mean():.2f} of f, "
    f"with 90 % below {draws.losses.quantile(0.9):.2f}"
)

# %% [markdown]
# An `Experiment` says the same in your own units: `recommend()` gives the
# threshold with its interval, `expected_loss()`, the `region` of settings that are good
# enough, and `should_stop(tolerance)`.
#
# ## Outcomes and duels in one posterior
#
# A test observes one value of a function, a duel the difference of two values of the
# same function. `MixedGP` takes both. Duels say nothing about how high `f` is, which
# only tests can tell, but much about where its peak is.

# %%
pairs = torch.zeros(10, 2, 2)
pairs[..., 1] = torch.rand(10, 2)
gain = latent(pairs[:, 0]) - latent(pairs[:, 1])
winners = torch.bernoulli(torch.special.ndtr(gain)).unsqueeze(-1)
mixed = MixedGP(
    [
        Observations(trials, outcomes, ProbitLikelihood(guess_rate=0.5)),
        Observations(pairs, winners, PreferenceLikelihood()),
    ],
    covar_module=model.covar_module,
    mean_module=model.mean_module,
    input_transform=model.input_transform,
)
print(f"best by tests alone: {best.item():.2f}")
print(f"best by tests and ten duels: {recommend(mixed, space).item():.2f}")
