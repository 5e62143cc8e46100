"""The scheduler as a program: `python -m host_stack.kv.scheduler --workers 4 --servers 1`.

Prints one line of JSON when it listens, one when all nodes have registered, and one when it
ends, which it does by itself after the barrier of the nodes' `finalize`.
"""

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from host_stack import logs
from host_stack.errors import LibraError
from host_stack.kv.config import KVConfig
from host_stack.kv.curve import JobKey
from host_stack.kv.errors import KVConfigError
from host_stack.kv.ids import Role
from host_stack.kv.node import Node

_LOG = logging.getLogger("host_stack.kv.scheduler")

MAX_LIFETIME_S = 10 * 365 * 86400.0

_WORDS = {
    "ready": "listening",
    "roster": "all nodes have registered",
    "done": "all nodes have finished",
}
"""What a log says of an event."""

Report = Callable[[dict[str, Any]], None]


def run_scheduler(
    config: KVConfig,
    lifetime_s: float = MAX_LIFETIME_S,
    report: Report = lambda event: None,
) -> None:
    """Serve one job from registration to its last barrier.

    `report` gets a dictionary with "event" ready, roster or done. Raises KVTimeout when nodes
    are missing after `config.start_timeout_s`, or have not finished `lifetime_s` later.
    """
    node = Node(config, threaded=False)
    try:
        port = node.bind()
        report({"event": "ready", "role": "scheduler", "host": config.root_host, "port": port})
        node.start()
        report({"event": "roster", "nodes": [_describe(info) for info in node.roster]})
        node.finalize(lifetime_s)
        report({"event": "done"})
    finally:
        node.close()


def _describe(info: Any) -> dict[str, Any]:
    return {
        "id": info.id,
        "role": info.role.name.lower(),
        "host": info.hostname,
        "port": info.port,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="host_stack.kv.scheduler", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    parser.add_argument("--workers", type=int, help="without it, DMLC_* variables say all this")
    parser.add_argument("--servers", type=int, help="goes with --workers")
    parser.add_argument("--key", type=Path, help="file of the job's key: encrypt")
    parser.add_argument("--start-timeout-s", type=float, default=60.0, help="until all are up")
    parser.add_argument(
        "--lifetime-s", type=float, default=MAX_LIFETIME_S, help="until all nodes have finished"
    )
    logs.add_options(parser)
    return parser


def _config(arguments: argparse.Namespace) -> KVConfig:
    """What the options say, or without --workers and --servers the environment."""
    if (arguments.workers is None) != (arguments.servers is None):
        raise KVConfigError("--workers and --servers go together")
    if arguments.workers is None:
        config = KVConfig.from_env()
        if config.role is not Role.SCHEDULER:
            raise KVConfigError(f"DMLC_ROLE = {config.role.name.lower()}: this is the scheduler")
    else:
        config = KVConfig(
            role=Role.SCHEDULER,
            root_host=arguments.host,
            root_port=arguments.port,
            num_workers=arguments.workers,
            num_servers=arguments.servers,
        )
    key = None if arguments.key is None else JobKey.load(arguments.key)
    return replace(config, start_timeout_s=arguments.start_timeout_s, key=key)


def _print(event: dict[str, Any]) -> None:
    """Tell an event to who has started this process, and log it."""
    _LOG.info("%s", _WORDS[event["event"]], extra={"fields": event})
    print(json.dumps(event), flush=True)


def _on_signal(number: int, frame: FrameType | None) -> None:
    # A scheduler has no state to save. Raising here instead would unwind from the middle of
    # socket code, and closing could then wait for ever for a socket that nobody knows.
    os._exit(128 + number)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    arguments = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _on_signal)
    signal.signal(signal.SIGINT, _on_signal)
    logs.start(arguments.log_format, "scheduler", level=arguments.log_level)
    try:
        config = _config(arguments)
        run_scheduler(config, arguments.lifetime_s, _print)
    except LibraError as error:
        logs.tell_error(error)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
