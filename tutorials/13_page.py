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
# # The page: an experiment in the browser
#
# A participant sits at a screen, or holds a phone, and presses a key. Nobody should
# have to write a program for that. `binary-context serve` shows an experiment in any
# browser: one address for the participant, one for the experimenter. The same server
# speaks JSON, so equipment of your own can ask and answer as well.
#
# In this tutorial you will
#
# 1. make an eye examination and serve it from a notebook;
# 2. answer as a program would, with nothing but the standard library;
# 3. kill the server in the middle, and see that no answer is lost;
# 4. read the result where the experimenter reads it.
#
# It needs the extra `web`: `pip install "botorch-binary-context[web]"`.

# %%
import json
import os
import random
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from statistics import NormalDist

import matplotlib.pyplot as plt

from botorch_binary_context.experiment import (
    Context,
    Experiment,
    NamedSpace,
    PassFail,
    Real,
    Settings,
    Stop,
)

SMOKE_TEST = os.environ.get("SMOKE_TEST")
NUM_ANSWERS = 6 if SMOKE_TEST else 30
JOURNAL = Path("patient-7.journal")

# %% [markdown]
# ## An examination to serve
#
# One lens to find, `sphere` in diopters, and one context, the size of the letters in
# logMAR: 0 is the size that a normal eye can just read, and each 0.1 is a line on the
# chart. The page `eye` shows one of ten letters, so a guess is right one time in ten.
# The settings also say when it is over.

# %%
space = NamedSpace(
    [Real("sphere", -4.0, 4.0, step=0.25)],
    [Context("size", reference=0.0, low=-0.3, high=1.0, step=0.1, harder="down")],
)
settings = Settings(
    space, PassFail(guess_rate=0.1), stop=Stop(answers=NUM_ANSWERS), seed=3
)
Experiment.create(JOURNAL, settings).close()

# %% [markdown]
# ## Serve it
#
# In a shell this is one line, `binary-context serve patient-7.journal --page eye`, and
# `--open` opens the browser. Here the notebook starts the same command as a process of
# its own. `--json` prints the addresses for programs to read, `--port 0` takes any port
# that is free, and `--tokens` keeps the addresses for the next start.


# %%
def start_server() -> tuple[subprocess.Popen, dict[str, str]]:
    """The server, once it listens, and its two addresses."""
    command = [sys.executable, "-m", "botorch_binary_context.experiment", "serve"]
    options = ["--page", "eye", "--port", "0", "--tokens", "tokens.json", "--json"]
    server = subprocess.Popen(
        [*command, str(JOURNAL), *options], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    return server, json.loads(server.stdout.readline())


server, addresses = start_server()
for role, address in addresses.items():
    print(f"{role}: {address[:25]}…")

# %% [markdown]
# Open the first address and you see the examination; the part that is cut off here is a
# secret, without which the server refuses to answer. The second address shows the
# experimenter the answers, the curve and the recommendation as they develop.
#
# ## Answer as a program
#
# Everything that the page does goes through a small JSON interface. A client names
# itself, asks for a trial, and sends the outcome.


# %%
def call(method: str, path: str, role: str = "participant", **body: object) -> dict:
    """What the server answers to one request."""
    request = urllib.request.Request(
        f"{addresses[role]}api/experiments/patient-7{path}",
        data=json.dumps(body).encode() if method == "POST" else None,
        headers={"Content-Type": "application/json"} if method == "POST" else {},
        method=method,
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)


first = call("POST", "/ask", client="notebook")["trial"]
print(first["id"], first["values"], first["status"])

# %% [markdown]
# A client has one trial at a time: one that asks again, after a reload for example,
# gets the same trial.

# %%
assert call("POST", "/ask", client="notebook")["trial"]["id"] == first["id"]

# %% [markdown]
# The patient of this tutorial needs −1.75 diopters, and reads worse the farther the
# lens is from that.

# %%
rng = random.Random(5)


def reads(values: dict[str, float]) -> bool:
    """Whether the patient names the letter, by sight or by a lucky guess."""
    smallest = -0.1 + 0.35 * abs(values["sphere"] + 1.75)
    seen = NormalDist().cdf((values["size"] - smallest) / 0.1)
    return rng.random() < 0.1 + 0.9 * seen


def answer_until(number: int) -> None:
    """Take trials until so many are answered, or the examination is over."""
    while call("GET", "/status")["answered"] < number:
        trial = call("POST", "/ask", client="notebook")["trial"]
        outcome = "pass" if reads(trial["values"]) else "fail"
        call("POST", "/tell", client="notebook", id=trial["id"], outcome=outcome)


answer_until(NUM_ANSWERS // 2)
print(call("GET", "/status"))

# %% [markdown]
# ## Kill it
#
# An answer is on the disk before the server confirms it. So the worst that can happen,
# a server that is killed without warning, costs nothing: start it again, and go on. The
# stored tokens keep the addresses secret and the same; only the port is new.

# %%
os.kill(server.pid, signal.SIGKILL)
server.wait()
server, addresses = start_server()
status = call("GET", "/status")
assert status["answered"] == NUM_ANSWERS // 2
print(f"{status['answered']} answers are still there")

# %% [markdown]
# An answer that is sent twice, because its confirmation was lost, counts once. The
# server refuses the second and says what is in the journal.

# %%
try:
    call("POST", "/tell", client="notebook", id=first["id"], outcome="pass")
except urllib.error.HTTPError as refusal:
    error = json.load(refusal)["error"]
    print(refusal.code, error["code"])

# %%
answer_until(NUM_ANSWERS)
print(call("POST", "/ask", client="notebook"))

# %% [markdown]
# There is no further trial: the examination has as many answers as the settings ask
# for, and the page thanks the participant.
#
# ## What the experimenter sees
#
# The experimenter's address has the recommendation, with 90 % intervals, and the table
# of all trials. With the participant's address both are refused.

# %%
found = call("GET", "/recommend", role="experimenter")
for name in ("parameters", "uncertainty", "success_probability"):
    print(f"{name}: {found[name]}")

# %% [markdown]
# The journal is an ordinary experiment. Stop the server with Ctrl-C, or as here, and
# open the file in Python: all that the other tutorials do with an experiment works.

# %%
server.send_signal(signal.SIGINT)
server.wait()
with Experiment.open(JOURNAL) as experiment:
    trials = experiment.trials
    print(trials[0])

# %%
figure, ax = plt.subplots(figsize=(7, 4))
for outcome, marker, label in ((1, "o", "read"), (0, "x", "not read")):
    shown = [trial for trial in trials if trial.outcome == outcome]
    ax.scatter(
        [trial.values["sphere"] for trial in shown],
        [trial.values["size"] for trial in shown],
        marker=marker,
        label=label,
    )
ax.axvline(-1.75, color="gray", linestyle=":", label="the lens that is needed")
ax.set(xlabel="sphere (diopters)", ylabel="size of the letter (logMAR)")
ax.legend()
figure.tight_layout()

# %% [markdown]
# The rule first tries lenses everywhere, then stays near the best ones and shows
# letters of about the size that can just be read there: only they can tell two good
# lenses apart.
#
# ## Where to go from here
#
# - The page "In the browser" of the documentation has all options, the pages for duels
#   and for any equipment, and the whole JSON interface.
# - `binary-context demo --page --open` shows the examination with a simulated patient
#   in your own browser.
# - PsychoPy, jsPsych and the clients of AEPsych have pages of their own there.
# - `08_real_experiment.py` runs an experiment in Python and from a shell.
