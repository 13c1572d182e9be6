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
# # Whole batches of experiments at once: CPU, GPU, cluster
#
# A study repeats an experiment many times, because one run is an anecdote. The
# repetitions do not know of each other, but they do the same operations on matrices of
# the same size. So they are *one* batched model, and each operation is paid for once.
#
# In this tutorial you will
#
# 1. run many experiments as one model, and see that they do not influence each other;
# 2. measure what that saves;
# 3. move the same code to a GPU, if there is one;
# 4. send batches to the workers of a Dask cluster.

# %%
import os
import time

import matplotlib.pyplot as plt
import torch
from distributed import Client, LocalCluster
from gpytorch.kernels import ConstantKernel, RBFKernel, ScaleKernel

from botorch_binary_context import (
    AdditiveContextKernel,
    BinaryLaplaceGP,
    recommend,
    suggest,
)
from botorch_binary_context.plotting import plot_best_so_far
from botorch_binary_context.problems import ThresholdContextProblem, make_objective

SMOKE_TEST = os.environ.get("SMOKE_TEST")
REPETITIONS = 4 if SMOKE_TEST else 20
TRIALS = 5 if SMOKE_TEST else 30
BATCH_SIZES = (1, 2, 4) if SMOKE_TEST else (1, 5, 10, 20, 40)
torch.set_default_dtype(torch.double)

# %% [markdown]
# ## One model, many experiments
#
# The system is a test function of two variables, seen through tests of a difficulty
# `t`: `p(c=1|t,x) = Φ(3 (g(x) − t))`. Everything that a model holds may have leading
# batch dimensions. Here the trials are `repetitions x n x 3`, and one kernel serves
# all.


# %%
def make_kernel():
    """θ t t' + k(x,x') + constant, with hyperparameters set by hand."""
    smooth = ScaleKernel(RBFKernel(ard_num_dims=2))
    smooth.outputscale = 9.0
    smooth.base_kernel.lengthscale = 0.15
    offset = ConstantKernel()
    offset.constant = torch.full((1,), 9.0)
    kernel = AdditiveContextKernel(smooth + offset, context_dims=[0])
    kernel.context_variance = 9.0
    return kernel


def begin(repetitions, device="cpu", seed=0):
    """A problem, and the model of five random trials of each repetition."""
    problem = ThresholdContextProblem(make_objective("Goldstein-Price")).to(device)
    torch.manual_seed(seed)
    low, high = problem.space.bounds
    trials = low + (high - low) * torch.rand(repetitions, 5, 3).to(device)
    outcomes = problem.observe(trials)
    kernel = make_kernel().to(device)
    return problem, BinaryLaplaceGP(trials, outcomes, covar_module=kernel)


problem, model = begin(REPETITIONS)
trial = suggest(model, problem.space, "ts-ald", seed=0)
print(f"batch shape of the model: {tuple(model.batch_shape)}")
print(f"the next trial of each repetition: {tuple(trial.shape)}")

# %% [markdown]
# `suggest`, `condition_on_observations` and `recommend` work on all repetitions, so the
# loop of an experiment does not change.


# %%
def run(rule, repetitions, trials, device="cpu", seed=0):
    """The score of the recommendation after each trial, `repetitions x trials`."""
    problem, model = begin(repetitions, device, seed)
    scores = []
    for i in range(trials):
        trial = suggest(model, problem.space, rule, seed=i)
        model = model.condition_on_observations(trial, problem.observe(trial))
        scores.append(problem.score(recommend(model, problem.space)))
    return torch.stack(scores, dim=-1).cpu()


curves = {rule: run(rule, REPETITIONS, TRIALS) for rule in ("ts-ald", "ts-random")}
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for rule, scores in curves.items():
    plot_best_so_far(scores, label=f"{rule}, {REPETITIONS} repetitions", ax=ax)
ax.set(ylabel="score of the recommendation")
plt.show()

# %% [markdown]
# **What to see.** Each curve is the mean of all repetitions with its standard error,
# from one call of `run`. With a chosen context Thompson sampling ends higher than with
# a random one.
#
# The elements of a batch do not influence each other. The posterior mean of the
# first repetition, in the batch and in a model of its own, is the same up to rounding:

# %%
problem, model = begin(REPETITIONS)
alone = BinaryLaplaceGP(
    model.train_inputs[0][0],
    model.train_targets[0].unsqueeze(-1),
    covar_module=make_kernel(),
)
points = torch.rand(50, 3)
with torch.no_grad():
    together = model.posterior(points).mean[0]
    apart = alone.posterior(points).mean
print(f"largest difference: {(together - apart).abs().max():.1e}")

# %% [markdown]
# ## What a batch saves
#
# A small experiment spends most of its time not on arithmetic but on the overhead of
# many small operations. The figure shows the time of one suggestion per experiment,
# against the number of experiments in the batch.

# %%
torch.set_num_threads(1)
times = []
for size in BATCH_SIZES:
    problem, model = begin(size)
    suggest(model, problem.space, "ucb-ald", seed=0)  # prepares what is shared
    start = time.perf_counter()
    for seed in range(3):
        suggest(model, problem.space, "ucb-ald", seed=seed)
    times.append((time.perf_counter() - start) / 3 / size)

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.plot(BATCH_SIZES, [1e3 * t for t in times], "o-", color="#0072B2")
ax.set(xlabel="experiments in the batch", ylabel="ms per suggestion", ylim=(0, None))
print(
    f"{times[0] / times[-1]:.1f} times less for each of {BATCH_SIZES[-1]} experiments"
)

# %% [markdown]
# ## On a GPU
#
# No tensor of the package is made on a device of its own choice: each takes device and
# dtype from its inputs. So an experiment runs where its data are. On a machine without
# a GPU the next cell says so and uses the CPU.

# %%
device = "cuda" if torch.cuda.is_available() else "cpu"
problem, model = begin(REPETITIONS, device)
trial = suggest(model, problem.space, "cjes", seed=0)
print(f"running on {device}; the trial is on {trial.device}")

# %% [markdown]
# ## On a cluster
#
# Batches fill one processor. To fill many machines, send batches to the workers of a
# Dask cluster, one for each rule, problem or block of seeds. Here the cluster is this
# process; with the address of a scheduler, `Client("tcp://...")`, nothing else changes.
# (Workers must be able to import the function that they run: put it in a module.)

# %%
rules = ("ucb-ald", "ucb-random", "random")
with (
    LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster,
    Client(cluster) as client,
):
    futures = {rule: client.submit(run, rule, REPETITIONS, TRIALS) for rule in rules}
    results = {rule: future.result() for rule, future in futures.items()}

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for rule, scores in results.items():
    plot_best_so_far(scores, label=rule, ax=ax)
    print(f"{rule:<11} {scores[:, -1].mean():.2f} at the end")
ax.set(ylabel="score of the recommendation")
plt.show()

# %% [markdown]
# **What to see.** The three curves were computed by the worker and sent back; they end
# in the order of how much is chosen: parameters and context, parameters alone, nothing
# (the first two within their standard errors).
#
# The studies of the project work in this way: `python -m benchmarks run binary` uses
# the processors of one machine, and `--scheduler ADDRESS` a cluster. A task is one rule
# on one function with all seeds as a batch; a worker that dies costs one task, which
# another worker computes again.
#
# ## Where to go next
#
# - `01_quickstart.py` for what the rules do; `06_sampling.py` for Thompson sampling.
# - `python -m benchmarks speed` for batches and single models against BoTorch and
#   scikit-learn.
