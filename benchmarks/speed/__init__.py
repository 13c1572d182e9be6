r"""How fast models and suggestions are, beside peers."""
