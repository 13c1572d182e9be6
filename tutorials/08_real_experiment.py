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
# # A real experiment: ask, tell, and never lose an answer
#
# A person tries a hearing aid. Digits are spoken in noise, and the person says which
# one it was: right or wrong, one bit. The audiologist chooses how loud the noise is.
# With a person in the chair a loop in a notebook is not enough: answers must survive a
# crash, a trial may be interrupted, and nobody wants to think in unit cubes.
#
# In this tutorial you will
#
# 1. describe an experiment by named variables in their own units;
# 2. run it with `ask` and `tell`, with trials that are pending or given up;
# 3. crash, and continue where it stopped;
# 4. read the recommendation, with its uncertainty, and draw it;
# 5. look into the file with nothing but the standard library, and run the experiment
#    from a shell.

# %%
import json
import math
import os
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import NormalDist

import matplotlib.pyplot as plt
import torch
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import (
    Categorical,
    Context,
    Experiment,
    Integer,
    NamedSpace,
    PassFail,
    Real,
    Settings,
)
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.plotting import (
    View,
    plot_contexts,
    plot_psychometric_curves,
    plot_success_probability,
)

SMOKE_TEST = os.environ.get("SMOKE_TEST")
folder = Path(tempfile.mkdtemp())  # deleted at the end

# %% [markdown]
# ## What the experiment is
#
# Three parameters of the hearing aid are to be tuned:
#
# - the *release time*, after which it turns the volume up again: from 10 to 1000 ms,
#   where factors count rather than differences, so `scale="log"`;
# - the number of frequency *bands*, an integer;
# - the *microphone*, one of three kinds: a category.
#
# The context is the signal-to-noise ratio (`snr`). The equipment plays it at nine
# levels. Tests get harder as it goes down, and the aid should be good at the reference,
# −6 dB. Someone who hears nothing still guesses one digit in ten: `guess_rate=0.1`.

# %%
release = Real("release", 10, 1000, scale="log")
bands = Integer("bands", 2, 16)
microphone = Categorical("microphone", ["omni", "cardioid", "adaptive"])
snr = Context("snr", reference=-6, levels=list(range(-12, 13, 3)), harder="down")
settings = Settings(
    NamedSpace([release, bands, microphone], [snr]), PassFail(guess_rate=0.1), seed=7
)
print(f"rule {settings.rule}, {settings.initial_trials} quasi-random trials at first")


# %% [markdown]
# ## A simulated person
#
# This function stands for the person. A setting has a threshold, the `snr` at which
# digits are understood half of the time (guesses aside): −10 dB for the best setting
# (100 ms, 10 bands, the adaptive microphone), and more for others. What follows does
# not look into it, except to keep the score.


# %%
def threshold(aid):
    """The signal-to-noise ratio, in dB, at which digits are just understood."""
    microphones = {"omni": 8.0, "cardioid": 4.0, "adaptive": 0.0}
    loss = 7 * math.log10(aid["release"] / 100) ** 2
    loss += 0.12 * (aid["bands"] - 10) ** 2
    return -10 + loss + microphones[aid["microphone"]]


def chance(aid, ratio):
    """The probability that a digit is named right."""
    return 0.1 + 0.9 * NormalDist().cdf((ratio - threshold(aid)) / 2)


def listen(trial):
    """What the person answers; the same trial always gets the same answer."""
    p = chance(trial.parameters, trial.context["snr"])
    return random.Random(trial.id).random() < p


# %% [markdown]
# ## Ask and tell
#
# `Experiment.create` makes the *journal*, a file that must not exist yet. `ask` gives a
# trial: its number, and what to set and to play, in the units above. `tell` takes the
# answer, and when it returns, the answer is on the disk.

# %%
journal = folder / "listener-7.journal"
experiment = Experiment.create(journal, settings)
for _ in range(10):
    trial = experiment.ask()
    correct = listen(trial)
    experiment.tell(trial.id, "pass" if correct else "fail")
    shown = ", ".join(f"{name} {value}" for name, value in trial.values.items())
    print(f"{trial.id:2} {trial.chosen_by:12} {shown}: {'right' if correct else '-'}")

# %% [markdown]
# **What to see.** Eight trials spread over the space, then the rule takes over. All of
# them can be set on the device: whole numbers of bands, and the levels of `snr` that
# the equipment has.
#
# ## Pending trials
#
# `ask` may be called again before the answer is there, for example to prepare the next
# trial while this one runs. Pending trials are taken into account: none is asked for
# again while it is pending. A trial that could not be run, because the person had to
# cough, is withdrawn. Answers may come in any order, but each only once.

# %%
first, second = experiment.ask(), experiment.ask()
print(f"pending: {first.values}\n         {second.values}")
experiment.tell(second.id, listen(second))
experiment.withdraw(first.id)
try:
    experiment.tell(first.id, "pass")
except InputDataError as error:
    print(f"{type(error).__name__}: {error}")
print([f"{trial.id} {trial.status}" for trial in experiment.trials[-3:]])

# %% [markdown]
# ## The laptop crashes
#
# We ask for a trial, and before the answer comes the power fails. What a crash leaves
# is what is on the disk at that moment: the journal, one file that holds everything. To
# be able to compare, we copy it to "the other laptop" while the experiment is open, and
# go on with both.

# %%
interrupted = experiment.ask()
saved = folder / "other-laptop"
saved.mkdir()
shutil.copy(journal, saved)
print(f"on the disk: {[file.name for file in folder.glob('listener-7.journal*')]}")

resumed = Experiment.open(saved / "listener-7.journal")
print(f"still pending: {[t.id for t in resumed.trials if t.status == 'pending']}")
questions = []
for running in (experiment, resumed):
    running.tell(interrupted.id, listen(interrupted))
    questions.append(running.ask().values)
print(f"without a crash: {questions[0]}")
print(f"after the crash: {questions[1]}")
print(f"the same question: {questions[0] == questions[1]}")
experiment.close()

# %% [markdown]
# **What to see.** The interrupted trial is still there and waits for its answer. No
# answer was lost, and the next question is the same as it would have been: random
# numbers depend on the seed and the number of the trial alone, and what was learned is
# in the journal, too. We go on with the file that survived.

# %%
experiment = resumed
for trial in experiment.trials:
    if trial.status == "pending":
        experiment.tell(trial.id, listen(trial))
for _ in range(3 if SMOKE_TEST else 62):
    trial = experiment.ask()
    experiment.tell(trial.id, listen(trial))

# %% [markdown]
# ## The recommendation
#
# `recommend` gives the setting that is inferred to be best at the reference. It also
# says where else the best may be: for numbers an interval that holds nine tenths of the
# possible optima, for categories the share of each. `success_probability` predicts how
# this setting does, at the reference or at any other `snr`, with a credible interval.
# `threshold` says, the other way round, down to which `snr` the answers are right with
# this setting: by default with a probability halfway between guessing and certainty.
# The threshold, or an end of its interval, is infinite if it may lie beyond everything
# that can be tested.

# %%
best = experiment.recommend()
print(f"after {best.num_answers} answers")
for name, value in best.parameters.items():
    print(f"  {name} = {value}, maybe {best.uncertainty[name]}")
for ratio in (-12, -6, 0):
    mean, low, high = best.success_probability({"snr": ratio})
    true = chance(best.parameters, ratio)
    print(
        f"right at {ratio:3} dB: {mean:.2f} ({low:.2f} to {high:.2f}), truth {true:.2f}"
    )
median, low, high = best.threshold("snr")
true = threshold(best.parameters)
print(f"threshold: {median:.1f} dB ({low:.1f} to {high:.1f}), truth {true:.1f}")
print("the threshold with the best setting: -10 dB")

# %% [markdown]
# ## Pictures
#
# `experiment.model()` is a model like any other of this package and
# `experiment.encoder` knows its box: `encoder.context_space` is what the functions of
# `botorch_binary_context.plotting` need. The axes are those of the box; each variable
# encodes values in its own units, which is how the ticks are placed below.

# %%
model, encoder = experiment.model(), experiment.encoder
space, names = encoder.context_space, encoder.column_names
print(f"columns of the box: {names}")
kinds = [trial.parameters["microphone"] for trial in experiment.trials]
print({kind: kinds.count(kind) for kind in microphone.values})


def label_axis(axis, variable, values, *centered):
    """Put ticks at values in the variable's own units."""
    places = [variable.encode(value, *centered).item() for value in values]
    axis.set_ticks(places, [f"{value:g}" for value in values])


figure, axes = plt.subplots(1, 3, figsize=(16.5, 4.8), layout="constrained")
plot_success_probability(model, space, View(dims=[0, 1], names=names), ax=axes[0])
axes[0].set(xlabel="release (ms)", ylabel="bands")
axes[0].title.set_text(f"at -6 dB, microphone {best.parameters['microphone']}")
label_axis(axes[0].xaxis, release, [10, 30, 100, 300, 1000])
label_axis(axes[0].yaxis, bands, [2, 4, 6, 8, 10, 12, 14, 16])

rivals = [best.parameters | {"microphone": kind} for kind in ("omni", "adaptive")]
encoded = torch.stack([encoder.encode_parameters(rival) for rival in rivals])
view = View(names=names)
labels = ["omni", "adaptive"]
plot_psychometric_curves(model, space, encoded, view, labels=labels, ax=axes[1])
ratios = [-12 + i / 4 for i in range(97)]
places = [snr.encode(ratio, encoder.centered).item() for ratio in ratios]
for rival, line in zip(rivals, ("--", "-."), strict=True):
    truth = [chance(rival, ratio) for ratio in ratios]
    label = f"{rival['microphone']}, truth"
    axes[1].plot(places, truth, line, color="black", lw=1.2, label=label)
axes[1].legend(loc="lower right", fontsize="small")
axes[1].set(xlabel="snr (dB)", title="the recommended setting, and with another mic")
label_axis(axes[1].xaxis, snr, [-12, -6, 0, 6, 12], encoder.centered)

contexts = space.contexts(model.original_datapoints)
plot_contexts(contexts, model.train_targets, space, ax=axes[2])
axes[2].set(ylabel="snr (dB)", title="the difficulty of each trial")
label_axis(axes[2].yaxis, snr, [-12, -6, 0, 6, 12], encoder.centered)

# %% [markdown]
# **What to see.** *Left:* the probability of a right answer at the reference. Most
# trials are on or near the hill, and the star is not far from the true optimum (100 ms
# and 10 bands). *Middle:* below −9 dB, where nothing was tested, the model is too
# optimistic about the adaptive microphone; the intervals printed above, which also
# allow for unknown hyperparameters, include the truth. It is less sure of the
# omnidirectional one, which was tried less often (see the counts). *Right:* the `snr`
# of each trial. It begins with quasi-random ones. Then, as the settings become better,
# tests become harder: easy ones would tell nothing.

# %% [markdown]
# ## Looking into the journal
#
# The journal is an SQLite file with tables of the settings, the trials, the
# hyperparameters that were learned and everything that ever happened. Python's standard
# library reads it, and so will any SQLite tool in ten years, with or without this
# package. Every row has a checksum, so that a damaged file is noticed: mistakes are
# corrected with `experiment.correct(trial_id, outcome)`, not in the file.

# %%
all_trials = experiment.trials
experiment.close()
journal = saved / "listener-7.journal"
database = sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)
query = "SELECT chosen_by, status, count(*), avg(outcome) FROM trials GROUP BY 1, 2"
for rule, status, count, passed in database.execute(query):
    share = "" if passed is None else f", {passed:.0%} passed"
    print(f"{rule:12} {status:9}: {count:2} trials{share}")
row = database.execute("SELECT * FROM trials ORDER BY id DESC LIMIT 1").fetchone()
print(f"the last trial: {row}")
(fits,) = database.execute("SELECT count(*) FROM fits").fetchone()
print(f"hyperparameters were learned {fits} times")
(content,) = database.execute("SELECT content FROM settings").fetchone()
print(f"the context: {json.loads(content)['contexts'][0]}")
database.close()

# %% [markdown]
# ## The same from a shell
#
# An experiment needs no Python code. The variables are then in a TOML file, and
# `binary-context` asks and tells. Every command is a separate process; all it needs to
# know is in the journal. So a script in another language, or a person at a keyboard,
# can run an experiment. `--json` prints what a program can read.
#
# Here commands run by `python -m botorch_binary_context.experiment`, which is the same
# program. Every process first imports PyTorch. To save this time, `status` and
# `export` call the program as a function.

# %%
(folder / "aid.toml").write_text("""\
seed = 7

[feedback]
kind = "pass/fail"
guess_rate = 0.1

[[parameters]]
name = "release"
low = 10
high = 1000
scale = "log"

[[parameters]]
name = "bands"
type = "integer"
low = 2
high = 16

[[parameters]]
name = "microphone"
type = "categorical"
values = ["omni", "cardioid", "adaptive"]

[[contexts]]
name = "snr"
reference = -6
levels = [-12, -9, -6, -3, 0, 3, 6, 9, 12]
harder = "down"
""")


def shell(command, process=True):
    """Run a line of the shell, in a process of its own or as a function."""
    print(f"$ {command}")
    program, *arguments = shlex.split(command)
    if not process:
        main([str(folder / a) if a.endswith(".journal") else a for a in arguments])
        return None
    run = [sys.executable, "-m", "botorch_binary_context.experiment", *arguments]
    done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
    print(done.stdout)
    return done.stdout


shell("binary-context new aid.toml listener-8.journal")
asked = json.loads(shell("binary-context ask listener-8.journal --json"))
same = asked["values"] == all_trials[0].values
print(f"the first question is that of listener 7: {same}")

# %%
shell(f"binary-context tell listener-8.journal {asked['id']} pass", not SMOKE_TEST)
shell("binary-context status listener-8.journal", process=False)
shell("binary-context export listener-8.journal", process=False)

# %% [markdown]
# The other listener has more to tell. `--context` says where to predict the success.

# %%
advice = shell(
    "binary-context recommend other-laptop/listener-7.journal --context snr=-9",
    not SMOKE_TEST,
)

# %% [markdown]
# **What to see.** The TOML file describes the same experiment: with the same seed, the
# first question is that of the first listener. `status` counts, and lists what is
# pending; `export` writes all trials as a table for other programs; `recommend` prints
# what `recommend()` said above, with the success at another `snr`. There are also
# `withdraw`, `plot`, which saves a picture like the one above, and `demo`.

# %%
shutil.rmtree(folder)

# %% [markdown]
# ## Where to go next
#
# - For comparisons of two settings, take `Settings(space, Duels())`: a trial then has
#   the sides `first` and `second`, and the answers are "first" and "second".
# - `Settings(..., rule="cbkg")` chooses trials by another rule; `01_quickstart.py` and
#   `05_knowledge_gradient.py` show what rules do.
# - Several processes and threads may use one journal at once. None has to wait while
#   another computes a question.
# - A slip of the finger: `experiment.undo()` takes the last answer back, `correct`
#   changes any, `exclude` keeps one from the model. `experiment.history` has it all.
