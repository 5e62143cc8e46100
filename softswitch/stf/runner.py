"""Runs tests, each in a process of its own: a switch that crashes fails its test alone."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from softswitch.dataplane import DataPlane
from softswitch.errors import SoftSwitchError, UnsupportedConstruct
from softswitch.stf.grammar import parse
from softswitch.stf.programs import Case, P4Compiler, not_v1model
from softswitch.stf.session import Session


class Outcome(StrEnum):
    """How a test ended."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"  # the program uses what the switch does not implement
    SKIPPED = "skipped"  # the program is for another architecture


@dataclass(frozen=True)
class Result:
    """A test's outcome; `reasons` are lines of text, none when it passed."""

    name: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()


def run_case(case: Case, compiler: P4Compiler, cache_dir: Path | None = None) -> Result:
    """Run a test in this process."""
    reason = not_v1model(case)
    if reason is not None:
        return Result(case.name, Outcome.SKIPPED, (reason,))
    try:
        statements = parse(case.stf.read_text(errors="replace"))
        program = compiler.compile(case).read_bytes()
        with DataPlane.load(program, cache_dir=cache_dir) as switch:
            problems = Session(switch).run(statements)
    except UnsupportedConstruct as error:
        return Result(case.name, Outcome.REFUSED, (str(error),))
    except (SoftSwitchError, OSError) as error:
        return Result(case.name, Outcome.FAILED, (" ".join(str(error).split())[:600],))
    return Result(case.name, Outcome.FAILED if problems else Outcome.PASSED, tuple(problems))


def run_all(
    cases: Sequence[Case],
    compiler: P4Compiler,
    *,
    jobs: int,
    timeout_s: float,
    cache_dir: Path | None = None,
) -> Iterator[Result]:
    """Run tests in up to `jobs` processes; yield results as they come, in no fixed order."""
    # Not fork: the caller may have threads. The server has the modules loaded already.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    todo = list(reversed(cases))
    running: list[_Running] = []
    try:
        while todo or running:
            while todo and len(running) < jobs:
                case = todo.pop()
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(
                    target=_child, args=(case, compiler, cache_dir, sender), daemon=True
                )
                process.start()
                sender.close()
                running.append(_Running(case, process, receiver, time.monotonic() + timeout_s))
            first = min(r.deadline for r in running)
            wait([r.receiver for r in running], max(0.0, first - time.monotonic()))
            for test in list(running):
                result = test.poll(timeout_s)
                if result is not None:
                    running.remove(test)
                    yield result
    finally:
        for test in running:
            test.stop()


@dataclass
class _Running:
    case: Case
    process: BaseProcess
    receiver: Connection
    deadline: float

    def poll(self, timeout_s: float) -> Result | None:
        """Return the result when there is one, or the reason why there will be none."""
        if self.receiver.poll():
            try:
                data: tuple[str, list[str]] = self.receiver.recv()
                result = Result(self.case.name, Outcome(data[0]), tuple(data[1]))
            except EOFError:
                self.process.join()
                code = self.process.exitcode or 0
                how = f"signal {-code}" if code < 0 else f"exit code {code}"
                result = Result(
                    self.case.name, Outcome.FAILED, (f"the test's process ended with {how}",)
                )
        elif time.monotonic() >= self.deadline:
            result = Result(self.case.name, Outcome.FAILED, (f"not done after {timeout_s:.0f} s",))
        else:
            return None
        self.stop()
        return result

    def stop(self) -> None:
        self.receiver.close()
        if self.process.is_alive():
            self.process.join(0.5)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def _child(case: Case, compiler: P4Compiler, cache_dir: Path | None, sender: Connection) -> None:
    result = run_case(case, compiler, cache_dir)
    sender.send((str(result.outcome), list(result.reasons)))
    sender.close()
