r"""Studies: what they compute, their runners and their reports."""
