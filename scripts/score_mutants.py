r"""Mutation testing: how many small errors in the code do its tests find?

A mutant is a copy of the package with one error in it: an operator replaced, a number
changed, a condition negated. Cosmic Ray makes the mutants (``pip install
cosmic-ray``); this script draws a sample of them, runs the tests on one after the
other, and prints those that survive::

    python scripts/score_mutants.py likelihoods --count 40 --seed 0

The test file of the module runs first, then the other files of its folder, until a
test fails. Tests marked ``slow`` are left out. All of it happens in a temporary copy,
in processes forked from one that has imported PyTorch, so that a mutant costs seconds.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "botorch_binary_context"
COPIED = (PACKAGE, "tests", "pyproject.toml")
#: What the forked processes share; importing it is most of the time of a short test.
SHARED = ("torch", "gpytorch", "botorch.models", "mpmath", "scipy.stats")
#: Replacements that Python refuses, or that only change a type annotation or one
#: error for another.
LEFT_OUT = ("BitOr", "BitAnd", "BitXor", "Shift", "_Is", "RemoveDecorator")


class Mutant(NamedTuple):
    """One small error in a module."""

    module: Path
    operator: str
    occurrence: int


def list_mutants(package: Path) -> list[Mutant]:
    """All mutants of the modules of a package, in a fixed order."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path  # pyright: ignore
    from cosmic_ray.plugins import get_operator, operator_names  # pyright: ignore

    names = [
        name
        for name in operator_names()
        if not any(left_out in name for left_out in LEFT_OUT)
        and not get_operator(name).arguments()
    ]
    mutants = []
    for module in sorted(package.rglob("*.py")):
        if module.name == "__init__.py":
            continue
        nodes = list(ast_nodes(get_ast_from_path(module)))
        for name in sorted(names):
            operator = get_operator(name)()
            count = sum(len(list(operator.mutation_positions(node))) for node in nodes)
            mutants += [Mutant(module, name, i) for i in range(count)]
    return mutants


def without_annotations(code: str) -> str:
    """What the code does: its syntax tree without annotations."""
    tree = ast.parse(code)
    for node in ast.walk(tree):
        for field in ("annotation", "returns"):
            if hasattr(node, field):
                setattr(node, field, None)
    return ast.dump(tree)


def mutate(mutant: Mutant) -> str | None:
    """The code of a mutant, or nothing if it does what the original does."""
    from cosmic_ray.mutating import mutate_code  # pyright: ignore
    from cosmic_ray.plugins import get_operator  # pyright: ignore

    original = mutant.module.read_text(encoding="utf-8")
    operator = get_operator(mutant.operator)()
    code = mutate_code(original, operator, mutant.occurrence)
    if code is None:
        return None
    with contextlib.suppress(SyntaxError):
        if without_annotations(code) == without_annotations(original):
            return None
    return code


def order_tests(copy: Path, module: Path) -> list[str]:
    """The test file of a module, then the others of its folder."""
    folder = copy / "tests" / module.parent.name
    mirror = folder / f"test_{module.name}"
    others = sorted(path for path in folder.glob("test_*.py") if path != mirror)
    return [str(path) for path in ([mirror] if mirror.exists() else []) + others]


def run_tests(copy: Path, files: list[str]) -> int:
    """Run tests in this process until one fails, and return pytest's exit code."""
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return int(pytest.main([*options, "-m", "not slow", *files]))


def survives(copy: Path, files: list[str], limit: float) -> bool:
    """Whether all tests pass in a process of their own, within a limit of CPU time."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            code = run_tests(copy, files)
        os._exit(code)
    clock = os.sysconf("SC_CLK_TCK")
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.2)
        fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
        if sum(map(int, fields[11:15])) / clock > limit:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of what is tested and of its tests."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(source, copy / part, ignore=ignored)
            else:
                shutil.copy(source, copy / part)
        yield copy


def show(mutant: Mutant, original: str, code: str) -> None:
    """Print the lines that differ."""
    print(f"survived: {mutant.module.name} {mutant.operator}")
    lines = difflib.unified_diff(original.splitlines(), code.splitlines(), n=0)
    print("\n".join(line for line in lines if line[:3] not in ("---", "+++")))


def score(package: str, count: int, seed: int, limit: float) -> None:
    """Draw mutants of a package, run its tests on each, and print the score."""
    sys.dont_write_bytecode = True
    for name in SHARED:
        importlib.import_module(name)
    with copied() as copy:
        tests = sorted(map(str, (copy / "tests" / package).glob("test_*.py")))
        if not survives(copy, tests, limit=float("inf")):
            raise SystemExit("The tests have to pass before a mutant can be judged.")
        mutants = list_mutants(copy / PACKAGE / package)
        random.Random(seed).shuffle(mutants)
        print(f"{len(mutants)} mutants of {package}", flush=True)
        tried = killed = 0
        for mutant in mutants:
            if tried == count:
                break
            code = mutate(mutant)
            if code is None:
                continue
            original = mutant.module.read_text(encoding="utf-8")
            mutant.module.write_text(code, encoding="utf-8")
            alive = survives(copy, order_tests(copy, mutant.module), limit)
            mutant.module.write_text(original, encoding="utf-8")
            tried += 1
            killed += not alive
            if alive:
                show(mutant, original, code)
            print(f"{killed} of {tried} killed", flush=True)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("package", help="such as inference or likelihoods")
    parser.add_argument("--count", type=int, default=60, help="mutants to try")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--limit",
        type=float,
        default=120.0,
        help="seconds of CPU time after which a mutant counts as killed",
    )
    given = parser.parse_args()
    score(given.package, given.count, given.seed, given.limit)


if __name__ == "__main__":
    main()
