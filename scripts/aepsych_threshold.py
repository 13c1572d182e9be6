r"""
Find a threshold with AEPsych: a job of :mod:`scripts.compare_packages`.

AEPsych needs other versions of packages, so this runs in its own environment:

    PATH/TO/AEPSYCH/python scripts/aepsych_threshold.py TRIALS SEED...

prints one line of JSON: the errors in dB, and the processor time in seconds.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import json
import logging
import sys
import time
import warnings

import torch
from aepsych.config import Config
from aepsych.strategy import SequentialStrategy
from simulated_people import AT_THRESHOLD, HIGH, LOW, passes, person

FIRST_TRIALS = 5
CONFIG = """
[common]
parnames = [intensity]
stimuli_per_trial = 1
outcome_types = [binary]
strategy_names = [init_strat, opt_strat]

[intensity]
par_type = continuous
lower_bound = {low}
upper_bound = {high}

[init_strat]
generator = SobolGenerator
min_asks = {first}

[opt_strat]
generator = OptimizeAcqfGenerator
model = GPClassificationModel
min_asks = {others}

[OptimizeAcqfGenerator]
acqf = EAVC
restarts = 2
samples = 100

[EAVC]
target = {target}
"""


def find_threshold(trials: int, seed: int) -> float:
    """The error of AEPsych's threshold, in dB."""
    torch.manual_seed(seed)
    threshold, generator = person(seed)
    config = CONFIG.format(
        low=LOW,
        high=HIGH,
        first=min(FIRST_TRIALS, trials - 1),
        others=max(trials - FIRST_TRIALS, 1),
        target=AT_THRESHOLD,
    )
    strategy = SequentialStrategy.from_config(Config(config_str=config))
    while not strategy.finished:
        point = strategy.gen(1)
        answer = passes(float(point), threshold, generator)
        strategy.add_data(point, torch.tensor([float(answer)]))
    _, found = strategy.inv_query(AT_THRESHOLD, probability_space=True)
    return abs(float(found) - threshold)


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    trials, *seeds = (int(argument) for argument in sys.argv[1:])
    find_threshold(2, 0)  # warm-up: loads modules
    start = time.process_time()
    errors = [find_threshold(trials, seed) for seed in seeds]
    seconds = time.process_time() - start
    print(json.dumps({"errors": errors, "seconds": seconds}))


if __name__ == "__main__":
    main()
