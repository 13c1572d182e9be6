import os
import tempfile
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from botorch.exceptions import BotorchWarning, InputDataError

from benchmarks import store
from benchmarks.experiment import SCHEMA
from botorch_binary_context.problems import BENCHMARKS
from tests.benchmarks.studies import fake_results, make_task
from tests.helpers import StrictTestCase


class TestStore(StrictTestCase):
    def setUp(self) -> None:
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = Path(directory.name) / "binary"
        self.task = make_task()
        self.path = store.result_path(self.folder, "Levy", "ucb-ald")
        self.frame = fake_results(self.task)

    def test_paths_differ(self) -> None:
        paths = {store.result_path(self.folder, name, "cbkg") for name in BENCHMARKS}
        self.assertEqual(len(paths), 34)
        self.assertTrue(all(path.name.isascii() for path in paths))

    def test_save_and_load(self) -> None:
        self.assertTrue(store.load(self.folder).is_empty())
        store.save(self.frame, self.path)
        self.assertTrue(store.load(self.folder).equals(self.frame))
        self.assertEqual([p.name for p in self.folder.iterdir()], [self.path.name])
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o644)

    def test_failed_save_leaves_the_old_file(self) -> None:
        store.save(self.frame, self.path)
        for function in ("os.replace", "os.fsync"):
            full = OSError("no space")
            with (
                mock.patch(function, side_effect=full),
                pytest.raises(OSError, match="no space"),
            ):
                store.save(self.frame.head(1), self.path)
        self.assertTrue(store.load(self.folder).equals(self.frame))
        self.assertEqual(len(list(self.folder.iterdir())), 1)

    def test_partial_file_of_a_killed_run_is_not_seen(self) -> None:
        def die(*_: object) -> None:
            raise SystemExit

        with mock.patch("os.replace", die), mock.patch.object(Path, "unlink"):
            self.assertRaises(SystemExit, store.save, self.frame, self.path)
        self.assertEqual(len(list(self.folder.iterdir())), 1)  # the temporary file
        self.assertFalse(store.is_finished(self.folder, self.task))
        self.assertTrue(store.load(self.folder).is_empty())

    def test_broken_files_are_ignored(self) -> None:
        store.save(self.frame, self.path)
        whole = self.path.read_bytes()
        other = pl.DataFrame({"a": [1]})
        other.write_parquet(self.folder / "other.parquet")
        with self.assertWarnsRegex(BotorchWarning, "other columns"):
            self.assertTrue(store.load(self.folder).equals(self.frame))
        os.remove(self.folder / "other.parquet")
        for content in (whole[: len(whole) // 2], b"", b"PAR1"):
            self.path.write_bytes(content)
            with self.assertWarnsRegex(BotorchWarning, "Ignoring"):
                self.assertEqual(store.load(self.folder).schema, SCHEMA)
            with self.assertWarnsRegex(BotorchWarning, "Ignoring"):
                self.assertFalse(store.is_finished(self.folder, self.task))

    def test_is_finished(self) -> None:
        self.assertFalse(store.is_finished(self.folder, self.task))
        store.save(self.frame, self.path)
        self.assertTrue(store.is_finished(self.folder, self.task))
        with self.assertRaisesRegex(InputDataError, "``output``.*3 and 3"):
            store.is_finished(self.folder, make_task(seeds=4))

    def test_runs(self) -> None:
        store.log_run(self.folder, 3, "2")
        self.assertEqual(store.load_runs(self.folder), [])
        store.save(self.frame, self.path)
        store.log_run(self.folder, 3, "2")
        store.log_run(self.folder, 4, "tcp://there")
        self.assertEqual([x["seconds"] for x in store.load_runs(self.folder)], [3, 4])
