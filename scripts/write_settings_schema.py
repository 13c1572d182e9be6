"""Write the JSON schema of settings: ``python -m scripts.write_settings_schema``."""

from __future__ import annotations

from botorch_binary_context.experiment.json_schema import (
    PATH,
    settings_schema,
    to_text,
)

if __name__ == "__main__":
    PATH.write_text(to_text(settings_schema()), encoding="utf-8")
