r"""
The web application: its routes, and the errors that they answer with.
"""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from botorch.exceptions.errors import BotorchError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from botorch_binary_context.experiment.csv_files import write_csv
from botorch_binary_context.web.body import read_body
from botorch_binary_context.web.desk import Desk
from botorch_binary_context.web.guard import Access, Guard, Role
from botorch_binary_context.web.lab import Lab
from botorch_binary_context.web.pages import STATIC
from botorch_binary_context.web.refusals import RefusalError

# An answer must never wait for a thread that computes: each kind of work has its own.
MAX_THREADS = {"quick": 16, "asking": 8, "reports": 4}

Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]


def make_app(lab: Lab, access: Access) -> Starlette:
    r"""The web application.

    Args:
        lab: The experiments.
        access: Who may use it.

    Example:
        >>> access = Access(hosts=["lab.example.org"])
        >>> with Lab(["patient-7.journal"]) as lab:
        ...     app = make_app(lab, access)  # for a server of your own
        ...     path = f"/{access.tokens[Role.PARTICIPANT]}/"
    """
    middleware = [Middleware(Guard, access=access)]
    if access.origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["content-type"],
        )
        middleware.append(cors)
    errors: dict[Any, Any] = {
        RefusalError: _refuse,
        HTTPException: _refuse_route,
        BotorchError: _refuse_value,
        OSError: _refuse_journal,
        Exception: _confess,
    }
    routes = _Api(lab, access.tokens).routes() + _page_routes(lab)
    return Starlette(
        routes=[Mount("/{token}", routes=routes)],
        middleware=middleware,
        exception_handlers=errors,
    )


class _Api:
    """The JSON interface."""

    def __init__(self, lab: Lab, tokens: Mapping[Role, str]) -> None:
        self._lab = lab
        self._tokens = tokens
        self._limiters = {
            kind: CapacityLimiter(number) for kind, number in MAX_THREADS.items()
        }

    def routes(self) -> list[BaseRoute]:
        """All routes of the interface."""
        one = "/api/experiments/{name}"
        return [
            Route("/api/experiments", self.list),
            Route(one, self.describe),
            Route(f"{one}/status", self.status),
            Route(f"{one}/ask", self.ask, methods=["POST"]),
            Route(f"{one}/limit", self.limit, methods=["POST"]),
            Route(f"{one}/tell", self.tell, methods=["POST"]),
            Route(f"{one}/withdraw", self.withdraw, methods=["POST"]),
            Route(f"{one}/undo", self.undo, methods=["POST"]),
            Route(f"{one}/stop", for_experimenter(self.stop), methods=["POST"]),
            Route(f"{one}/resume", for_experimenter(self.resume), methods=["POST"]),
            Route(f"{one}/recommend", for_experimenter(self.recommend)),
            Route(f"{one}/plot", for_experimenter(self.plot)),
            Route(f"{one}/export", for_experimenter(self.export)),
        ]

    def _desk(self, request: Request) -> Desk:
        return self._lab.find(request.path_params["name"])

    async def _run(self, job: Callable[..., Result], *args: Any, kind: str) -> Result:
        return await anyio.to_thread.run_sync(
            partial(job, *args), limiter=self._limiters[kind]
        )

    async def list(self, request: Request) -> Response:
        role: Role = request.scope["role"]
        found: dict[str, Any] = {"experiments": [*self._lab.desks], "role": role.value}
        if role is Role.EXPERIMENTER:
            found["participant"] = f"/{self._tokens[Role.PARTICIPANT]}/"
        return JSONResponse(found)

    async def describe(self, request: Request) -> Response:
        desk = self._desk(request)
        return JSONResponse(await self._run(self._lab.describe, desk, kind="quick"))

    async def status(self, request: Request) -> Response:
        desk = self._desk(request)
        client = request.query_params.get("client")
        return JSONResponse(await self._run(desk.status, client, kind="quick"))

    async def ask(self, request: Request) -> Response:
        desk = self._desk(request)
        body = await read_body(request, ["client"])
        answer = await self._run(desk.ask, body["client"], kind="asking")
        return JSONResponse(answer)

    async def limit(self, request: Request) -> Response:
        desk = self._desk(request)
        body = await read_body(request, ["client", "limits"])
        answer = await self._run(
            desk.limit, body["client"], body["limits"], kind="quick"
        )
        return JSONResponse(answer)

    async def tell(self, request: Request) -> Response:
        desk = self._desk(request)
        details = ["infeasible", "shown", "reaction_time", "extra"]
        body = await read_body(request, ["client", "id", "outcome"], details)
        given = {name: body[name] for name in details if name in body}
        answer = await self._run(
            desk.tell, body["client"], body["id"], body["outcome"], given, kind="quick"
        )
        return JSONResponse(answer)

    async def withdraw(self, request: Request) -> Response:
        desk = self._desk(request)
        body = await read_body(request, ["client", "id"])
        answer = await self._run(
            desk.withdraw, body["client"], body["id"], kind="quick"
        )
        return JSONResponse(answer)

    async def undo(self, request: Request) -> Response:
        desk = self._desk(request)
        body = await read_body(request, ["client"])
        return JSONResponse(await self._run(desk.undo, body["client"], kind="quick"))

    async def stop(self, request: Request) -> Response:
        desk = self._desk(request)
        await read_body(request, [])
        return JSONResponse(await self._run(desk.stop, kind="quick"))

    async def resume(self, request: Request) -> Response:
        desk = self._desk(request)
        await read_body(request, [])
        return JSONResponse(await self._run(desk.resume, kind="quick"))

    async def recommend(self, request: Request) -> Response:
        path = self._desk(request).experiment.path
        return JSONResponse(
            await self._run(self._lab.reporter.recommend, path, kind="reports")
        )

    async def plot(self, request: Request) -> Response:
        path = self._desk(request).experiment.path
        svg = await self._run(self._lab.reporter.plot, path, kind="reports")
        return Response(svg, media_type="image/svg+xml")

    async def export(self, request: Request) -> Response:
        desk = self._desk(request)
        text = await self._run(_export, desk, kind="quick")
        headers = {"Content-Disposition": "attachment; filename=trials.csv"}
        return Response(text, media_type="text/csv", headers=headers)


def _export(desk: Desk) -> str:
    file = io.StringIO(newline="")
    experiment = desk.experiment
    blank = experiment.blank_trial()
    write_csv(experiment.feedback, blank, experiment.trials, file)
    return file.getvalue()


def for_experimenter(handler: Handler) -> Handler:
    r"""Let only the experimenter use a route.

    Args:
        handler: The function that answers requests.

    Returns:
        A function that answers requests of the experimenter and refuses others.
    """

    async def guarded(request: Request) -> Response:
        if request.scope["role"] is not Role.EXPERIMENTER:
            raise RefusalError(
                403, "not-allowed", "Expected the address of the experimenter."
            )
        return await handler(request)

    return guarded


def _page_routes(lab: Lab) -> list[BaseRoute]:
    routes: list[BaseRoute] = [
        Route("/", _show_page),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    if lab.files is not None:
        routes.append(Mount("/files", StaticFiles(directory=lab.files)))
    return routes


async def _show_page(request: Request) -> Response:
    """Each role has its page."""
    role: Role = request.scope["role"]
    return FileResponse(STATIC / f"{role.value}.html")


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)
    return JSONResponse(error.to_dict(), error.status)


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 405: "wrong-method"}
    code = codes.get(error.status_code, "refused")
    refusal = RefusalError(error.status_code, code, f"{error.detail}.")
    return JSONResponse(refusal.to_dict(), refusal.status, headers=error.headers)


async def _refuse_value(request: Request, error: Exception) -> Response:
    return JSONResponse(RefusalError(422, "invalid", str(error)).to_dict(), 422)


async def _refuse_journal(request: Request, error: Exception) -> Response:
    """The details, with the names of folders, are not for clients."""
    message = "Expected a journal that can be written, but got an error of the system."
    return JSONResponse(RefusalError(503, "journal", message).to_dict(), 503)


async def _confess(request: Request, error: Exception) -> Response:
    message = "The server has made a mistake; its window says more."
    return JSONResponse(RefusalError(500, "mistake", message).to_dict(), 500)
