r"""Settings to begin with: commented TOML files."""

__all__ = ["EXAMPLES", "read_example"]

#: The names of the examples.
EXAMPLES = ("eye", "duel", "contest", "threshold", "map")


def read_example(name: str) -> str:
    r"""The text of an example.

    Args:
        name: One of :data:`EXAMPLES`.

    Returns:
        The content of a TOML file.
    """
    from importlib.resources import files

    return files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
