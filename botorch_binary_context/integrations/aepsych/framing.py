r"""
Messages in a stream of bytes.

AEPsych sends one JSON object after another with nothing in between, and relies on each
arriving in one piece. Here an object ends where its braces do.
"""

from __future__ import annotations

#: The largest message, in bytes.
MAX_SIZE = 2**20
_SPACE = b" \t\r\n"


class FramingError(ValueError):
    r"""The stream is not one of JSON objects; nothing after that can be understood."""


class MessageReader:
    r"""Splits a stream of bytes into JSON objects, however it is chunked."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> list[bytes]:
        r"""Take a piece of the stream.

        Args:
            data: The piece.

        Returns:
            The objects that end in it, as bytes that need not be valid JSON.
        """
        self._buffer += data
        found = []
        while (end := self._find_end()) is not None:
            found.append(bytes(self._buffer[:end]).strip(_SPACE))
            del self._buffer[:end]
            self._position = 0
        if len(self._buffer) > MAX_SIZE:
            raise FramingError(f"Expected a message of at most {MAX_SIZE} bytes.")
        return found

    def _find_end(self) -> int | None:
        """The position after the object at the beginning, if it is complete."""
        while self._position < len(self._buffer):
            byte = self._buffer[self._position : self._position + 1]
            self._position += 1
            if self._in_string:
                self._step_in_string(byte)
            elif byte == b'"' and self._depth:
                self._in_string = True
            elif byte == b"{":
                self._depth += 1
            elif byte == b"}" and self._depth:
                self._depth -= 1
                if not self._depth:
                    return self._position
            elif not self._depth and byte not in _SPACE:
                raise FramingError("Expected a message to begin with a brace.")
        return None

    def _step_in_string(self, byte: bytearray) -> None:
        if self._escaped:
            self._escaped = False
        elif byte == b"\\":
            self._escaped = True
        elif byte == b'"':
            self._in_string = False
