"""Run the keeper of a job: `python -m controller.keeper FOLDER`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from controller.keeper.config import KeeperConfig
from controller.keeper.keeper import Keeper
from controller.keeper.service import serve
from controller.targets import find_target
from host_stack.errors import LibraError
from host_stack.job import Job


def report(event: str, **fields: Any) -> None:
    """Write one event as a line of JSON on stdout."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


async def turn_by_runner(detour: bool) -> None:
    """Ask whoever has started this process for other routes; a line on stdin says that they are."""
    report("route", detour=detour)
    if not await asyncio.to_thread(sys.stdin.readline):
        raise LibraError("nobody is there any more to change routes")


async def run(folder: Path) -> None:
    """Keep the job of a folder until the process is ended."""
    job = Job.load(folder / "job.json")
    config = KeeperConfig.load(folder / "keeper.json")
    turn = turn_by_runner if config.has_detour else None
    program = find_target(config.target).load(config.program)
    keeper = Keeper(folder, config, job, program, report, turn)
    server = await serve(keeper)
    keeping = asyncio.create_task(keeper.keep())
    try:
        first = asyncio.create_task(keeper.after(None))
        await asyncio.wait([first, keeping], return_when=asyncio.FIRST_COMPLETED)
        if first.done():
            report("ready", epoch=first.result().epoch)
        await keeping
    finally:
        await server.stop(None)


def main() -> int:
    """Read the command line; an expected error becomes one line and its exit code."""
    parser = argparse.ArgumentParser(prog="controller.keeper", description=__doc__)
    parser.add_argument("folder", type=Path, help="job.json, keeper.json and placement-1.npz")
    try:
        asyncio.run(run(parser.parse_args().folder))
    except LibraError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
