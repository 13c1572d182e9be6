r"""
Reading the JSON body of a request, of bounded size and depth.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from starlette.requests import ClientDisconnect, Request

from botorch_binary_context.web.refusals import RefusalError

#: The largest body, in bytes.
MAX_BYTES = 2**16


async def read_body(
    request: Request, required: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, Any]:
    r"""The fields of a JSON object.

    Args:
        request: The request.
        required: The fields that must be there.
        optional: The fields that may be there.

    Returns:
        The fields; those that are null are left out.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RefusalError(
            415, "not-json", "Expected the content type to be application/json."
        )
    content = _parse(await _read(request))
    fields = {name: value for name, value in content.items() if value is not None}
    missing = [name for name in required if name not in fields]
    unknown = [name for name in content if name not in (*required, *optional)]
    if missing or unknown:
        allowed = f"{', '.join(required)} and perhaps {', '.join(optional)}"
        raise RefusalError(
            422,
            "invalid",
            f"Expected the fields {allowed if optional else ', '.join(required)}, but "
            f"got {', '.join(content)[:200] or 'none'}.",
        )
    return fields


async def _read(request: Request) -> bytes:
    length = request.headers.get("content-length", "0")
    if not length.isascii() or not length.isdecimal() or int(length[:9]) > MAX_BYTES:
        _refuse_size()
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BYTES:
                _refuse_size()
    except ClientDisconnect:
        raise RefusalError(400, "cut-off", "Expected a whole body.") from None
    return bytes(body)


def _refuse_size() -> NoReturn:
    raise RefusalError(
        413, "too-large", f"Expected a body of at most {MAX_BYTES} bytes."
    )


def _parse(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body, parse_constant=_refuse_constant)
        # Half a character cannot be stored, and infinity is not JSON.
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise RefusalError(
            400, "not-json", "Expected the body to be valid JSON."
        ) from None
    if not isinstance(content, dict):
        raise RefusalError(400, "not-json", "Expected the body to be a JSON object.")
    return content


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
