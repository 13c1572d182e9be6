r"""Benchmarks: what the package is measured on, and the commands that measure it."""
