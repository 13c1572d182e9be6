r"""
Names that a package loads when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def load_exported(package: str, name: str) -> Any:
    r"""An attribute of a package whose module ``exports`` imports what it exports.

    To be called by the package's ``__getattr__``. The result becomes an attribute of
    the package, so this is called once per name.

    Args:
        package: The name of the package.
        name: A name of ``__all__``, ``__all__`` itself, or a module of the package that
            ``exports`` imports.
    """
    attributes = vars(sys.modules[package])
    if name == "__all__" or not name.startswith("__"):
        exports = import_module(f"{package}.exports")
        if name in attributes:  # a module of the package, imported just now
            return attributes[name]
        if name in ("__all__", *exports.__all__):
            return attributes.setdefault(name, getattr(exports, name))
    raise AttributeError(f"module {package!r} has no attribute {name!r}")
