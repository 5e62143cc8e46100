"""Sends packets of a host that is in no job, again and again: each would harm a job if believed.

python -m tests.forger INTERFACE OWN_ADDRESS JOB_FILE…
"""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

import numpy as np

from host_stack.codec import DRAIN, Codec, fill_header
from host_stack.job import Job
from host_stack.layout import SERVER_RANK, make_tag
from host_stack.packets import Libra, partial_layer
from host_stack.shards import Shards
from host_stack.wire import Op
from tests.memory_network import frame

PAUSE_S = 0.02
EPOCHS = (1, 2)


def forged(job: Job, stranger: str) -> list[bytes]:
    """Frames that add, drain, pass sums on, close rounds and acknowledge, in anybody's name."""
    codec = Codec(job.layout)
    found = []
    for epoch in EPOCHS:
        grad = np.zeros(1, codec.grad)
        fill_header(grad["header"], Op.GRAD, job=job.job, worker=0, tag=make_tag(epoch, 0))
        grad["header"]["seq"] = 1 << 30
        grad["used"], grad["lane"]["grad"] = (1 << job.layout.lanes) - 1, 1.0
        drain = np.zeros(1, DRAIN)
        tag = make_tag(epoch, 0)
        fill_header(drain["header"], Op.DRAIN, job=job.job, worker=SERVER_RANK, tag=tag)
        drain["rows"] = 1
        update = np.zeros(1, codec.update)
        tag = make_tag(epoch, 9)
        fill_header(update["header"], Op.UPDATE, job=job.job, worker=SERVER_RANK, tag=tag)
        header = Libra(op=Op.PARTIAL, job=job.job, worker=SERVER_RANK, epoch=epoch)
        lanes = job.layout.lanes
        cells = [partial_layer(lanes).fields_desc[4].cls(d1=1, d0=1) for _ in range(lanes)]
        partial = bytes(header / partial_layer(lanes)(used=(1 << lanes) - 1, cells=cells))
        for source in (stranger, *job.workers, job.server, job.switch):
            found += [
                frame(source, job.server, grad.tobytes()),
                frame(source, job.switch, drain.tobytes()),
                frame(source, job.switch, partial),
                frame(source, job.group, update.tobytes(), ttl=8),
            ]
    return found


def main() -> None:
    """Send until killed."""
    interface, own, *files = sys.argv[1:]
    jobs = [job for file in files for job in Shards.load(Path(file)).jobs]
    frames = [raw for job in jobs for raw in forged(job, own)]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((interface, 0))
        turns = 0
        while True:
            for raw in frames:
                sender.send(raw)
            turns += 1
            print(json.dumps({"event": "sent", "turns": turns}), flush=True)
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
