"""Who may call what: roles, given to client certificates and to tokens by an access file.

A Unix-domain socket is for operators: whoever may open its folder is one. Over TCP a client is
known by its certificate (mutual TLS) or by a bearer token, of which the file holds the SHA-256.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import grpc

from controller.daemon.limits import Places, in_place
from controller.inventory import MAX_BYTES
from host_stack.errors import BadInput

SCHEMA = 1
STREAMS = 16
"""Of a client that is no operator; so many more for each of its jobs as a server needs."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BEARER = "Bearer "

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class Role(IntEnum):
    """What a client may do; each may do what those before it may."""

    NOBODY = 0
    READER = 1
    """Look at everything."""
    JOB = 2
    """The server of a job: its epochs, requests for another one, reports."""
    OPERATOR = 3
    """All."""


_READ = {
    "/libra.control.v1.ControlService/DescribeJob",
    "/libra.control.v1.ControlService/ListJobs",
    "/libra.control.v1.ControlService/ListSwitches",
    "/libra.control.v1.ControlService/ReadStats",
    "/libra.control.v1.ControlService/WatchEvents",
    "/libra.job.v1.JobService/Status",
}
_JOB = {
    f"/libra.job.v1.JobService/{name}"
    for name in ("Watch", "Renew", "Suspect", "Report", "FollowReads", "TellRows")
}
_OPEN = ("/grpc.health.v1.Health/", "/grpc.reflection.")


def needed(method: str) -> Role:
    """The least role that may call a method; what is not known is for operators."""
    if method.startswith(_OPEN):
        return Role.NOBODY
    if method in _READ:
        return Role.READER
    return Role.JOB if method in _JOB else Role.OPERATOR


@dataclass(frozen=True)
class Client:
    """A client of the access file.

    Attributes:
        name: for messages.
        role: what it may do.
        jobs: of role job, the only ones that it may speak for.
        certificate: common name of its certificate; empty for none.
        token_sha256: of its token, in hex; empty for none.
    """

    name: str
    role: Role
    jobs: tuple[int, ...] = ()
    certificate: str = ""
    token_sha256: str = ""

    @property
    def max_streams(self) -> int:
        """How many streams it may have open: a job's server has two, and for a while four."""
        return STREAMS + 4 * len(self.jobs)

    def __post_init__(self) -> None:
        if bool(self.certificate) is bool(self.token_sha256):
            raise BadInput(f"client {self.name!r}: give either certificate or token_sha256")
        if self.token_sha256 and not _SHA256.fullmatch(self.token_sha256):
            raise BadInput(f"client {self.name!r}: token_sha256 is 64 hex digits, in lower case")
        if self.role is Role.JOB and not self.jobs:
            raise BadInput(f"client {self.name!r}: a client of role job names its jobs")


STRANGER = Client("a stranger", Role.NOBODY, certificate="-")
LOCAL = Client("a local client", Role.OPERATOR, certificate="-")


class Access:
    """The clients that a controller knows; without any, everybody who reaches it is an operator."""

    def __init__(self, clients: tuple[Client, ...] = ()) -> None:
        """Of an access file, or of none."""
        self._by_certificate = {each.certificate: each for each in clients if each.certificate}
        self._by_token = [each for each in clients if each.token_sha256]
        self._is_open = not clients
        self.refused = 0

    @classmethod
    def load(cls, path: Path) -> Access:
        """Read an access file; `BadInput` says what is wrong with it."""
        try:
            with path.open("rb") as file:
                found = tomllib.loads(file.read(MAX_BYTES).decode())
            if set(found) - {"schema", "client"} or found.get("schema") != SCHEMA:
                raise BadInput(f"it holds schema = {SCHEMA} and tables [[client]]")
            clients = tuple(_client(fields) for fields in found.get("client", []))
            if not clients:
                raise BadInput("it names no client")
        except (OSError, ValueError, TypeError, AttributeError, RecursionError, BadInput) as error:
            raise BadInput(f"{path} is not an access file: {error}") from error
        return cls(clients)

    def client_of(self, context: Any) -> Client:
        """Who makes a call."""
        if self._is_open or context.peer().startswith("unix:"):
            return LOCAL
        names = context.auth_context().get("x509_common_name", [])
        for name in names:
            if (client := self._by_certificate.get(name.decode(errors="replace"))) is not None:
                return client
        metadata = dict(context.invocation_metadata() or ())
        given = str(metadata.get("authorization", ""))
        if not given.startswith(_BEARER):
            return STRANGER
        digest = hashlib.sha256(given.removeprefix(_BEARER).encode()).hexdigest()
        found = STRANGER
        for client in self._by_token:  # all of them, so that time tells nothing
            if hmac.compare_digest(client.token_sha256, digest):
                found = client
        return found


def _client(fields: Mapping[str, Any]) -> Client:
    roles = {role.name.lower(): role for role in Role if role is not Role.NOBODY}
    values = dict(fields)
    if (role := values.pop("role", None)) not in roles:
        raise BadInput(f"role {role!r}: allowed are {', '.join(roles)}")
    jobs = values.pop("jobs", [])
    if not isinstance(jobs, list) or any(type(job) is not int for job in jobs):
        raise BadInput(f"jobs {jobs!r}: a list of numbers is needed")
    if any(not isinstance(value, str) for value in values.values()):
        raise BadInput(f"client {values.get('name')!r}: its other fields are texts")
    return Client(role=roles[str(role)], jobs=tuple(jobs), **values)


class Guard(grpc.aio.ServerInterceptor):
    """Lets calls through whose client may make them.

    Others end with UNAUTHENTICATED (nobody known) or PERMISSION_DENIED (another role is needed).
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._places: dict[Client, Places] = {}

    async def intercept_service(
        self, continuation: Continuation, details: grpc.HandlerCallDetails
    ) -> Any:
        """Put the check in front of the handler of a call."""
        handler = await continuation(details)
        least = needed(details.method)
        if handler is None or least is Role.NOBODY:
            return handler
        if handler.unary_unary is not None:
            return self._guarded_call(handler, least)
        if handler.unary_stream is not None:
            return self._guarded_stream(handler, least)
        return None

    def _guarded_call(self, handler: Any, least: Role) -> Any:
        async def call(request: Any, context: Any) -> Any:
            await self._check(request, context, least)
            return await handler.unary_unary(request, context)

        return grpc.unary_unary_rpc_method_handler(
            call, handler.request_deserializer, handler.response_serializer
        )

    def _guarded_stream(self, handler: Any, least: Role) -> Any:
        async def stream(request: Any, context: Any) -> Any:
            client = await self._check(request, context, least)
            async for message in in_place(self._place(client), handler, request, context):
                yield message

        return grpc.unary_stream_rpc_method_handler(
            stream, handler.request_deserializer, handler.response_serializer
        )

    def _place(self, client: Client) -> AbstractContextManager[None]:
        """For a stream of a client, so that none takes those of all others."""
        if client.role is Role.OPERATOR:
            return nullcontext()
        places = Places(client.max_streams, f"streams of {client.name}")
        return self._places.setdefault(client, places).place()

    async def _check(self, request: Any, context: Any, least: Role) -> Client:
        client = self._access.client_of(context)
        if client.role is Role.NOBODY:
            self._access.refused += 1
            await context.abort(
                grpc.StatusCode.UNAUTHENTICATED,
                "this controller knows clients by their certificate or token; yours is not known",
            )
        if client.role < least:
            self._access.refused += 1
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"{client.name} has role {client.role.name.lower()}; this call needs "
                f"{least.name.lower()}",
            )
        if client.role is Role.JOB and least is Role.JOB and request.job not in client.jobs:
            self._access.refused += 1
            await context.abort(
                grpc.StatusCode.PERMISSION_DENIED, f"{client.name} is not of job {request.job}"
            )
        return client
