r"""
What a request is refused with: a status, a short code for programs, a message.
"""

from __future__ import annotations

from typing import Any


class RefusalError(Exception):
    r"""A request that is not carried out."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        r"""
        Args:
            status: The status of HTTP.
            code: A word that programs can compare.
            message: What was expected, and what was given.
            more: Further fields of the answer, for example the trial as it is.
        """
        super().__init__(message)
        self.status = status
        self.code = code
        self.more = more

    def to_dict(self) -> dict[str, Any]:
        r"""The refusal as plain data.

        Returns:
            What is sent as JSON.
        """
        return {"error": {"code": self.code, "message": str(self)}, **self.more}
