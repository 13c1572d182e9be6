r"""Flipped bits, lost rows and rows of yesterday are noticed, or do no harm."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from botorch.exceptions import InputDataError

from botorch_binary_context.experiment import Experiment
from botorch_binary_context.experiment.checksums import (
    DamageError,
    SealedTables,
    combine,
    row_checksum,
)
from botorch_binary_context.experiment.journal import Journal
from tests.experiment.simulation import MIXED, answer, pass_fail


def everything(path: Path) -> dict[str, Any]:
    """All that can be read from a journal."""
    with closing(Journal(path)) as journal:
        return {
            "settings": journal.settings(),
            "metadata": journal.metadata(),
            "trials": journal.trials(),
            "answered": [trial.id for trial in journal.answered()],
            "history": journal.history(),
            "fits": [journal.fit(12), journal.fit(14)],
        }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with some of everything."""
    path = tmp_path_factory.mktemp("whole") / "journal"
    settings = pass_fail(MIXED, initial_trials=12, rule="random")
    with Experiment.create(path, settings, {"subject": "P07"}) as experiment:
        for _ in range(14):
            trial = experiment.ask(rater="Ada")
            experiment.tell(trial.id, answer(trial), reaction_time=0.5)
        experiment.ask()
        experiment.withdraw(experiment.ask().id)
        experiment.correct(7, "pass")
        experiment.exclude(3)
        experiment.describe(notes="größer")
    return path


class TestFlips:
    def check(self, whole: Path, copy: Path, flips: dict[int, int]) -> bool:
        """Whether a change of some bytes was noticed; if not, it must do no harm."""
        content = bytearray(whole.read_bytes())
        for place, bits in flips.items():
            content[place] ^= bits
        copy.write_bytes(content)
        try:
            found = everything(copy)
        except InputDataError:
            return True
        assert found == everything(whole)
        return False

    def test_definitions_of_tables(self, whole: Path, tmp_path: Path) -> None:
        """Also where the letters of a definition are none any more."""
        start = whole.read_bytes().index(b"CHECK (")
        noticed = [
            self.check(whole, tmp_path / "copy", {start + i: 0x80})
            for i in range(0, 60)
        ]
        assert all(noticed)

    def test_bit_flipped_anywhere_is_noticed_or_harmless(
        self, whole: Path, tmp_path: Path
    ) -> None:
        generator = random.Random(0)
        size = whole.stat().st_size
        noticed = 0
        for _ in range(200):
            place = {generator.randrange(size): 1 << generator.randrange(8)}
            noticed += self.check(whole, tmp_path / "copy", place)
        assert noticed > 50  # the other bits are in no use

    def test_flipped_outcome_is_always_noticed(
        self, whole: Path, tmp_path: Path
    ) -> None:
        """SQLite has the numbers 0 and 1 in the header of a row, as 8 and 9."""
        content = whole.read_bytes()
        places = [
            place
            for row in re.finditer(rb"answered(?=.{0,8}\{\"context)", content, re.S)
            for place in range(row.start() - 16, row.start())
            if content[place] in (8, 9)
        ]
        assert len(places) >= 2 * 14  # the outcome, and whether it is used
        for place in places:
            assert self.check(whole, tmp_path / "copy", {place: 1}), place

    def test_bit_flipped_in_the_header_is_noticed_or_harmless(
        self, whole: Path, tmp_path: Path
    ) -> None:
        """The first bytes, in which SQLite keeps what the file is."""
        for place in range(16, 100, 4):
            for bit in range(8):
                self.check(whole, tmp_path / "copy", {place: 1 << bit})

    def test_damaged_pages(self, whole: Path, tmp_path: Path) -> None:
        generator = random.Random(1)
        pages = whole.stat().st_size // 4096
        for page in range(pages):
            places = generator.sample(range(4096 * page, 4096 * (page + 1)), 400)
            self.check(whole, tmp_path / "copy", dict.fromkeys(places, 0xFF))


class TestRows:
    """Changes that SQLite itself finds in order."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ("UPDATE trials SET outcome = 1 - outcome WHERE id = 2", "'trials' does"),
            ("UPDATE trials SET shown = '{}' WHERE id = 2", "'trials' does not fit"),
            ("UPDATE events SET at = '' WHERE number = 3", "'events' does not fit"),
            ("UPDATE settings SET content = '{'", "'settings' does not fit"),
            ("DELETE FROM trials WHERE id = 16", "rows do not fit their seal"),
            ("DELETE FROM events WHERE number = 30", "rows do not fit their seal"),
            ("DELETE FROM settings", "rows do not fit their seal"),
            ("DELETE FROM seal", "its seal is missing or broken"),
            ("UPDATE seal SET digest = 'xyz'", "its seal is missing or broken"),
            ("CREATE TABLE more (id)", "tables are not those of a journal"),
        ],
    )
    def test_by_hand(
        self, whole: Path, tmp_path: Path, change: str, message: str
    ) -> None:
        copy = shutil.copy(whole, tmp_path / "copy")
        with closing(sqlite3.connect(copy, isolation_level=None)) as file:
            file.execute(change)
        with pytest.raises(InputDataError, match=f"is damaged: .*{message}"):
            Journal(copy)

    def test_a_row_of_yesterday(self, whole: Path, tmp_path: Path) -> None:
        """A former row has the right checksum, but the seal knows better."""
        copy = shutil.copy(whole, tmp_path / "copy")
        with closing(sqlite3.connect(copy)) as file:
            query = "SELECT * FROM trials WHERE id = 7"
            before = file.execute(query).fetchone()
            with closing(Journal(copy)) as journal, journal.transaction():
                journal.correct(7, 1 - before[2])
            marks = ", ".join("?" * len(before))
            with file:
                file.execute(f"REPLACE INTO trials VALUES ({marks})", before)
        with pytest.raises(InputDataError, match="rows do not fit their seal"):
            Journal(copy)

    def test_while_it_is_open(self, whole: Path, tmp_path: Path) -> None:
        copy = shutil.copy(whole, tmp_path / "copy")
        with (
            closing(Journal(copy)) as journal,
            closing(sqlite3.connect(copy)) as file,
        ):
            with file:
                file.execute("UPDATE trials SET outcome = 1 - outcome WHERE id = 2")
            with pytest.raises(InputDataError, match="'trials' does not fit its"):
                journal.trials()


class TestSealedTables:
    @pytest.fixture
    def tables(self) -> SealedTables:
        memory = sqlite3.connect(":memory:", isolation_level=None)
        memory.execute("CREATE TABLE seal (digest TEXT)")
        memory.execute("CREATE TABLE pets (id INTEGER PRIMARY KEY, name, checksum)")
        tables = SealedTables(memory.execute, {"pets": ("id", "name")})
        tables.begin()
        return tables

    def test_rows_inserted_updated_and_deleted_are_sound(
        self, tables: SealedTables
    ) -> None:
        for i, name in enumerate(["cat", "dog", "owl"]):
            tables.insert("pets", (i, name))
        tables.update("pets", (1, "dog"), (1, "größerer dog"))
        tables.delete("pets", "id = ?", (0,))
        tables.verify()
        assert tables.select("pets") == [(1, "größerer dog"), (2, "owl")]
        assert tables.select("pets", "id > ?", (1,)) == [(2, "owl")]

    def test_seal_is_that_of_the_rows(self, tables: SealedTables) -> None:
        tables.insert("pets", (1, "cat"))
        tables.insert("pets", (2, "dog"))
        checksums = [row_checksum("pets", row) for row in ((1, "cat"), (2, "dog"))]
        assert tables._read_seal() == combine(*checksums)
        tables.delete("pets", "TRUE", ())
        assert int(tables._read_seal(), 16) == 0

    def test_wrong_rows(self, tables: SealedTables) -> None:
        tables.insert("pets", (1, "cat"))
        tables._execute("UPDATE pets SET name = 'dog'")
        with pytest.raises(DamageError, match="table 'pets' does not fit"):
            tables.select("pets")

    def test_checksums_tell_values_apart(self) -> None:
        rows: list[tuple[Any, ...]] = [
            (1, "2"),
            ("1", 2),
            (1.0, "2"),
            (None, "2"),
            (1, "2", None),
            (1, b"2"),
        ]
        checksums = {row_checksum(table, row) for table in "ab" for row in rows}
        assert len(checksums) == 2 * len(rows)
