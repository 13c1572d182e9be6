r"""Reports of the studies whose functions come in variants."""

from __future__ import annotations

import math

import polars as pl
from scipy.stats import wilcoxon

from benchmarks.studies import variants
from benchmarks.studies.analysis import Analysis
from benchmarks.tables import format_table

#: The most by which batches may increase the regret, as a fraction.
TOLERANCE = 0.2


def describe(analysis: Analysis) -> list[str]:
    r"""What a study of variants shows.

    Args:
        analysis: The results.

    Returns:
        Sections of the report; none if the functions have no variants.
    """
    if analysis.study.load is not variants.load_hyperparameters:
        return []
    frame = final_regrets(analysis)
    if analysis.study.case is variants.batch_case:
        return [_compare_batches(frame)]
    return [_compare_rules(frame, analysis), _by_function(frame, analysis)]


def final_regrets(analysis: Analysis) -> pl.DataFrame:
    r"""The regret at the end.

    Args:
        analysis: The results.

    Returns:
        A row for every ``function``, ``variant``, ``rule`` and ``seed``, of the
        functions that are complete.
    """
    found = [variants.VARIANTS[name] for name in analysis.functions]
    kinds = {variant.kind for variant in found}
    whole = [
        variant.function
        for variant in found
        if all(variants.Variant(variant.function, kind) in found for kind in kinds)
    ]
    table = pl.DataFrame(
        {
            "name": list(analysis.functions),
            "function": [variant.function for variant in found],
            "variant": [variant.kind for variant in found],
        }
    )
    ends = analysis.frame.filter(pl.col("iteration") == analysis.iterations)
    ends = ends.select(pl.col("function").alias("name"), "rule", "seed", "regret")
    joined = table.join(ends, on="name", maintain_order="left")
    return joined.filter(pl.col("function").is_in(whole)).drop("name")


def _mean(frame: pl.DataFrame) -> tuple[float, float]:
    """The mean of the functions' regrets, and its standard error for these functions.

    The error is that of the seeds: the functions are those that were chosen.
    """
    parts = frame.group_by("function").agg(
        mean=pl.col("regret").mean(), variance=pl.col("regret").var() / pl.len()
    )
    error = math.sqrt(parts["variance"].fill_null(0.0).sum()) / len(parts)
    return float(parts["mean"].mean()), error  # pyright: ignore[reportArgumentType]


def _compare_rules(frame: pl.DataFrame, analysis: Analysis) -> str:
    """The regret of every rule for every goal, and tests against the first rule."""
    rows = []
    chosen = analysis.rules[0]
    for variant in frame["variant"].unique(maintain_order=True):
        part = frame.filter(variant=variant)
        for rule in analysis.rules:
            mean, error = _mean(part.filter(rule=rule))
            row = [variant, f"`{rule}`", f"{mean:.2f} ± {error:.2f}"]
            rows.append(
                row + (["", ""] if rule == chosen else _test(part, chosen, rule))
            )
    count = frame["function"].n_unique()
    header = ["goal", "rule", "regret at the end", f"`{chosen}` ahead", "p"]
    return (
        f"## Regret for each goal\n\nThe mean over {count} functions and all seeds, "
        f"with the standard error of the seeds; on how many functions `{chosen}` has "
        "less regret in the mean of the seeds; and Wilcoxon's two-sided test of the "
        "differences of all functions and seeds.\n\n" + format_table(header, rows)
    )


def _test(frame: pl.DataFrame, first: str, second: str) -> list[str]:
    """On how many functions the first rule has less regret, and p."""
    keys = ["function", "seed"]
    pairs = frame.filter(rule=first).join(frame.filter(rule=second), on=keys)
    gain = pairs.select(*keys, gain=pl.col("regret_right") - pl.col("regret"))
    means = gain.group_by("function").agg(pl.col("gain").mean())["gain"]
    p = float(wilcoxon(gain["gain"].to_numpy()).pvalue)  # pyright: ignore
    return [f"{int((means > 0).sum())} of {len(means)}", f"{p:.2g}"]


def _by_function(frame: pl.DataFrame, analysis: Analysis) -> str:
    header = ["function", "goal", *(f"`{rule}`" for rule in analysis.rules)]
    rows = []
    keys = ["function", "variant"]
    for key, part in frame.group_by(keys, maintain_order=True):
        cells = [_mean(part.filter(rule=rule)) for rule in analysis.rules]
        rows.append([*key, *(f"{mean:.2f} ± {error:.2f}" for mean, error in cells)])
    return "## Regret for each function\n\n" + format_table(header, rows)


def _test_variants(frame: pl.DataFrame, first: str, second: str) -> float:
    """By Wilcoxon's test, how likely as large a difference is by chance."""
    pairs = frame.filter(variant=first).join(frame.filter(variant=second), on="seed")
    difference = (pairs["regret"] - pairs["regret_right"]).to_numpy()
    if not difference.any():
        return 1.0
    return float(wilcoxon(difference).pvalue)  # pyright: ignore


def _compare_batches(frame: pl.DataFrame) -> str:
    """How much more regret batches leave, for every rule and function."""
    single, batched = variants.BATCH_SIZES
    keys = ["function", "rule"]
    means = frame.group_by(*keys, "variant", maintain_order=True).agg(
        pl.col("regret").mean()
    )
    table = means.pivot("variant", index=keys, values="regret")
    rows = []
    for (rule,), part in table.group_by(["rule"], maintain_order=True):
        ratios = part[batched] / part[single]
        within = f"{int((ratios <= 1 + TOLERANCE).sum())} of {len(ratios)}"
        typical = math.exp(float(ratios.log().mean()))  # pyright: ignore
        rows.append([f"`{rule}`", "all", "", "", f"{typical - 1:+.0%}", "", within])
        for function, _, one, four in part.select(*keys, single, batched).rows():
            cells = [f"{one:.3f}", f"{four:.3f}", f"{four / one - 1:+.0%}"]
            seeds = frame.filter(function=function, rule=rule)
            p = _test_variants(seeds, single, batched)
            rows.append([f"`{rule}`", function, *cells, f"{p:.2g}", ""])
    header = ["rule", "function", single, batched, "more regret", "p", "within 20 %"]
    return (
        "## Batches and single trials\n\nThe mean regret at the end, after 60 trials "
        "one by one and after 15 batches of four; of all functions the geometric mean "
        "of the ratios, since regrets differ by orders of magnitude. By Wilcoxon's "
        "two-sided test of the seeds, p.\n\n" + format_table(header, rows)
    )
