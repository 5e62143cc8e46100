"""The gRPC server: one device, one address."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc

from softswitch.dataplane import DataPlane
from softswitch.errors import PortError
from softswitch.p4runtime.arbitration import Arbitration
from softswitch.p4runtime.device import Action, Device
from softswitch.p4runtime.pipeline import Loader
from softswitch.p4runtime.service import MAX_READS, MAX_STREAMS, P4RuntimeService

DEFAULT_ADDRESS = "127.0.0.1:9559"
"""Loopback: P4Runtime here has neither authentication nor encryption."""

MAX_RECEIVE_BYTES = 64 << 20
UNARY_THREADS = 16


class P4RuntimeServer:
    """A switch that controllers drive over P4Runtime.

    `ports` maps port numbers to interface names; they are opened when a pipeline is committed.
    Without ports the data plane runs in memory (`dataplane.inject`). `load` makes data planes; by
    default the engine's, with its compiled programs under `cache_dir`. `prepare` is called with
    each data plane that is about to run.
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
    ) -> None:
        self._requested = address
        self.address = address
        """Where the server listens; the real port once it has started."""
        self.device = Device(
            device_id,
            load or (lambda source: DataPlane.load(source, cache_dir=cache_dir)),
            ports=ports,
            cpu_port=cpu_port,
            deliver=self._deliver,
            prepare=prepare,
        )
        self._arbitration = Arbitration(device_id, self.device.wait_for_writes)
        self._server: grpc.Server | None = None
        self._stopped = threading.Event()

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
        """Listen; raises PortError if the address cannot be used."""
        server = grpc.server(
            futures.ThreadPoolExecutor(
                MAX_STREAMS + MAX_READS + UNARY_THREADS, thread_name_prefix="p4runtime"
            ),
            options=(
                ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ),
        )
        service = P4RuntimeService(self.device, self._arbitration)
        p4r_grpc.add_P4RuntimeServicer_to_server(service, server)
        try:
            port = server.add_insecure_port(self._requested)
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

    def _deliver(self, packet: p4r.PacketIn) -> None:
        self._arbitration.notify_primaries(p4r.StreamMessageResponse(packet=packet))
