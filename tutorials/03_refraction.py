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
# # Refraction: a prescription from letters read or not read
#
# A patient looks through a trial lens at a letter, and reads it or does not. Which
# sphere and cylinder let the patient see best? We cannot ask for the acuity itself. But
# we choose the size of every letter, and that decides what an answer is worth.
#
# In this tutorial you will
#
# 1. meet the simulated patient of the paper's section 5;
# 2. compare a surrogate that was tuned on another patient with two untuned ones, one of
#    which knows the optics of lenses;
# 3. follow one examination, from the first letter to the prescription;
# 4. compare letter sizes that are chosen with letter sizes at random.

# %%
import os
import warnings

import matplotlib.pyplot as plt
import torch
from botorch.exceptions.warnings import NumericsWarning
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_binary_context import (
    AdditiveContextKernel,
    ApproximateMarginalLogLikelihood,
    BinaryLaplaceGP,
    psychometric_gp,
    recommend,
    should_learn,
    suggest,
)
from botorch_binary_context.plotting import (
    View,
    plot_best_so_far,
    plot_contexts,
    plot_psychometric_curves,
    plot_success_probability,
)
from botorch_binary_context.problems import POWER_VECTOR, RefractionProblem

SMOKE_TEST = os.environ.get("SMOKE_TEST")
NUM_PATIENTS = 3 if SMOKE_TEST else 40
LETTERS = 8 if SMOKE_TEST else 75
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
NAMES = ["letter size (logMAR)", "sphere (D)", "cylinder (D)"]

# %% [markdown]
# ## The patient
#
# A lens whose sphere and cylinder differ from the prescription by `(S, C)` diopters
# leaves a blur `β² = (S² + (S + C)²)/2` and an acuity of `VA = log10(1 + β²)` logMAR: 0
# is 20/20, and larger is worse. A letter of size `s` is read with probability
# `γ + (1 − γ) Φ(a (s − VA))`, with the guess rate `γ = 1/26` and the slope `a = 5`. The
# axis of the cylinder is taken as known.

# %%
patient = RefractionProblem(slope=5.0, prescription=(-2.25, 1.5))
space = patient.space

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
sizes = torch.linspace(-1, 2, 200)
lenses = {"right lens": (-2.25, 1.5), "no lens": (0.0, 0.0), "wrong sign": (2.25, -1.5)}
for (label, lens), color in zip(lenses.items(), (BLUE, GREEN, ORANGE), strict=True):
    trials = torch.cat([sizes.unsqueeze(-1), torch.tensor([lens]).expand(200, 2)], -1)
    acuity = -patient.score(torch.tensor([lens])).item()
    name = f"{label}: VA {acuity:.2f}"
    left.plot(sizes, patient.success_probability(trials), color=color, label=name)
left.axhline(1 / 26, color="0.5", linestyle=":", label="guessing")
left.set(xlabel=NAMES[0], ylabel="probability of reading the letter")
left.legend(fontsize="small")
power = torch.linspace(-4, 4, 101)
grid = torch.stack(torch.meshgrid(power, power, indexing="xy"), dim=-1)
filled = right.contourf(power, power, -patient.score(grid), levels=16)
figure.colorbar(filled, ax=right, label="acuity with the lens (logMAR)")
right.scatter(*patient.prescription, marker="P", s=110, c="white", edgecolors="black")
right.set(xlabel=NAMES[1], ylabel=NAMES[2])
plt.show()

# %% [markdown]
# **What to see.** *Left:* a lens shifts the curve, and the shift is the acuity. A
# letter of 0.3 logMAR is nearly always read through the right lens and hardly ever
# without one; where a curve is flat, an answer says nothing. *Right:* the acuity of
# every lens. The optimum (white plus) lies in an oblique valley, along which sphere and
# cylinder partly make up for each other.
#
# ## Three surrogates
#
# The paper models `f(s, x)` with the kernel `θ s s' + k(x,x')`, whose hyperparameters
# maximize the likelihood of 1000 simulated answers of *the same patient, with the
# prescription (0, 0)*. For a slope of 5 that gives lengthscales of 2.8 and 3.6
# diopters. Our patient needs something else.
#
# `psychometric_gp` is an untuned model: a constant in its kernel allows for any overall
# performance, it knows that large letters are easy and that letters can be guessed, and
# it learns its slope, output scale and lengthscales during the examination.
# `should_learn` is a schedule for that.
#
# It has a lengthscale for the sphere and one for the cylinder, though the valley above
# is oblique. Optics offers better coordinates: the spherical equivalent `M = S + C/2`
# and the cross-cylinder `J = C/2`, the *power vector* of a lens. Blur is `√(M² + J²)`,
# the same in all directions. `POWER_VECTOR` has the two combinations as the rows of a
# matrix, and `psychometric_gp(..., combinations=POWER_VECTOR)` has its lengthscales
# along them. Any other linear combinations that suit your own system work, too.
#
# We examine many patients at once, with prescriptions anywhere within 3 diopters; the
# first is the one above.


# %%
def fitted_to_another(trials, answers):
    """The paper's surrogate, with hyperparameters for the prescription (0, 0)."""
    smooth = ScaleKernel(RBFKernel(ard_num_dims=2))
    smooth.outputscale = 3.24
    smooth.base_kernel.lengthscale = torch.tensor([[2.77, 3.57]])
    kernel = AdditiveContextKernel(smooth, context_dims=[0])
    kernel.context_variance = 5.08
    return BinaryLaplaceGP(trials, answers, covar_module=kernel)


def untuned(trials, answers, combinations=None):
    """The package's default for psychometric functions; it knows the guess rate."""
    return psychometric_gp(
        trials, answers, space, guess_rate=1 / 26, combinations=combinations
    )


def of_power_vectors(trials, answers):
    """The same, which knows how sphere and cylinder act together."""
    return untuned(trials, answers, combinations=POWER_VECTOR)


def learn(model):
    """Learn the hyperparameters from the answers so far, under their priors."""
    fit_gpytorch_mll(ApproximateMarginalLogLikelihood(model.likelihood, model))


def examine(make_model, rule, learns=True):
    """Examine all patients; they are one batched model."""
    torch.manual_seed(0)
    low, high = space.bounds
    trials = low + (high - low) * torch.rand(NUM_PATIENTS, 5, 3)
    model = make_model(trials, patients.observe(trials))
    acuity = []
    for i in range(LETTERS):
        trial = suggest(model, space, rule, seed=i)
        model = model.condition_on_observations(trial, patients.observe(trial))
        if learns and should_learn(i + 6):
            learn(model)
        lens = recommend(model, space).unsqueeze(-2)  # one for each patient
        acuity.append(-patients.score(lens).squeeze(-1))
    return model, torch.stack(acuity, dim=-1)


prescriptions = 6 * torch.rand(NUM_PATIENTS, 2) - 3
prescriptions[0] = patient.prescription
patients = RefractionProblem(slope=5.0, prescription=prescriptions)
_, another = examine(fitted_to_another, "ts-ald", learns=False)
_, learning = examine(untuned, "ts-ald")
model, vectors = examine(of_power_vectors, "ts-ald")

figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
surrogates = {
    "fitted to another patient": another,
    "untuned, learning": learning,
    "the same, of power vectors": vectors,
}
for label, acuity in surrogates.items():
    plot_best_so_far(acuity, label=label, ax=ax)
    last = acuity[:, -1]
    print(f"{label:<26}: mean {last.mean():.3f}, worst {last.max():.3f} logMAR")
ax.set(ylabel="acuity with the recommended lens (logMAR)", xlabel="letters")
_ = ax.set(yscale="log")

# %% [markdown]
# **What to see.** The same rule with three surrogates, mean and standard error over the
# patients. Both untuned ones leave the one that was tuned on another patient far
# behind. With so few patients and letters, power vectors make no difference that could
# be told from chance. The study `refraction-steps` shows how much each change matters,
# with more letters and other rules: there, with this rule, power vectors nearly halve
# the mean acuity after 150 letters.
#
# ## One examination
#
# A look at the first patient: which letters were shown, and what the model believes
# at the end. For pictures we make a model of that patient alone.

# %%
trials, answers = model.original_datapoints[0], model.train_targets[0].unsqueeze(-1)
one = of_power_vectors(trials, answers)
learn(one)
figure, axes = plt.subplots(1, 3, figsize=(16, 4.6), layout="constrained")
view = View(names=NAMES)
plot_success_probability(one, space, view, ax=axes[0])
style = {"marker": "P", "s": 110, "c": "white", "edgecolors": "black", "zorder": 6}
axes[0].scatter(*patient.prescription, **style)
plot_contexts(trials[:, 0], answers, ax=axes[1])
axes[1].set(ylabel=NAMES[0], xlabel="letter")
lens = recommend(one, space)
compared = torch.stack([lens, torch.zeros(2)])
labels = ["recommended lens", "no lens"]
plot_psychometric_curves(one, space, compared, view, labels=labels, ax=axes[2])
plt.show()

# %% [markdown]
# **What to see.** *Left:* the probability of reading a letter of 0.5 logMAR through
# each lens, and the trials. The model has found the valley of the first figure and how
# it lies; the recommended lens (star) is close to the prescription (plus). *Middle:*
# the letters become smaller as the lens becomes better: the informative size follows
# the acuity. *Right:* the psychometric curves that the model has learned, with 90 %
# bands: what it knows of other lenses is vague.
#
# The prescription, in quarters of a diopter as an optometrist writes it:

# %%
sphere, cylinder = (round(4 * power) / 4 for power in lens.tolist())
acuity = -patient.score(torch.tensor([[sphere, cylinder]])).item()
print(f"prescribed: {sphere:+.2f} DS / {cylinder:+.2f} DC")
print(f"with it the patient sees 20/{20 * 10**acuity:.0f} ({acuity:.3f} logMAR)")

# %% [markdown]
# ## Does the letter size matter?
#
# The same model and the same way to choose the lens, with the size of every letter
# drawn at random. With such letters, the answers of some patients fit two very
# different lenses for a while. Expectation propagation then gives a cautious
# approximation and warns of it; here the warning is turned off.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore", NumericsWarning)
    _, at_random = examine(of_power_vectors, "ts-random")
figure, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
plot_best_so_far(vectors, label="letter size chosen", ax=ax)
plot_best_so_far(at_random, label="letter size at random", ax=ax)
ax.set(ylabel="acuity with the recommended lens (logMAR)", xlabel="letters")
for label, acuity in (("chosen", vectors), ("at random", at_random)):
    last = acuity[:, -1]
    print(f"size {label:<9}: mean {last.mean():.3f}, worst {last.max():.3f} logMAR")

# %% [markdown]
# **What to see.** Most random letters are far too large or far too small for the lens
# at hand, so the answer was certain in advance.
#
# ## Where to go next
#
# - `make demo` examines such a patient trial by trial.
# - The studies `refraction`, `refraction-anywhere` and `refraction-steps` compare rules
#   and surrogates for many slopes and patients; their reports are in
#   `benchmarks/results`.
# - `08_real_experiment.py`: the same with a real person, one question at a time.
