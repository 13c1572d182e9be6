r"""Commands that compute nothing start without torch; nothing is lost by that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from botorch_binary_context.experiment import Experiment
from botorch_binary_context.experiment.cli import main
from botorch_binary_context.experiment.journal import Journal
from tests.experiment.simulation import unmodeled

RUN = """
import sys
from botorch_binary_context.experiment.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as error:
    code = error.code
loaded = {"torch", "botorch", "gpytorch", "numpy", "scipy"} & set(sys.modules)
assert not loaded, loaded
raise SystemExit(code)
"""


def run_python(code: str, *arguments: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("quick") / "journal"
    with Experiment.create(path, unmodeled()) as experiment:
        for _ in range(4):
            experiment.ask()
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (("--version",), "binary-context 0."),
        (("--help",), "usage: binary-context"),
        (("tell", "--help"), "usage: binary-context tell"),
        (("tell", "JOURNAL", "1", "pass"), "trial 1: pass\n"),
        (("withdraw", "JOURNAL", "2"), "trial 2: withdrawn\n"),
        (("correct", "JOURNAL", "1", "fail"), "trial 1: fail\n"),
        (("exclude", "JOURNAL", "1"), "trial 1: excluded\n"),
        (("include", "JOURNAL", "1"), "trial 1: included\n"),
        (("undo", "JOURNAL"), "trial 1: pending again\n"),
        (("status", "JOURNAL"), "pass/fail, rule ucb99-ald\n"),
        (("export", "JOURNAL"), "id,status,"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_command_loads_no_torch(
    journal: str, arguments: tuple[str, ...], output: str
) -> None:
    arguments = tuple(a.replace("JOURNAL", journal) for a in arguments)
    assert run_python(RUN, *arguments).startswith(output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tell", "JOURNAL", "99", "pass"), "``trial_id`` to be from 1 to 4"),
        (("tell", "JOURNAL", "3", "perhaps"), "``outcome``"),
        (("withdraw", "JOURNAL", "0"), "``trial_id``"),
        (("status", "JOURNAL-that-is-missing"), "is-missing"),
        (("export", "JOURNAL", "JOURNAL"), "``path``"),
    ],
)
def test_errors_load_no_torch(
    journal: str, arguments: tuple[str, ...], message: str
) -> None:
    arguments = tuple(a.replace("JOURNAL", journal) for a in arguments)
    command = [sys.executable, "-c", RUN, *arguments]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.startswith("binary-context: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_errors_are_those_of_botorch() -> None:
    """BoTorch is imported when an error is raised, and users catch its classes."""
    run_python(
        """
import sys
from botorch_binary_context.experiment.feedback import PassFail
from botorch_binary_context.experiment.trial import Trial
assert "botorch" not in sys.modules
for call, name in (
    (lambda: PassFail("2"), "InputDataError"),
    (lambda: Trial(1, {}, ({},), "", "").first, "UnsupportedError"),
):
    try:
        call()
    except Exception as error:
        import botorch.exceptions
        assert type(error) is getattr(botorch.exceptions, name)
    else:
        raise AssertionError
"""
    )


def test_registered_wherever_a_class_is_reached() -> None:
    """A single model brings its samplers, a single function its input constructor."""
    run_python(
        """
import torch
from botorch_binary_context.models.binary_gp import BinaryGP
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.pathwise import draw_matheron_paths
X = torch.rand(4, 2, dtype=torch.double)
model = BinaryGP(X, (X[:, :1] > 0.5).to(X))
assert draw_matheron_paths(model, torch.Size([2]))(X).shape == (2, 4)
get_sampler(model.posterior(X, observation_noise=True), torch.Size([2]))
from botorch_binary_context.acquisition.analytic import LatentUpperConfidenceBound
from botorch.acquisition.input_constructors import get_acqf_input_constructor
get_acqf_input_constructor(LatentUpperConfidenceBound)
"""
    )


class TestPackages:
    def test_every_exported_name_is_found(self) -> None:
        run_python(
            """
import sys
import botorch_binary_context as package
assert package.__version__ and "torch" not in sys.modules
assert package.BinaryGP is package.models.BinaryGP
for module in (package, package.experiment):
    assert set(module.__all__) <= set(dir(module))
    assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(module, "nonsense")
"""
        )

    def test_all_names_are_imported_by_a_star(self) -> None:
        names: dict[str, object] = {}
        exec("from botorch_binary_context.experiment import *", names)
        assert names["Experiment"] is Experiment


class TestBrokenOutput:
    """Each is one line and the exit code 2, also at the end of the process."""

    def run(self, command: str, *arguments: str) -> str:
        script = f'"$0" -m botorch_binary_context.experiment {command}'
        result = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}", sys.executable, *arguments],
            capture_output=True,
            text=True,
        )
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr.startswith("binary-context: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    def test_full_disk(self, journal: str) -> None:
        assert "No space left" in self.run('export "$1" > /dev/full', journal)
        assert "No space left" in self.run('export "$1" /dev/full', journal)

    def test_closed_pipe(self, journal: str) -> None:
        assert "Broken pipe" in self.run('status "$1" | (exec <&-; sleep 1)', journal)

    def test_folder_in_place_of_a_file_is_refused(
        self, journal: str, tmp_path: Path
    ) -> None:
        message = self.run('export "$1" "$2"', journal, str(tmp_path))
        assert "Is a directory" in message


def test_interrupt_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, journal: str
) -> None:
    def interrupt(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Journal, "trials", interrupt)
    assert main(["status", journal]) == 130
    assert capsys.readouterr().err == "binary-context: interrupted\n"


INTERRUPTED_IMPORT = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from botorch_binary_context.experiment.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("botorch_binary_context.experiment.cli.program", ""),
        ("botorch_binary_context.experiment.cli.questions", "interrupted"),
        ("torch", "interrupted"),
    ],
)
def test_interrupt_of_imports(module: str, message: str, journal: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, "ask", journal]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 130
    assert result.stderr == (f"binary-context: {message}\n" if message else "")
