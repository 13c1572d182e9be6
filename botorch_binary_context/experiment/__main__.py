r"""The command line as a module: ``python -m botorch_binary_context.experiment``."""

from botorch_binary_context.experiment.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
