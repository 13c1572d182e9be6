r"""
Refusals of requests, with a status, a short code for programs and a message.
"""

from __future__ import annotations

from typing import Any


class RefusalError(Exception):
    r"""A request that is not carried out."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        r"""
        Args:
            status: The HTTP status.
            code: A word that programs can compare.
            message: What was expected, and what was given.
            more: Further fields of the response, for example the present state of the
                trial.
        """
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more

    def to_dict(self) -> dict[str, Any]:
        r"""The refusal as plain data.

        Returns:
            The fields to send as JSON.
        """
        return {"error": {"code": self.code, "message": str(self)}, **self.more}
