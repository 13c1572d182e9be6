r"""What makes batches of models fast: covariances, batching, searches, iterations."""

__all__: list[str] = []
