import math
import os
import random
import warnings
from pathlib import Path
from unittest import mock

import polars as pl
import pytest
from botorch.exceptions import BotorchWarning, InputDataError

from benchmarks.studies import store
from benchmarks.studies.definitions import STUDIES
from benchmarks.studies.experiment import SCHEMA
from botorch_binary_context.problems import BENCHMARKS
from tests.benchmarks.studies.small_studies import fake_results, make_task


class TestStore:
    @pytest.fixture(autouse=True)
    def one_result(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "binary"
        self.task = make_task()
        self.path = store.result_path(self.folder, "Levy", "ucb-ald")
        self.frame = fake_results(self.task)

    def test_paths_differ(self) -> None:
        paths = {store.result_path(self.folder, name, "cbkg") for name in BENCHMARKS}
        assert len(paths) == 34
        assert all(path.name.isascii() for path in paths)

    def test_save_and_load(self) -> None:
        assert store.load(self.folder).is_empty()
        store.save(self.frame, self.path)
        assert store.load(self.folder).equals(self.frame)
        assert [p.name for p in self.folder.iterdir()] == [self.path.name]
        assert self.path.stat().st_mode & 0o777 == 0o644

    def test_a_table_that_is_required(self) -> None:
        message = "Expected ``output`` to hold results of the study 'binary', but "
        with pytest.raises(InputDataError, match=message):
            store.require_table(self.path)
        store.save(self.frame, self.path)
        assert store.require_table(self.path).equals(self.frame)

    def test_failed_save_leaves_the_old_file(self) -> None:
        store.save(self.frame, self.path)
        for function in ("os.replace", "os.fsync"):
            full = OSError("no space")
            with (
                mock.patch(function, side_effect=full),
                pytest.raises(OSError, match="no space"),
            ):
                store.save(self.frame.head(1), self.path)
        assert store.load(self.folder).equals(self.frame)
        assert len(list(self.folder.iterdir())) == 1

    def test_partial_file_of_a_killed_run_is_not_seen(self) -> None:
        def die(*_: object) -> None:
            raise SystemExit

        with (
            mock.patch("os.replace", die),
            mock.patch.object(Path, "unlink"),
            pytest.raises(SystemExit),
        ):
            store.save(self.frame, self.path)
        assert len(list(self.folder.iterdir())) == 1  # the temporary file
        assert not store.is_finished(self.folder, self.task)
        assert store.load(self.folder).is_empty()

    def test_broken_files_are_ignored(self) -> None:
        store.save(self.frame, self.path)
        whole = self.path.read_bytes()
        other = pl.DataFrame({"a": [1]})
        other.write_parquet(self.folder / "other.parquet")
        with pytest.warns(BotorchWarning, match="other columns"):
            assert store.load(self.folder).equals(self.frame)
        os.remove(self.folder / "other.parquet")
        for content in (whole[: len(whole) // 2], b"", b"PAR1"):
            self.path.write_bytes(content)
            with pytest.warns(BotorchWarning, match="Ignoring"):
                assert store.load(self.folder).schema == SCHEMA
            with pytest.warns(BotorchWarning, match="Ignoring"):
                assert not store.is_finished(self.folder, self.task)

    def test_flipped_bits(self) -> None:
        """Noticed or harmless: never other results, nor another error."""
        store.save(self.frame, self.path)
        whole = self.path.read_bytes()
        generator = random.Random(0)
        noticed = 0
        for _ in range(300):
            content = bytearray(whole)
            content[generator.randrange(len(whole))] ^= 1 << generator.randrange(8)
            self.path.write_bytes(content)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BotorchWarning)
                frame = store.read(self.path)
            noticed += frame is None
            assert frame is None or frame.equals(self.frame)
        assert noticed > 100

    def test_results_of_something_else(self) -> None:
        first = pl.col("seed").eq(0) & pl.col("iteration").eq(1)
        nothing = pl.lit(None, pl.Float32)
        infinite = pl.lit(math.inf, pl.Float32)
        for frame, message in (
            (fake_results(make_task(rule="bald")), "results of bald on Levy in the"),
            (
                fake_results(make_task(function="Ackley")),
                "results of ucb-ald on Ackley",
            ),
            (fake_results(make_task(study="duels")), "in the study duels"),
            (self.frame.with_columns(rule=pl.lit(None, pl.String)), "than one task"),
            (pl.concat([self.frame, self.frame]), "are missing or there twice"),
            (self.frame.tail(-1), "some seeds or iterations are missing"),
            (self.frame.filter(pl.col("iteration") > 1), "iterations are missing"),
            (self.frame.with_columns(score=infinite), "numbers that are not finite"),
            (
                self.frame.with_columns(
                    score=pl.when(first).then(nothing).otherwise("score")
                ),
                "numbers that are not finite",
            ),
        ):
            store.save(frame, self.path)
            with pytest.warns(BotorchWarning, match=f"Ignoring .*: .*{message}"):
                assert not store.is_finished(self.folder, self.task)

    def test_without_a_checksum(self) -> None:
        """Results of former releases are read, and held to all the rest."""
        self.path.parent.mkdir()
        self.frame.write_parquet(self.path)
        assert store.is_finished(self.folder, self.task)
        self.frame.tail(-1).write_parquet(self.path)
        with pytest.warns(BotorchWarning, match="iterations are missing"):
            assert not store.is_finished(self.folder, self.task)

    def test_stored_results_are_sound(self) -> None:
        """One file of every study of the repository."""
        for folder in sorted(store.RESULTS.iterdir()):
            for path in sorted(folder.glob("*.parquet"))[:1]:
                if path.name == store.PACKED:
                    assert store.read_table(path) is not None
                elif folder.name in STUDIES:
                    assert store.read(path, folder.name) is not None

    def test_packed_results_load_as_before_and_are_finished(self) -> None:
        with pytest.raises(InputDataError, match="to hold results"):
            store.pack(self.folder)
        other = make_task(rule="bald")
        store.save(self.frame, self.path)
        store.save(fake_results(other), store.result_path(self.folder, "Levy", "bald"))
        before = store.load(self.folder)
        path = store.pack(self.folder)
        assert [p.name for p in self.folder.iterdir()] == [path.name]
        assert store.load(self.folder).equals(before)
        assert store.is_finished(self.folder, other)
        assert not store.is_finished(self.folder, make_task(rule="random"))
        with pytest.raises(InputDataError, match="``output``.*results.parquet"):
            store.is_finished(self.folder, make_task(rule="bald", seeds=4))

    def test_new_results_replace_packed_ones(self) -> None:
        store.save(self.frame, self.path)
        store.pack(self.folder)
        newer = fake_results(self.task, score=1.0)
        store.save(newer, self.path)
        assert store.load(self.folder).equals(newer)
        store.pack(self.folder)
        assert store.load(self.folder).equals(newer)

    def test_is_finished(self) -> None:
        assert not store.is_finished(self.folder, self.task)
        store.save(self.frame, self.path)
        assert store.is_finished(self.folder, self.task)
        with pytest.raises(InputDataError, match="``output``.*3 and 3"):
            store.is_finished(self.folder, make_task(seeds=4))

    def test_runs_are_logged_only_where_there_are_results(self) -> None:
        store.log_run(self.folder, 3, "2")
        assert store.load_runs(self.folder) == []
        store.save(self.frame, self.path)
        store.log_run(self.folder, 3, "2")
        store.log_run(self.folder, 4, "tcp://there")
        assert [x["seconds"] for x in store.load_runs(self.folder)] == [3, 4]
