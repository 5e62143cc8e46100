"""The APIs of a controller, served: over a Unix-domain socket, over TCP, or both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from controller.daemon.access import Access, Guard
from controller.daemon.control_service import ControlService
from controller.daemon.controller import MAX_JOBS, Controller
from controller.daemon.deadlines import Deadlines
from controller.daemon.job_service import JobService
from controller.daemon.limits import Limits
from controller.jobapi import control_pb2, control_pb2_grpc, job_pb2, job_pb2_grpc
from host_stack.errors import BadInput
from host_stack.incarnation import MAX_PLACEMENT_BYTES

MAX_MESSAGE_BYTES = MAX_PLACEMENT_BYTES + (1 << 16)
MAX_CALLS = 256
"""Calls at once; further ones are refused with RESOURCE_EXHAUSTED, and so are further streams."""
MAX_STREAMS = 2 * MAX_JOBS + 256
"""Two for the server of each job, and those of whoever watches events."""
MAX_ANY = MAX_CALLS + MAX_STREAMS + 256
"""With those that are about to be refused, and of reflection."""
MAX_SOCKET_BYTES = 107
"""Of the path of a Unix-domain socket (sockaddr_un)."""

SERVICES = (
    job_pb2.DESCRIPTOR.services_by_name["JobService"].full_name,
    control_pb2.DESCRIPTOR.services_by_name["ControlService"].full_name,
)


@dataclass(frozen=True)
class Endpoint:
    """Where a controller listens.

    Attributes:
        address: `unix:PATH` or HOST:PORT.
        credentials: of TLS; None only where no other machine can reach it.
    """

    address: str
    credentials: grpc.ServerCredentials | None = None

    def __post_init__(self) -> None:
        path = self.address.removeprefix("unix:")
        if path != self.address and len(path.encode()) > MAX_SOCKET_BYTES:
            raise BadInput(f"socket {path}: a path of at most {MAX_SOCKET_BYTES} bytes is needed")


async def serve(
    controller: Controller,
    endpoints: Sequence[Endpoint],
    access: Access | None = None,
    on_port: Callable[[int], None] = lambda port: None,
) -> grpc.aio.Server:
    """Serve all APIs, health and reflection, to those whom `access` knows (without it, to all).

    `on_port` is told the TCP port of each endpoint, which its address may leave open as 0.

    Raises `BadInput` if an address cannot be bound.
    """
    server = grpc.aio.server(
        interceptors=[Guard(access or Access()), Limits(MAX_CALLS, MAX_STREAMS), Deadlines()],
        options=[
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.so_reuseport", 0),
        ],
        maximum_concurrent_rpcs=MAX_ANY,
    )
    job_pb2_grpc.add_JobServiceServicer_to_server(JobService(controller), server)
    control_pb2_grpc.add_ControlServiceServicer_to_server(ControlService(controller), server)
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    for name in ("", *SERVICES):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    names = (*SERVICES, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    for endpoint in endpoints:
        on_port(_bind(server, endpoint))
    await server.start()
    return server


def _bind(server: grpc.aio.Server, endpoint: Endpoint) -> int:
    try:
        if endpoint.credentials is None:
            return int(server.add_insecure_port(endpoint.address))
        return int(server.add_secure_port(endpoint.address, endpoint.credentials))
    except RuntimeError as error:
        raise BadInput(
            f"cannot listen at {endpoint.address}: {error}; is another controller running?"
        ) from error
