r"""How fast models and suggestions are, compared with peers."""
