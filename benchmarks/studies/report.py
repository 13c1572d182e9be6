r"""
``python -m benchmarks report STUDY``: what a study shows, as Markdown and PNG.

The report is written next to the results. Results may be incomplete: the report says
what is missing, and ranks the rules on the functions that all of them have finished. A
person writes the conclusions, in a file ``conclusions.md`` next to the results, which
becomes a part of the report.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.studies import (
    acuity,
    comparisons,
    figures,
    leaders,
    store,
    variant_report,
)
from benchmarks.studies.analysis import Analysis, analyze
from benchmarks.studies.cases import load_hyperparameters
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.hyperparameters import format_choices
from benchmarks.studies.own_studies import OWN_STUDIES
from benchmarks.studies.ranking import SIGNIFICANCE, Ranking
from benchmarks.studies.refraction import show
from benchmarks.studies.report_file import read_conclusions, write_sections
from benchmarks.studies.study import INITIAL_TRIALS
from benchmarks.tables import format_table
from botorch_binary_context.rules import (
    BINARY_RULES,
    DUEL_RULES,
    TwoStages,
    at_random,
    at_reference,
    most_informative,
)


def add_command(commands: Any) -> None:
    r"""Add ``report`` to the command line.

    Args:
        commands: The result of ``add_subparsers``.
    """
    parser = commands.add_parser("report", help="the ranking and figures of a study")
    parser.add_argument("study", choices=[*STUDIES, *OWN_STUDIES])
    parser.add_argument("--output", type=Path, default=store.RESULTS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    r"""Write the report of a study.

    Args:
        arguments: The parsed command line.
    """
    if arguments.study in OWN_STUDIES:
        path = OWN_STUDIES[arguments.study].write_report(arguments.output)
    else:
        path = write_report(arguments.study, arguments.output)
    print(f"Report: {path.resolve()}")


def write_report(name: str, root: Path = store.RESULTS) -> Path:
    r"""Write the report of a study.

    Args:
        name: The name of the study.
        root: The folder of all results; the report goes to its folder ``name``.

    Returns:
        The path of the Markdown file.
    """
    analysis = analyze(STUDIES[name], root)
    folder = root / name
    compared = variant_report.describe(analysis) or _describe_rules(analysis, folder)
    sections = [
        _describe(analysis),
        read_conclusions(folder),
        _describe_missing(analysis),
        *compared,
        *comparisons.describe(analysis, root),
        _describe_costs(analysis),
        _describe_kernels(analysis),
        _describe_runs(folder),
    ]
    return write_sections(folder, sections)


def _describe_rules(analysis: Analysis, folder: Path) -> list[str]:
    """The ranking of the rules, and figures next to the report."""
    ranking = analysis.rank(analysis.rules)
    if ranking is not None:
        figures.draw_wins(ranking, analysis.rules, folder / "wins.png")
    regret = figures.draw_regret(analysis, folder)
    return [
        *(_describe_ranking(analysis, ranking) if ranking is not None else []),
        _describe_contexts(analysis, ranking) if ranking is not None else "",
        *acuity.describe(analysis, folder),
        "\n\n".join(["## Regret", *(f"![Regret curves]({name})" for name in regret)]),
    ]


def _describe(analysis: Analysis) -> str:
    study = analysis.study
    total = len(analysis.missing) * len(study.functions)
    finished = total - sum(map(len, analysis.missing.values()))
    return (
        f"# The study `{study.name}`\n\n{finished} of {total} tasks are finished, a "
        f"task being a rule on a function: {analysis.seeds} seeds, "
        f"{analysis.iterations} iterations after {INITIAL_TRIALS} random trials. The "
        "score is the performance of the parameters that are inferred to be best, "
        f"{study.unit}; the regret is how far it is below the best possible one. "
        f"`python -m benchmarks run {study.name}` computes the results, and `python -m "
        f"benchmarks report {study.name}` writes this report."
    )


def _describe_missing(analysis: Analysis) -> str:
    """What is missing; empty if nothing is."""
    lines = [
        f"- `{rule}`: {_name_functions(lacks, analysis.study.functions)}"
        for rule, lacks in analysis.missing.items()
        if lacks
    ]
    return "\n".join(["## Missing\n", *lines]) if lines else ""


def _name_functions(names: Sequence[str], known: Sequence[str]) -> str:
    """Some of the functions, in as few words as possible."""
    others = [name for name in known if name not in names]
    if not others:
        return "all functions"
    if len(others) < len(names):
        return f"all functions but {_quote(others)}"
    return _quote(names)


def _quote(names: Sequence[str]) -> str:
    return ", ".join(f"`{show(name)}`" for name in names)


def _describe_ranking(analysis: Analysis, ranking: Ranking) -> list[str]:
    compared = len(analysis.functions)
    text = (
        f"## Ranking\n\nOn the functions that all rules have finished, {compared} in "
        f"number. One-sided Mann-Whitney tests at {SIGNIFICANCE:g} on the last value, "
        "ties broken by the mean of the curve; the Borda score counts the rules below, "
        "summed over the functions."
    )
    if analysis.study.paper:
        text += (
            " The score depends on which rules compete, so those of the paper's table "
            "are ranked among themselves, too."
        )
    if analysis.relative_regret():
        text += (
            " The regret at the end is relative to that of `random`, the mean over the "
            "functions."
        )
    wins = (
        "## Pairwise wins\n\nThe fraction of functions on which the rule of a row "
        "beats the rule of a column.\n\n![Matrices of pairwise wins](wins.png)"
    )
    leading = leaders.describe(analysis, ranking)
    return [text, _ranking_table(analysis), leading, wins]


def _ranking_table(analysis: Analysis) -> str:
    """Our ranking, best first, and the paper's next to it."""
    paper = analysis.study.paper
    ours = _places(analysis, analysis.rules)
    among = _places(analysis, [rule for rule in analysis.rules if rule in paper])
    regret = analysis.relative_regret()
    header = ["rule", "rank", "Borda"]
    if regret:
        header.append("relative regret")
    if paper:
        header += ["rank (paper's rules)", "Borda (paper's rules)"]
        header += ["rank in the paper", "Borda in the paper"]
    rows = []
    for rule in sorted(analysis.rules, key=lambda rule: ours[rule]):
        row = [f"`{rule}`", *ours[rule]]
        if regret:
            row.append(f"{regret[rule]:.2f}")
        if paper:
            row += [*among.get(rule, (None, None)), *paper.get(rule, (None, None))]
        rows.append(row)
    return format_table(header, rows)


def _places(analysis: Analysis, rules: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Rank and Borda score of rules that compete."""
    ranking = analysis.rank(rules)
    if ranking is None:
        return {}
    return dict(zip(rules, zip(ranking.rank, ranking.borda, strict=True), strict=True))


def _describe_contexts(analysis: Analysis, ranking: Ranking) -> str:
    """How rules fare when their context is chosen differently; empty if none was."""
    rules = analysis.rules
    count = len(analysis.functions)
    ends = analysis.scores(rules)[..., -1].mean(axis=-1)
    rows = []
    for chosen, other in _context_pairs(rules):
        ij = i, j = rules.index(chosen), rules.index(other)
        fractions = [
            wins[pair]
            for wins in (ranking.last_wins, ranking.mean_wins)
            for pair in (ij, ij[::-1])
        ]
        counts = [round(count * fraction) for fraction in fractions]
        ahead = (ends[i] > ends[j]).sum()
        rows.append([f"`{chosen}` against `{other}`", ahead, *counts])
    header = ["", "ahead", "better at the end", "worse at the end"]
    header += ["better on the mean", "worse on the mean"]
    text = (
        "## Choosing the context\n\nThe same rule for the parameters, with the context "
        f"chosen otherwise: on how many of the {count} functions ALD ends ahead, by "
        "the mean of the seeds, and on how many it is significantly better or worse, "
        "by the tests of the ranking on the last value and on the mean of the curve."
        "\n\n"
    )
    return text + format_table(header, rows) if rows else ""


def _context_pairs(rules: Sequence[str]) -> list[tuple[str, str]]:
    """Rules that choose the context by ALD, each with the same rule without it."""
    known = {name: BINARY_RULES.get(name, DUEL_RULES.get(name)) for name in rules}
    return [
        (chosen, other)
        for chosen, rule in known.items()
        if isinstance(rule, TwoStages) and rule.context is most_informative
        for context in (at_random, at_reference)
        for other, found in known.items()
        if found == TwoStages(rule.parameters, context)
    ]


def _describe_costs(analysis: Analysis) -> str:
    table = analysis.by_rule().sort("seconds")
    rows = [
        (f"`{rule}`", f"{1e3 * seconds:.1f}", f"{context:.2f}")
        for rule, context, seconds in table.select("rule", "context", "seconds").rows()
    ]
    total = timedelta(seconds=round(analysis.frame["seconds"].sum()))
    return (
        "## Time and context\n\nThe mean wall time of a suggestion, on one thread: all "
        "seeds are suggested for at once, and the time is divided by their number. All "
        f"suggestions took {total} of one core. The context is the mean over all "
        "trials but the random ones.\n\n"
        + format_table(["rule", "ms per suggestion", "mean context"], rows)
    )


def _describe_kernels(analysis: Analysis) -> str:
    """The kernels of benchmark functions; empty for other studies."""
    if analysis.study.load is not load_hyperparameters:
        return ""
    choices = {name: load_hyperparameters(name) for name in analysis.study.functions}
    return (
        "## Kernels\n\nThree kernels are fitted to samples of a function, and the one "
        "that predicts other samples with the lowest error models it (`python -m "
        "benchmarks hyperparameters`); the last columns are the errors.\n\n"
        + format_choices(choices)
    )


def _describe_runs(folder: Path) -> str:
    """The wall time of the runs; empty if none is noted."""
    runs = store.load_runs(folder)
    total = timedelta(seconds=sum(run["seconds"] for run in runs))
    rows = [
        (
            run["ended"],
            timedelta(seconds=run["seconds"]),
            run["workers"],
            run["machine"],
        )
        for run in runs
    ]
    table = format_table(["run until", "wall time", "workers", "machine"], rows)
    return f"## Runs\n\nWall time in all: {total}.\n\n{table}" if runs else ""
