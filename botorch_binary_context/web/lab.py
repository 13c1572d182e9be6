r"""
What a server works with: experiments, their computations and their pages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from botorch_binary_context.errors import InputDataError
from botorch_binary_context.experiment.experiment import Experiment
from botorch_binary_context.experiment.trial import Trial
from botorch_binary_context.web.ahead import Ahead
from botorch_binary_context.web.desk import Desk
from botorch_binary_context.web.ending import Ending
from botorch_binary_context.web.pages import STIMULUS, Page, default_page
from botorch_binary_context.web.refusals import RefusalError
from botorch_binary_context.web.reporter import Reporter


class Lab:
    r"""Some experiments and their pages.

    Attributes:
        desks: The experiments by name; the names are the names of the files, without
            extension.
        files: A folder with stimuli and pages of the experimenter's own, or None.
        ahead: Prepares questions in advance.
        reporter: Computes recommendations and pictures.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        page: Page | None = None,
        files: str | Path | None = None,
        simulated: Callable[[Trial], Any] | None = None,
    ) -> None:
        r"""
        Args:
            paths: The journals.
            page: The page for participants; by default "duel" or "plain".
            files: A folder whose content is served to the pages.
            simulated: A simulated person who answers.
        """
        self.files = None if files is None else Path(files)
        if self.files is not None and not self.files.is_dir():
            raise InputDataError(
                f"Expected ``files`` to be a folder, but got {self.files}."
            )
        self.ahead = Ahead()
        self.reporter = Reporter()
        self._ends = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ends")
        self.desks: dict[str, Desk] = {}
        self._pages: dict[str, dict[str, Any]] = {}
        with ExitStack() as stack:
            stack.callback(self.ahead.close)
            stack.callback(self._ends.shutdown, cancel_futures=True)
            stack.callback(self.reporter.close)  # first, so that nothing waits for it
            for path in paths:
                experiment = stack.enter_context(Experiment.open(path))
                self._add(experiment, page, simulated)
            self._resources = stack.pop_all()

    def _add(
        self,
        experiment: Experiment,
        page: Page | None,
        simulated: Callable[[Trial], Any] | None,
    ) -> None:
        name = experiment.path.stem
        if name in self.desks:
            raise InputDataError(
                "Expected journals whose names differ before the ending, but got "
                f"{name!r} twice."
            )
        settings = experiment.settings
        chosen = Page(default_page(settings)) if page is None else page
        has_stimulus = self.files is not None and (self.files / STIMULUS).is_file()
        self._pages[name] = {**chosen.describe(settings), "stimulus": has_stimulus}
        ending = Ending(experiment, self.reporter, self._ends)
        self.desks[name] = Desk(name, experiment, self.ahead, ending, simulated)

    def find(self, name: str) -> Desk:
        r"""Find an experiment by its name.

        Args:
            name: Its name.

        Returns:
            The desk of the experiment.
        """
        if name not in self.desks:
            raise RefusalError(
                404, "no-such-experiment", "Expected the name of an experiment."
            )
        return self.desks[name]

    def describe(self, desk: Desk) -> dict[str, Any]:
        r"""What a page needs to know about an experiment.

        Args:
            desk: The experiment.

        Returns:
            What :meth:`.Desk.describe` returns, with the page.
        """
        return {**desk.describe(), "page": self._pages[desk.name]}

    def close(self) -> None:
        r"""Close the journals and end all computations."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
