r"""Tools that make batches of models fast: covariances, batching, searches."""

__all__: list[str] = []
