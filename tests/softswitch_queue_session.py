"""A shaped interface whose queue fills; run inside a network namespace of its own.

Prints what `read_queues` found before and behind it, as one JSON object.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from dataclasses import asdict

from softswitch.queues import Queue, read_queues
from tests.softswitch_port_session import frame, make_link, open_host

FRAMES, SIZE = 100, 1000


def main() -> None:
    """Send faster than the link lets through."""
    make_link(0)
    shape = ("rate", "8kbit", "burst", "2000", "limit", "20000")
    subprocess.run(["tc", "qdisc", "replace", "dev", "host0", "root", "tbf", *shape], check=True)
    before = read_queues()["host0"]
    with open_host("host0") as host:
        for number in range(FRAMES):
            with suppress(OSError):  # the queue is full
                host.send(frame(number, SIZE))
        filled = read_queues()
    plain = asdict(filled.get("port0", Queue()))
    print(json.dumps({"before": asdict(before), "filled": asdict(filled["host0"]), "plain": plain}))


if __name__ == "__main__":
    main()
