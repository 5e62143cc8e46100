"""The bytes of a round of `libra run`, taken apart from what the links of a run counted."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from controller.byte_model import UDP_FRAME_BYTES, RowCosts
from host_stack.codec import HEADER, Codec
from host_stack.layout import BITMAP_LANES, Layout
from mininet_topos.job_processes import is_worker
from mininet_topos.run_record import ModeRecord
from planner.errors import PlanError


@dataclass(frozen=True)
class RoundBytes:
    """Bytes of a round, headers included, and who sends them.

    Attributes:
        workers: N.
        own: what a worker's link sends: GRADs, pushes, requests for values.
        push: what of it the server's link receives, of all workers.
        requests: DRAINs, with which the server asks the switch for sums.
        drained: these sums.
        update: new values of hot keys, sent once.
        cold_down: new values of cold keys, to one worker.
    """

    workers: int
    own: float
    push: float
    requests: float
    drained: float
    update: float
    cold_down: float

    @property
    def values(self) -> float:
        """Answers to the pulls of all workers."""
        return self.workers * self.cold_down

    @classmethod
    def of(cls, mode: ModeRecord, lanes: int) -> RoundBytes:
        """The bytes of a mode of a run, as its links counted them.

        GRADs, which a switch that knows the job keeps, are told from cold pushes by their number,
        values from UPDATEs by the difference between the server's link and a worker's, DRAINs by
        their number. Nobody asks for values after the last round, which the mean of the others
        makes good.

        Raises:
            PlanError: the run has not counted the bytes of its links.
        """
        rounds = len(mode.round_s)
        server = mode.traffic_bytes.get("server")
        links = {n: link for n, link in mode.traffic_bytes.items() if is_worker(n)}
        if server is None or not links:
            raise PlanError("this run has no bytes of the links of server and workers")
        workers = len(links)
        up, down = (
            statistics.fmean(link[way] for link in links.values()) / rounds
            for way in ("to_switch", "from_switch")
        )
        received, sent = server["from_switch"] / rounds, server["to_switch"] / rounds
        packets = mode.packets_per_push.mean if mode.packets_per_push else 0.0
        resent = (mode.retransmissions or 0) / (workers * rounds)
        layout = _layout(lanes)
        grads = (packets + resent) * (UDP_FRAME_BYTES + Codec(layout).grad.itemsize)
        acks = packets * (UDP_FRAME_BYTES + HEADER.itemsize)
        at_server = packets > 0 and not mode.counters.get("aggregated", 0)
        if at_server:
            sent -= workers * acks
        requests = mode.server_counters.get("drain_requests", 0) / rounds
        requests *= RowCosts.of(layout).request
        sent -= requests
        cold = workers * max(up - grads, 0.0)
        pushed = workers * up if at_server else cold
        keeps = packets > 0 and not at_server
        if workers > 1:
            values = max(sent - (down - acks), 0.0) / (workers - 1)
        else:
            # A single worker's link has UPDATEs as the server's does; without hot keys, none.
            values = 0.0 if packets else sent
        return cls(
            workers=workers,
            own=up,
            # What a full queue dropped has left a worker, and was never received.
            push=min(pushed, received),
            requests=requests,
            drained=max(received - pushed, 0.0) if keeps else 0.0,
            update=max(sent - workers * values, 0.0) if packets else 0.0,
            cold_down=values * rounds / max(rounds - 1, 1),
        )


def _layout(lanes: int) -> Layout:
    if lanes not in BITMAP_LANES:
        raise PlanError(f"{lanes} lanes: allowed are {', '.join(map(str, BITMAP_LANES))}")
    return Layout(lanes, 1, 1, 0)
