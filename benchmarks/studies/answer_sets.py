r"""
Real answers of people (and of one rat) in a common form.

Duels: where people chose among several options, the chosen one against another one
drawn at random. Pass/fail: one row for every test. Columns are scaled to [0, 1] by
their range in the set, and brands or kinds are one-hot columns.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from torch import Tensor

from benchmarks.studies.public_data import (
    BIOGEME,
    PSYTRACK,
    read_bytes,
    read_ecdat,
    read_mass,
)

SEED = 17
MAX_TRIALS = 4000


@dataclass(frozen=True)
class Answers:
    r"""Answers to trials.

    Attributes:
        X: ``n x d`` tests or ``n x 2 x d`` duels, with columns in [0, 1].
        Y: ``n x 1`` outcomes: passed, or the first side preferred.
        are_duels: Whether trials have two sides.
        guess_rate: The rate of passes of a test that is too hard.
        context: The column along which tests become easier, if one does.
    """

    X: Tensor
    Y: Tensor
    are_duels: bool = False
    guess_rate: float = 0.0
    context: int | None = None


def _scale(columns: np.ndarray) -> np.ndarray:
    """Columns of ``... x d`` values, each to [0, 1]."""
    flat = columns.reshape(-1, columns.shape[-1])
    low = np.nanmin(flat, axis=0)
    high = np.nanmax(flat, axis=0)
    return (columns - low) / np.where(high > low, high - low, 1.0)


def _make_duels(options: np.ndarray, chosen: np.ndarray) -> Answers:
    """``n x k x d`` options, of which one was chosen, as duels with another one."""
    generator = np.random.default_rng(SEED)
    order = generator.permutation(len(options))[:MAX_TRIALS]
    options = _scale(options)[order]
    chosen = chosen[order]
    shift = generator.integers(1, options.shape[1], len(options))
    other = (chosen + shift) % options.shape[1]
    rows = np.arange(len(options))
    pairs = np.stack([options[rows, chosen], options[rows, other]], axis=1)
    first = generator.random(len(pairs)) < 0.5
    pairs[~first] = pairs[~first, ::-1]
    return Answers(
        torch.from_numpy(pairs.copy()).double(),
        torch.from_numpy(first).double().unsqueeze(-1),
        are_duels=True,
    )


def _brands(
    name: str,
    brands: Sequence[str],
    features: Sequence[str],
    choice: str,
    code: Callable[[str, str], str] = "{}.{}".format,
) -> Answers:
    """A set with a column for each feature of each brand."""
    frame = read_ecdat(name).drop_nulls()
    values = [[frame[code(f, b)].to_numpy() for f in features] for b in brands]
    options = np.moveaxis(np.array(values, dtype=float), -1, 0)  # n x k x features
    one_hot = np.broadcast_to(np.eye(len(brands)), (len(options), *[len(brands)] * 2))
    chosen = np.array([list(brands).index(b) for b in frame[choice]])
    return _make_duels(np.concatenate([options, one_hot], axis=-1), chosen)


def _numbered(
    name: str, features: Sequence[str], kinds: Sequence[str], count: int
) -> Answers:
    """A set with columns ``price1`` to ``pricek``, and kinds among them."""
    frame = read_ecdat(name)
    columns = []
    for i in range(1, count + 1):
        numbers = [frame[f"{f}{i}"].to_numpy().astype(float) for f in features]
        for kind in kinds:
            names = sorted(set(frame[f"{kind}1"]))
            values = frame[f"{kind}{i}"].to_numpy()
            numbers += [(values == other).astype(float) for other in names]
        columns.append(np.stack(numbers, axis=-1))
    chosen = frame["choice"].str.strip_prefix("choice").cast(pl.Int64).to_numpy() - 1
    return _make_duels(np.stack(columns, axis=1), chosen)


def _swissmetro() -> Answers:
    """Train, magnetic train or car: time, cost, headway and the kind."""
    text = io.BytesIO(read_bytes(BIOGEME, "biogeme/data/data/swissmetro.dat"))
    frame = pl.read_csv(text, separator="\t").filter(
        (pl.col("CHOICE") > 0) & (pl.col("CAR_AV") == 1) & (pl.col("TRAIN_AV") == 1)
    )
    frame = frame.with_columns(CAR_HE=pl.lit(0))
    free = frame["GA"].to_numpy() == 1  # holders of a season ticket pay nothing
    columns = []
    for i, mode in enumerate(("TRAIN", "SM", "CAR")):
        cost = frame[f"{mode}_CO"].to_numpy().astype(float)
        cost = np.where(free & (mode != "CAR"), 0.0, cost)
        time, headway = (
            frame[f"{mode}_{part}"].to_numpy().astype(float) for part in ("TT", "HE")
        )
        kind = [np.full(len(cost), float(i == j)) for j in range(3)]
        columns.append(np.stack([np.log1p(cost), time, headway, *kind], axis=-1))
    return _make_duels(np.stack(columns, axis=1), frame["CHOICE"].to_numpy() - 1)


def _hearing() -> Answers:
    """Children hear a tone in noise: loudness, kind of noise, age; two alternatives."""
    frame = read_mass("OME").drop_nulls()
    coherent = frame["Noise"].to_numpy() == "coherent"
    columns = [frame["Loud"].to_numpy(), coherent, frame["Age"].to_numpy()]
    X = _scale(np.stack(columns, axis=-1).astype(float))
    passed = frame["Correct"].to_numpy()
    total = frame["Trials"].to_numpy()
    rows = np.repeat(np.arange(len(X)), total)
    label = np.concatenate(
        [np.arange(n) < k for k, n in zip(passed, total, strict=True)]
    )
    return _shuffle(X[rows], label, guess_rate=0.5, context=0)


def _rat(day: slice) -> Answers:
    """A rat reports which of two sounds was louder."""
    file = io.BytesIO(read_bytes(PSYTRACK, "psytrack/examples/sampleRatData.npz"))
    data = np.load(file, allow_pickle=True)["D"].item()
    sounds = [data["inputs"][name][:, 0] for name in ("s1", "s2")]
    X = _scale(np.stack(sounds, axis=-1))
    return _shuffle(X[day], data["y"][day] == 2)


def _shuffle(
    X: np.ndarray,
    passed: np.ndarray,
    guess_rate: float = 0.0,
    context: int | None = None,
) -> Answers:
    order = np.random.default_rng(SEED).permutation(len(X))[:MAX_TRIALS]
    return Answers(
        torch.from_numpy(X[order]).double(),
        torch.from_numpy(passed[order].astype(float)).unsqueeze(-1),
        guess_rate=guess_rate,
        context=context,
    )


_GOODS = ("disp", "feat", "price")
#: Sets on which the defaults for duels were chosen.
TUNING: Mapping[str, Callable[[], Answers]] = {
    "catsup": lambda: _brands(
        "Catsup", ("heinz41", "heinz32", "heinz28", "hunts32"), _GOODS, "choice"
    ),
    "fishing": lambda: _brands(
        "Fishing",
        ("beach", "pier", "boat", "charter"),
        ("p", "c"),
        "mode",
        "{}{}".format,
    ),
    "heating": lambda: _brands(
        "Heating", ("gc", "gr", "ec", "er", "hp"), ("ic", "oc"), "depvar"
    ),
    "commuting": lambda: _brands(
        "Mode", ("car", "carpool", "bus", "rail"), ("cost", "time"), "choice"
    ),
}
#: Sets on which nothing was chosen.
HELD_OUT: Mapping[str, Callable[[], Answers]] = {
    "train": lambda: _numbered("Train", ("price", "time", "change", "comfort"), (), 2),
    "car": lambda: _numbered(
        "Car",
        ("price", "range", "acc", "speed", "pollution", "size", "space", "cost"),
        ("type", "fuel"),
        6,
    ),
    "cracker": lambda: _brands(
        "Cracker", ("sunshine", "kleebler", "nabisco", "private"), _GOODS, "choice"
    ),
    "yogurt": lambda: _brands(
        "Yogurt", ("yoplait", "dannon", "hiland", "weight"), _GOODS[1:], "choice"
    ),
    "ketchup": lambda: _brands(
        "Ketchup", ("heinz", "hunts", "delmonte", "stb"), _GOODS[2:], "Ketchup.choice"
    ),
    "tuna": lambda: _brands(
        "Tuna", ("skw", "cosw", "sko", "coso", "pw"), _GOODS[2:], "Tuna.choice"
    ),
    "swissmetro": _swissmetro,
}
#: Tests that are passed or failed.
PASS_FAIL: Mapping[str, Callable[[], Answers]] = {
    "hearing": _hearing,
    "rat, early": lambda: _rat(slice(0, 4000)),
    "rat, late": lambda: _rat(slice(-4000, None)),
}
#: All sets by their names.
SETS: Mapping[str, Callable[[], Answers]] = {**TUNING, **HELD_OUT, **PASS_FAIL}
