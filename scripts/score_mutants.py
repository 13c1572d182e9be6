r"""Mutation testing: how many small errors in the code do its tests find?

A mutant is a copy of the package with one error in it: an operator replaced, a number
changed, a condition negated. Cosmic Ray makes the mutants (``pip install
cosmic-ray``); this script draws places in the code, plants one error at each, runs the
tests, and prints the mutants that survive::

    python scripts/score_mutants.py inference likelihoods acquisition --count 50

Only tests that execute the mutated statement can find the error. So all tests run once
with a record of the lines that each of them executes; it is kept in ``build/mutants``
and renewed for the test files that have changed, or as a whole when the package has.
For every mutant the tests of its statement run, the fastest of each function first,
until one fails or the next would exceed the budget. Tests marked ``slow`` are left out.

All of it happens in a temporary copy, in processes forked from one that has imported
PyTorch, so that a mutant costs seconds. Outcomes are kept: a second run tries only the
mutants that have survived or are new, which is right as long as tests are only added.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import difflib
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = "botorch_binary_context"
COPIED = (PACKAGE, "tests", "pyproject.toml")
KEPT = ROOT / "build" / "mutants"
#: The tests that may find an error: those of the three packages, and those that
#: ``tests/test_mirror.py`` names for the modules that have no test file of their own;
#: information beyond pending trials is tested with the rules.
TESTS = (
    "likelihoods/test_*.py",
    "inference/test_*.py",
    "acquisition/test_*.py",
    "goals/test_*.py",
    "models/test_best_of_gp.py",
    "models/test_inducing_gp.py",
    "rules/test_batches.py",
)
#: What the forked processes share; importing it is most of the time of a short test.
SHARED = ("torch", "gpytorch", "botorch", "mpmath", "scipy.stats")
#: Replacements that Python refuses, or that only change a type annotation or one
#: error for another.
LEFT_OUT = ("BitOr", "BitAnd", "BitXor", "Shift", "_Is", "RemoveDecorator", "Exception")
#: Arguments of dataclasses and of ``zip`` that only guard against wrong code.
GUARDS = ("frozen", "strict")
OPTIONS = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
PASSED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


class Mutant(NamedTuple):
    """One small error in a module."""

    module: str
    operator: str
    occurrence: int


class Record(NamedTuple):
    """Which tests execute which lines, and the seconds of CPU time they take."""

    seconds: dict[str, float]
    #: For each module and line, the tests.
    tests: dict[str, dict[int, set[str]]]


# --- The mutants ---------------------------------------------------------------------


def read_places(package: Path) -> list[list[Mutant]]:
    """The result of :func:`list_places`, which is cached since it takes a while."""
    kept = KEPT / f"{package.name}.places.json"
    digest = hash_files(sorted(package.rglob("*.py")))
    entry = json.loads(kept.read_text()) if kept.exists() else {}
    if entry.get("digest") != digest:
        entry = {"digest": digest, "places": list_places(package)}
        kept.write_text(json.dumps(entry))
    return [[Mutant(*mutant) for mutant in place] for place in entry["places"]]


def list_places(package: Path) -> list[list[Mutant]]:
    """The mutants of every place in the modules of a package, in a fixed order."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path  # pyright: ignore
    from cosmic_ray.plugins import get_operator, operator_names  # pyright: ignore

    names = [
        name
        for name in sorted(operator_names())
        if not any(left_out in name for left_out in LEFT_OUT)
        and not get_operator(name).arguments()
    ]
    places: dict[Any, list[Mutant]] = defaultdict(list)
    for module in sorted(package.rglob("*.py")):
        if module.name == "__init__.py":
            continue
        nodes = list(ast_nodes(get_ast_from_path(module)))
        for name in names:
            operator = get_operator(name)()
            found = [p for node in nodes for p in operator.mutation_positions(node)]
            for occurrence, position in enumerate(found):
                mutant = Mutant(str(module.relative_to(package)), name, occurrence)
                places[module.name, position].append(mutant)
    return list(places.values())


def without_guards(code: str) -> str:
    """What the code does: its syntax tree without annotations and guards."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            node.keywords = [word for word in node.keywords if word.arg not in GUARDS]
        for field in ("annotation", "returns"):
            if hasattr(node, field):
                setattr(node, field, None)
    return ast.dump(tree)


def mutate(package: Path, mutant: Mutant) -> str | None:
    """The code of a mutant, or nothing if it does what the original does."""
    from cosmic_ray.mutating import mutate_code  # pyright: ignore
    from cosmic_ray.plugins import get_operator  # pyright: ignore

    original = (package / mutant.module).read_text(encoding="utf-8")
    operator = get_operator(mutant.operator)()
    code = mutate_code(original, operator, mutant.occurrence)
    if code is None:
        return None
    try:
        is_same = without_guards(code) == without_guards(original)
    except SyntaxError:
        return None
    return None if is_same else code


def draw_mutants(package: Path, count: int, seed: int) -> list[tuple[Mutant, str]]:
    """Mutants at places drawn at random, one at each, with their code."""
    generator = random.Random(seed)
    places = read_places(package)
    generator.shuffle(places)
    drawn = []
    for mutants in places:
        if len(drawn) == count:
            break
        mutant = generator.choice(mutants)
        code = mutate(package, mutant)
        if code is not None:
            drawn.append((mutant, code))
    print(f"{package.name}: {len(drawn)} of {len(places)} places", flush=True)
    return drawn


def changed_lines(original: str, code: str) -> list[str]:
    """The lines that differ, as a diff without its head."""
    lines = difflib.unified_diff(
        original.splitlines(), code.splitlines(), n=0, lineterm=""
    )
    return [line for line in lines if line[:3] not in ("---", "+++")]


def find_statement(original: str, code: str) -> range:
    """The lines of the innermost statement that differs, of a block only its head."""
    pairs = zip(original.splitlines(), code.splitlines(), strict=False)
    changed = next(i for i, (old, new) in enumerate(pairs, start=1) if old != new)
    spans = []
    for node in ast.walk(ast.parse(original)):
        if isinstance(node, ast.stmt):
            end = node.end_lineno or node.lineno
            body = getattr(node, "body", None)
            if body:
                end = max(node.lineno, body[0].lineno - 1)
            if node.lineno <= changed <= end:
                spans.append(range(node.lineno, end + 1))
    return min(spans, key=len, default=range(changed, changed + 1))


# --- The tests -----------------------------------------------------------------------


class Clock:
    """A pytest plugin that records the CPU time of every test."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item
    ) -> Generator[None, object, object]:
        """Take the time of a test with its fixtures."""
        start = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - start
        return result


class Chooser:
    """A pytest plugin that runs some tests in an order, each for a limited time.

    A test that takes more than ten times its usual CPU time plus ten seconds is stuck
    in a loop: the system ends the process.
    """

    def __init__(self, chosen: Sequence[str], seconds: dict[str, float]) -> None:
        self.place = {test: i for i, test in enumerate(chosen)}
        self.seconds = seconds

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests and sort those that are left."""
        items[:] = [item for item in items if item.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Limit the CPU time."""
        limit = 10 + 10 * self.seconds[item.nodeid]
        signal.setitimer(signal.ITIMER_PROF, limit)


def run_tests(copy: Path, arguments: Sequence[str], plugin: object | None) -> int:
    """Run tests in a process of their own; its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chdir(copy)
            sys.path.insert(0, str(copy))
            sink = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            plugins = [] if plugin is None else [plugin]
            code = int(pytest.main([*OPTIONS, *arguments], plugins=plugins))
            if isinstance(plugin, Clock):
                Path("seconds.json").write_text(json.dumps(plugin.seconds))
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def hash_files(paths: Sequence[Path]) -> str:
    """A digest of the content of files."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def record_tests(copy: Path, file: Path) -> dict[str, Any]:
    """Run the tests of one file and record what they execute."""
    from coverage import CoverageData

    data_file = copy / "coverage.db"
    data_file.unlink(missing_ok=True)
    config = copy / "coverage.ini"
    config.write_text(f"[run]\nsource = {copy / PACKAGE}\ndata_file = {data_file}\n")
    arguments = ["--cov", f"--cov-config={config}", "--cov-context=test"]
    code = run_tests(copy, [*arguments, "--cov-report=", str(file)], Clock())
    if code not in PASSED:
        print((copy / "output.txt").read_text())
        raise SystemExit(f"{file.name} has to pass before a mutant can be judged.")
    data = CoverageData(str(data_file))
    data.read()
    tests: dict[str, dict[int, list[str]]] = {}
    for module in data.measured_files():
        contexts = data.contexts_by_lineno(module).items()
        tests[str(Path(module).relative_to(copy / PACKAGE))] = {
            line: sorted({name.rpartition("|")[0] for name in names if name})
            for line, names in contexts
        }
    seconds = json.loads((copy / "seconds.json").read_text())
    return {"seconds": seconds, "tests": tests}


def read_record(copy: Path) -> Record:
    """The record of all tests, which is renewed where it is out of date."""
    KEPT.mkdir(parents=True, exist_ok=True)
    package = sorted((copy / PACKAGE).rglob("*.py"))
    shared = [
        path for path in (copy / "tests").rglob("*.py") if "test_" not in str(path)
    ]
    record = Record({}, defaultdict(lambda: defaultdict(set)))
    for pattern in TESTS:
        for file in sorted((copy / "tests").glob(pattern)):
            digest = hash_files([file, *package, *sorted(shared)])
            kept = KEPT / f"{file.parent.name}.{file.stem}.json"
            entry = json.loads(kept.read_text()) if kept.exists() else {}
            if entry.get("digest") != digest:
                entry = {"digest": digest, **record_tests(copy, file)}
                kept.write_text(json.dumps(entry))
                print(f"recorded {file.parent.name}/{file.name}", flush=True)
            record.seconds.update(entry["seconds"])
            for module, lines in entry["tests"].items():
                for line, tests in lines.items():
                    record.tests[module][int(line)].update(tests)
    return record


def choose_tests(record: Record, module: str, lines: range, budget: float) -> list[str]:
    """The tests to run on a mutant.

    Those that execute its statement come first, then the others of their files: results
    may be shared by a fixture, which only the first test executes.
    """
    executed = record.tests[module]
    direct = set().union(*(executed[line] for line in lines if line in executed))
    direct = direct or set().union(*executed.values())  # executed by the import only
    files = {test.partition("::")[0] for test in direct}
    others = {test for test in record.seconds if test.partition("::")[0] in files}
    chosen: list[str] = []
    left = budget
    for tests in (direct, others - direct):
        for test in order_tests(tests, record.seconds):
            left -= record.seconds[test]
            if left > 0:
                chosen.append(test)
    return chosen


def order_tests(tests: set[str], seconds: dict[str, float]) -> list[str]:
    """The fastest test of each function, then the second fastest of each, and so on."""
    rounds: dict[str, int] = defaultdict(int)
    keys = {}
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        function = test.partition("[")[0]
        keys[test] = rounds[function], seconds[test]
        rounds[function] += 1
    return sorted(keys, key=lambda test: keys[test])


# --- The score -----------------------------------------------------------------------


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of what is tested and of its tests."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name).resolve()
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / part, ignore=ignored)
            else:
                shutil.copy(source, copy / part)
        # Checked by content, so that of every mutant only its module is compiled.
        compileall.compile_dir(
            copy / PACKAGE,
            quiet=1,
            invalidation_mode=PycInvalidationMode.CHECKED_HASH,
        )
        yield copy


def is_killed(copy: Path, path: Path, code: str, record: Record, budget: float) -> bool:
    """Whether a test finds the error in the code of a module."""
    original = path.read_text(encoding="utf-8")
    module = str(path.relative_to(copy / PACKAGE))
    lines = find_statement(original, code)
    chosen = choose_tests(record, module, lines, budget)
    if not chosen:
        return False
    folder = f"tests/{path.parent.name}/"
    near = [test for test in chosen if test.startswith(folder)]
    far = [test for test in chosen if not test.startswith(folder)]
    path.write_text(code, encoding="utf-8")
    try:
        return any(find_error(copy, tests, record) for tests in (near, far) if tests)
    finally:
        path.write_text(original, encoding="utf-8")


def check_unchanged(copy: Path, record: Record) -> None:
    """Run a few tests without an error: if they fail, every mutant seems killed."""
    tests = sorted(record.seconds, key=lambda test: record.seconds[test])[:3]
    if find_error(copy, tests, record):
        print((copy / "output.txt").read_text())
        raise SystemExit("Tests fail in the copy, although no error is planted.")


def find_error(copy: Path, tests: Sequence[str], record: Record) -> bool:
    """Whether one of some tests fails."""
    files = sorted({test.partition("::")[0] for test in tests})
    return run_tests(copy, files, Chooser(tests, record.seconds)) not in PASSED


def score(copy: Path, name: str, record: Record, given: argparse.Namespace) -> None:
    """Judge mutants of a package and print the score."""
    package = copy / PACKAGE / name
    kept = KEPT / f"{name}.killed.json"
    known = set(json.loads(kept.read_text())) if kept.exists() else set()
    killed = 0
    drawn = draw_mutants(package, given.count, given.seed)
    for tried, (mutant, code) in enumerate(drawn, start=1):
        path = package / mutant.module
        difference = changed_lines(path.read_text(encoding="utf-8"), code)
        key = "\n".join([mutant.module, *difference])
        if key not in known and is_killed(copy, path, code, record, given.budget):
            known.add(key)
            kept.write_text(json.dumps(sorted(known)))
        killed += key in known
        if key not in known:
            print(f"survived: {key}")
        print(f"{name}: {killed} of {tried} killed", flush=True)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("packages", nargs="+", help="such as inference or likelihoods")
    parser.add_argument("--count", type=int, default=50, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--budget",
        type=float,
        default=40.0,
        help="seconds of CPU time of the tests of one mutant",
    )
    given = parser.parse_args()
    sys.dont_write_bytecode = True
    for name in SHARED:
        importlib.import_module(name)
    with copied() as copy:
        record = read_record(copy)
        check_unchanged(copy, record)
        for name in given.packages:
            score(copy, name, record, given)


if __name__ == "__main__":
    main()
