"""Run a controller for a program: `python -m controller.daemon INVENTORY STATE`.

Writes its events as lines of JSON to standard output, and its log to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from controller.daemon.event_log import log_event
from controller.daemon.run import Options, run
from controller.daemon.serving import Endpoint
from controller.errors import DamagedState
from host_stack import logs
from host_stack.errors import LibraError


def report(event: str, **fields: Any) -> None:
    """Write one event as a line of JSON on stdout, for who has started this process; and log it."""
    log_event(event, **fields)
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


async def turn_by_runner(detour: bool) -> None:
    """Ask whoever has started this process for other routes; a line on stdin says that they are."""
    report("route", detour=detour)
    if not await asyncio.to_thread(sys.stdin.readline):
        raise LibraError("nobody is there any more to change routes")


def main() -> int:
    """Read the command line; an expected error becomes one line and its exit code."""
    parser = argparse.ArgumentParser(prog="controller.daemon", description=__doc__)
    parser.add_argument("inventory", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--listen", action="append", default=[], metavar="ADDRESS")
    parser.add_argument("--detour", action="store_true", help="ask for other routes, see docs")
    parser.add_argument("--attempts", type=int, default=0)
    parser.add_argument("--metrics-port", type=int, help="of the loopback")
    logs.add_options(parser)
    given = parser.parse_args()
    logs.start(given.log_format, "controller", level=given.log_level)
    try:
        options = Options(
            given.inventory,
            given.state,
            tuple(Endpoint(address) for address in given.listen),
            attempts=given.attempts,
            metrics=None if given.metrics_port is None else ("127.0.0.1", given.metrics_port),
        )
        asyncio.run(run(options, report, turn_by_runner if given.detour else None))
    except DamagedState as error:
        report("failed", why=str(error))  # its disk may hold the log, too
        with suppress(OSError):
            logs.tell_error(error)
        return error.exit_code
    except LibraError as error:
        logs.tell_error(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
