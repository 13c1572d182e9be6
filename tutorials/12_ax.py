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
# # In Ax: pass or fail, preferences, and feasibility
#
# [Ax](https://ax.dev) runs experiments: it keeps the trials, their data and the
# storage. This package says which trial to ask next where an outcome is one bit, and at
# which difficulty. It takes one call.
#
# In this tutorial you will
#
# 1. find the best setting from passes and fails, with trials in parallel;
# 2. store the experiment, load it, and continue;
# 3. find the favorite of somebody who only compares;
# 4. minimize a measured objective where trials pass.

# %%
import logging
import os
import tempfile
import warnings
from pathlib import Path

logging.disable(logging.WARNING)  # before Ax is imported, which says what it has loaded

import matplotlib.pyplot as plt
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig

from botorch_binary_context.ax import (
    complete_duel,
    feasibility_strategy,
    generation_strategy,
    get_next_duels,
    recommend,
)

torch.manual_seed(0)
# After few answers everything may seem infeasible, and BoTorch warns about that.
warnings.filterwarnings("ignore", message="When all training points are infeasible")
warnings.filterwarnings("ignore", message="A not p.d., added jitter")
SMOKE_TEST = bool(os.environ.get("SMOKE_TEST"))


# %% [markdown]
# ## Passes and fails
#
# Letters are read or not. We look for the setting `x` with which the smallest letters
# are read; the size of the letters is the context, which we choose.


# %%
def is_read(size: float, x: float) -> bool:
    """A reader whose best setting is 0.7."""
    f = torch.tensor(12 * (size - 0.3) - 30 * (x - 0.7) ** 2)
    return bool(torch.rand(()) < torch.special.ndtr(f))


def number(name: str) -> RangeParameterConfig:
    """A parameter between 0 and 1."""
    return RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))


client = Client(random_seed=0)
client.configure_experiment([number("size"), number("x")], name="letters")
client.configure_optimization("is_read")
client.set_generation_strategy(
    generation_strategy(rule="ucb-ald", contexts={"size": 0.3}, initial_trials=5)
)

# %% [markdown]
# What counts in the end are letters of size 0.3: that is what `contexts` says. The
# first five trials are quasi-random, then the rule chooses: the setting by an upper
# confidence bound, the size where the outcome tells most. Three readers work at once;
# trials that they have not answered yet are taken into account.

# %%
asked = []
for _ in range(3 if SMOKE_TEST else 10):
    for index, trial in client.get_next_trials(max_trials=3).items():
        outcome = is_read(trial["size"], trial["x"])
        client.complete_trial(index, {"is_read": float(outcome)})
        asked.append((trial["x"], trial["size"], outcome))
best, prediction = recommend(client)
print(f"best setting {best['x']:.2f}, where 0.70 is right")
print("read with probability {:.2f} ± {:.2f}".format(*prediction["is_read"]))

# %% [markdown]
# `client.predict` gives the probability of a pass at any other trial.

# %%
side = torch.linspace(0, 1, 21)
grid = [{"size": float(size), "x": float(x)} for size in side for x in side]
chance = [prediction["is_read"][0] for prediction in client.predict(grid)]
figure, ax = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
filled = ax.contourf(side, side, torch.tensor(chance).reshape(21, 21), levels=10)
figure.colorbar(filled, label="predicted probability of reading")
ax.plot(side, 0.3 + 2.5 * (side - 0.7) ** 2, "r--", label="truth: read half the time")
for wanted, marker, label in ((True, "o", "read"), (False, "X", "not read")):
    points = [(x, size) for x, size, outcome in asked if outcome is wanted]
    style = {"marker": marker, "color": "white", "edgecolors": "black"}
    ax.scatter(*zip(*points, strict=True), label=label, **style)
ax.set(xlabel="setting x", ylabel="letter size", ylim=(0, 1))
_ = ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)

# %% [markdown]
# **What to see.** Most letters are near the limit of the reader (dashed), where the
# answer is open, and most settings are near the best one.
#
# `fixed_parameters` asks for a trial in a given context.

# %%
((index, trial),) = client.get_next_trials(1, fixed_parameters={"size": 0.4}).items()
print(f"at size 0.4, ask x = {trial['x']:.2f}")

# %% [markdown]
# ## Store, load, continue
#
# The trial above still waits for its answer. If the program crashed now, the loaded
# experiment would ask the same next trial.

# %%
with tempfile.TemporaryDirectory() as folder:
    path = str(Path(folder) / "letters.json")
    client.save_to_json_file(path)
    loaded = Client.load_from_json_file(path)
here, there = client.get_next_trials(1), loaded.get_next_trials(1)
print("the same next trial:", here == there)

# %% [markdown]
# ## Preferences
#
# Ax represents a preference as a trial of two arms. Here somebody compares two
# settings of a hearing aid in noise, which is equally loud for both.

# %%
duels = Client(random_seed=0)
duels.configure_experiment([number("noise"), number("gain")], name="hearing aid")
duels.configure_optimization("pairwise_pref_query")
duels.set_generation_strategy(
    generation_strategy(rule="eubo-ald", contexts={"noise": 0.5}, initial_trials=4)
)
for _ in range(5 if SMOKE_TEST else 20):
    for index, (first, second) in get_next_duels(duels).items():
        errors = [abs(side["gain"] - 0.35) for side in (first, second)]
        complete_duel(duels, index, preferred=errors.index(min(errors)))
favorite, _ = recommend(duels)
print(f"favorite gain {favorite['gain']:.2f}, where 0.35 is right")

# %% [markdown]
# ## Feasible or not
#
# Bread should be baked at the lowest cost, but it must be done. That is pass or fail,
# and the cost of a loaf that is not done cannot be measured. Ax minimizes the cost with
# its own model; the constraint is modeled by this package, as a probability.

# %%
oven = Client(random_seed=0)
oven.configure_experiment([number("heat"), number("steam")], name="oven")
oven.configure_optimization("-cost", outcome_constraints=["baked >= 0.5"])
oven.set_generation_strategy(feasibility_strategy(["baked"], initial_trials=8))
for _ in range(9 if SMOKE_TEST else 16):
    for index, trial in oven.get_next_trials(1).items():
        heat, steam = trial["heat"], trial["steam"]
        data = {"baked": float(heat > 0.4)}
        if heat > 0.4:
            data["cost"] = heat**2 + (steam - 0.5) ** 2
        oven.complete_trial(index, data)
costs = oven.summarize()["cost"]
print(f"lowest cost {costs.min():.2f}, where 0.16 is possible")
