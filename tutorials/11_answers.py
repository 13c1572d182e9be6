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
# # Answers of several kinds: ratings, ties, the best of three
#
# People can say more than one bit. They rate, they see no difference, they say which of
# three they like best, and sometimes they say that a test could not be run at all. All
# of these are answers about *one* latent function, so they use the same models, rules
# and goals.
#
# This tutorial shows
#
# 1. what a rating tells that pass or fail does not;
# 2. duels with ties;
# 3. contests: which of several settings is the best;
# 4. several kinds of answers in one posterior;
# 5. an experiment that learns what is unpleasant, and avoids it.

# %%
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from botorch_binary_context import (
    BestOfGP,
    ContextSpace,
    MixedGP,
    Observations,
    PreferenceGP,
    ProbitLikelihood,
    RatingLikelihood,
    TiesLikelihood,
    psychometric_gp,
    recommend,
    suggest,
    suggest_contest,
)
from botorch_binary_context.models import contests, duel_covar_module
from botorch_binary_context.problems import (
    AnsweringProblem,
    RefractionProblem,
    name_winners,
)

SMOKE_TEST = os.environ.get("SMOKE_TEST")
torch.set_default_dtype(torch.double)
torch.manual_seed(0)
BLUE, ORANGE = "#0072B2", "#D55E00"

# %% [markdown]
# ## Ratings
#
# A simulated patient reads letters through lenses. The context `s` is the size of the
# letters, the parameters are sphere and cylinder. The same patient may say only whether
# a letter was read, or how well, from 1 to 5.

# %%
patient = RefractionProblem(slope=5.0)
space = patient.space
readers = {
    "pass/fail": AnsweringProblem(patient, ProbitLikelihood()),
    "ratings": AnsweringProblem(
        patient, RatingLikelihood(5, widths=[1.2] * 3, learn_widths=False)
    ),
}
# The models' likelihoods: they do not know how far apart two ratings are.
believed = {"pass/fail": ProbitLikelihood(), "ratings": RatingLikelihood(5)}


def examine(kind, trials):
    """The acuity that the recommended lens loses, letter by letter."""
    generator = torch.Generator().manual_seed(1)
    low, high = space.bounds
    X = low + (high - low) * torch.rand(5, space.dim, generator=generator)
    reader = readers[kind]
    Y = reader.observe(X, generator)
    model = psychometric_gp(X, Y, space, likelihood=believed[kind]).eval()
    lost = []
    for i in range(trials):
        trial = suggest(model, space, "ucb99-ald", seed=i)
        model = model.condition_on_observations(trial, reader.observe(trial, generator))
        best = recommend(model, space)
        lost.append(float(patient.optimal_score - patient.score(best)))
    return lost


number = 3 if SMOKE_TEST else 25
for kind, color in zip(readers, (BLUE, ORANGE), strict=True):
    plt.plot(range(6, 6 + number), examine(kind, number), color=color, label=kind)
plt.xlabel("letters")
plt.ylabel("lost acuity in logMAR")
plt.legend(frameon=False)
plt.show()

# %% [markdown]
# One patient proves nothing; the study `information` has forty of them, and shows that
# richer answers help most early in an experiment.
#
# The posterior of a rated trial knows the probability of every rating:

# %%
generator = torch.Generator().manual_seed(2)
low, high = space.bounds
X = low + (high - low) * torch.rand(30, space.dim, generator=generator)
rated = readers["ratings"].observe(X, generator)
model = psychometric_gp(X, rated, space, likelihood=RatingLikelihood(5)).eval()
probabilities = model.posterior(X[:1], observation_noise=True).probabilities
print(probabilities.detach().flatten().round(decimals=2))

# %% [markdown]
# ## Ties
#
# A person who compares two settings may see no difference. A tie is an answer between
# the other two: labels are 0 (second), 1 (tie) and 2 (first), and the size of
# differences that go unnoticed is learned with the other hyperparameters.

# %%
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
box = ContextSpace(bounds, [], [])  # two parameters, no context


def quality(x):
    return -12 * (x - torch.tensor([0.7, 0.4])).square().sum(dim=-1)


pairs = torch.rand(25, 2, 2)
difference = quality(pairs[:, 0]) - quality(pairs[:, 1]) + torch.randn(25)
answers = 1.0 + (difference > 0.7).double() - (difference < -0.7).double()
ties = PreferenceGP(pairs, answers.unsqueeze(-1), likelihood=TiesLikelihood()).eval()
print("best:", recommend(ties, box).detach())
print("the next duel:", suggest(ties, box, "mkg", seed=0).squeeze(0).detach())

# %% [markdown]
# ## The best of three
#
# A contest says which of several settings is the best. `suggest_contest` chooses its
# settings one after the other. `qeubo` picks the setting that raises the expected value
# of the best of them most; `mkg` picks the one with which knowing the winner is worth
# most.


# %%
def choose(options):
    """The choice of somebody who sees the settings with some noise."""
    noisy = quality(options) + 0.5**0.5 * torch.randn(options.shape[:-1])
    return noisy.argmax(dim=-1, keepdim=True).double()


first = torch.rand(3, 3, 2)
contest_model = BestOfGP(
    first, choose(first), covar_module=duel_covar_module(2, torch.Size())
).eval()
for i in range(2 if SMOKE_TEST else 12):
    options = suggest_contest(contest_model, box, 3, rule="mkg", seed=i)
    contest_model = contest_model.condition_on_contests(options, choose(options))
print("best:", recommend(contest_model, box).detach())
print("who wins:", contest_model.winner_probabilities(options[0]).detach())

# %% [markdown]
# Simulated people for studies are in `problems`: `AnsweringProblem` answers trials by
# any likelihood, `name_winners` names the best of several.

# %%
lenses = low + (high - low) * torch.rand(4, 3, space.dim)
lenses[..., 0] = 0.4  # letters of one size
print(name_winners(patient, lenses).flatten())

# %% [markdown]
# ## Several kinds in one posterior
#
# Duels from one session and contests from another are about the same function.

# %%
options = torch.rand(8, 3, 2)
mixed = MixedGP(
    [
        Observations(pairs, answers.unsqueeze(-1), TiesLikelihood()),
        contests(options, choose(options)),
    ]
).eval()
print("best:", recommend(mixed, box).detach())

# %% [markdown]
# ## What is unpleasant
#
# In an experiment each kind of feedback may have one more answer: the trial could not
# be run, or should not be repeated. A separate model learns from such answers where
# trials are feasible, and every rule and the recommendation stay within that region.

# %%
from botorch_binary_context.experiment import (  # noqa: E402
    BestOf,
    Experiment,
    NamedSpace,
    Real,
    Settings,
)

programs = NamedSpace([Real("gain", 0, 40), Real("compression", 1, 4)])
settings = Settings(programs, BestOf(3, infeasible="loud"), seed=1)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "listener-3.journal"
    with Experiment.create(path, settings) as experiment:
        for _ in range(6 if SMOKE_TEST else 15):
            trial = experiment.ask()
            gains = [float(side["gain"]) for side in trial.sides]
            loudest = gains.index(max(gains))
            words = ("first", "second", "third")
            if max(gains) > 30:
                experiment.tell(trial.id, f"loud-{words[loudest]}")
            else:  # more gain is better, as long as it is not too loud
                experiment.tell(trial.id, words[loudest])
        shown = [float(side["gain"]) for t in experiment.trials for side in t.sides]
        best = experiment.recommend()
print("too loud:", sum(gain > 30 for gain in shown), "of", len(shown))
print("recommended:", best.parameters)

# %% [markdown]
# The same on the command line: `binary-context new --example contest contest.toml`
# writes the settings of such an experiment, and `binary-context run` asks for `first`,
# `second`, `third`, or `unpleasant-first` and so on.
