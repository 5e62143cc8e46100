"""The gRPC server: one device, one address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc

from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from softswitch.p4runtime.arbitration import Arbitration
from softswitch.p4runtime.device import Action, Device
from softswitch.p4runtime.limits import MAX_RPCS, SERVER_OPTIONS
from softswitch.p4runtime.pipeline import Loader
from softswitch.p4runtime.service import P4RuntimeService
from softswitch.p4runtime.tls import TlsFiles

DEFAULT_ADDRESS = "127.0.0.1:9559"
"""Loopback: without TLS there is neither authentication nor encryption."""


class P4RuntimeServer:
    """A switch that controllers drive over P4Runtime.

    `ports` maps port numbers to interface names; they are opened when a pipeline is committed.
    Without ports the data plane runs in memory (`dataplane.inject`). `load` makes data planes; by
    default the engine's, with its compiled programs under `cache_dir`. `prepare` is called with
    each data plane that is about to run. With `tls` only clients that use TLS are served.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        device_id: int = 1,
        ports: Mapping[int, str] | None = None,
        cpu_port: int | None = None,
        cache_dir: Path | None = None,
        load: Loader | None = None,
        prepare: Callable[[DataPlane], None] | None = None,
        tls: TlsFiles | None = None,
    ) -> None:
        self._requested = address
        self._tls = tls
        self.address = address
        """Where the server listens; the real port once it has started."""
        self.device = Device(
            device_id,
            load or (lambda source: DataPlane.load(source, cache_dir=cache_dir)),
            ports=ports,
            cpu_port=cpu_port,
            deliver=self._deliver,
            notify=self._notify,
            prepare=prepare,
        )
        self._arbitration = Arbitration(device_id, self.device.wait_for_writes)
        self._server: grpc.Server | None = None

    @property
    def dataplane(self) -> DataPlane | None:
        """The running data plane; None until a pipeline is committed."""
        pipeline = self.device.running
        return None if pipeline is None else pipeline.dataplane

    def commit(self, p4info: p4i.P4Info, device_config: bytes) -> None:
        """Run a pipeline given at start; raises SoftSwitchError."""
        config = p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config)
        self.device.set_config(Action.VERIFY_AND_COMMIT, config, lambda: None)

    def start(self) -> None:
        """Listen; raises PortError if the address cannot be used, BadCertificate for bad files."""
        credentials = None if self._tls is None else self._tls.credentials()
        server = grpc.server(
            futures.ThreadPoolExecutor(MAX_RPCS, thread_name_prefix="p4runtime"),
            options=SERVER_OPTIONS,
            maximum_concurrent_rpcs=MAX_RPCS,
        )
        service = P4RuntimeService(self.device, self._arbitration)
        p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
        try:
            if credentials is None:
                port = server.add_insecure_port(self._requested)
            else:
                port = server.add_secure_port(self._requested, credentials)
        except RuntimeError as error:
            raise PortError(
                f"cannot listen on {self._requested}: is the port in use, or the host not of this "
                "machine? Give another --grpc HOST:PORT"
            ) from error
        host = self._requested.rpartition(":")[0]
        self.address = f"{host}:{port}"
        server.start()
        self._server = server

    def stop(self, grace_s: float = 1.0) -> None:
        """End all RPCs, give the ports back and free the data plane. May be called twice."""
        if self._server is not None:
            self._server.stop(grace_s).wait()
            self._server = None
        self.device.close()

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _notify(self, message: p4r.StreamMessageResponse) -> None:
        self._arbitration.notify_primaries(message)

    def _deliver(self, packet: p4r.PacketIn) -> None:
        self._arbitration.notify_primaries(p4r.StreamMessageResponse(packet=packet))
