"""`libra dump`: through registers, and through drains that the job's server is asked for."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.daemon.dump import way_of
from controller.daemon.row_reads import RowReads
from controller.errors import NotKnown, NotNow
from controller.jobapi import control_pb2, job_pb2
from controller.jobapi.operator import Operator
from controller.jobapi.row_answers import RowAnswers, rounds_to_read
from host_stack.errors import BadInput
from host_stack.job import Job
from host_stack.layout import TAG_ROUNDS
from host_stack.row_reader import RowReader
from tests.controller_process import ControllerProcess
from tests.job_in_memory import GROUP, addresses, ports
from tests.memory_network import MemoryNetwork
from tests.operator_commands import JOB, WORKERS, Libra, placement_file, push_one, told

pytest_plugins = ("tests.operator_fixtures",)
pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.compiler,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH"),
]
REGISTERS, DRAINS = control_pb2.THROUGH_REGISTERS, control_pb2.THROUGH_DRAINS


@contextlib.contextmanager
def answering(
    process: ControllerProcess, job: Job, network: MemoryNetwork, round_of: Callable[[], int]
) -> Iterator[None]:
    """A server of the job that listens to its controller, and does nothing else."""
    reader = RowReader(job, lambda _: network.transport(job.server))
    answers = RowAnswers(process.address, job, round_of, reader)
    try:
        yield
    finally:
        answers.close()


def test_a_server_reads_rows_for_its_controller(
    libra: Libra,
    running: tuple[ControllerProcess, Any],
    tmp_path: Path,
) -> None:
    """The same cells as in the registers, of the rounds that may have some; errors say why."""
    process, switch = running
    hot = ("--placement", placement_file(tmp_path, 100))
    workers = ("--workers", ",".join(addresses(WORKERS)))
    told(libra, "job", "create", *JOB, *workers, *hot, "--wait", "60")
    libra("job", "describe", "-j", "1", "--job-file", str(tmp_path / "job.json"))
    job = Job.load(tmp_path / "job.json")
    push_one(job, switch.dataplane, seq=7)
    network = MemoryNetwork(ports(WORKERS), GROUP, addresses(WORKERS), switch.dataplane)
    drains = ("dump", "-j", "1", "--rows", "4", "--through", "drains")

    code, _, err = libra(*drains)
    assert (code, "no server of job 1 is connected" in err) == (1, True)
    open_round = 0
    with answering(process, job, network, lambda: open_round):
        while libra(*drains)[0]:  # until it is connected
            pass
        found = told(libra, *drains)
        registers = told(libra, "dump", "-j", "1", "--rows", "4")
        assert (found.pop("through"), registers.pop("through")) == ("drains", "registers")
        assert (found.pop("open_round"), registers.pop("open_round")) == (0, None)
        assert found == registers
        assert [(each["row"], each["lane"], each["value"]) for each in found["cells"]] == [
            (1, 0, -1.5)
        ]
        assert "through drains" in libra(*drains)[1]
        open_round = 1
        assert len(told(libra, *drains)["cells"]) == 1  # the last committed one
        open_round = 2
        assert told(libra, *drains)["cells"] == []
        assert told(libra, *drains[:3], "--row", "1", *drains[5:])["cells"] == []

        told(libra, "push", placement_file(tmp_path, 120), "-j", "1", "--wait", "60")
        open_round = 0
        found = told(libra, *drains)
        assert (found["epoch"], found["cells"]) == (2, [])
        network.is_dead = True
        code, _, err = libra(*drains)
        assert (code, "did not answer 4 of 4 rows" in err) == (1, True)
    told(libra, "job", "delete", "-j", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--through", "telepathy"), "allowed are registers, drains"),
        (("--rows", "-1"), "rows -1"),
    ],
)
def test_what_cannot_be_dumped(arguments: tuple[str, ...], words: str, libra: Libra) -> None:
    """Exit code 2 before anything is asked."""
    code, out, err = libra("dump", "-j", "1", *arguments)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("fields", "has_registers", "way"),
    [
        ({}, True, REGISTERS),
        ({}, False, DRAINS),
        ({"windows": True}, True, REGISTERS),
        ({"switch": "leaf2"}, True, REGISTERS),
        ({"through": DRAINS}, True, DRAINS),
        ({"through": REGISTERS}, True, REGISTERS),
    ],
)
def test_the_way_that_fits(
    fields: dict[str, Any], has_registers: bool, way: control_pb2.Through
) -> None:
    """Registers where they can be read, else drains."""
    assert way_of(control_pb2.DumpRequest(**fields), has_registers) == way


@pytest.mark.parametrize(
    ("fields", "has_registers", "words"),
    [
        ({"through": REGISTERS}, False, "reads no registers of this target"),
        ({"windows": True}, False, "reads no registers of this target"),
        ({"windows": True, "through": DRAINS}, True, "sequence windows"),
        ({"switch": "leaf2", "through": DRAINS}, True, "visits all switches"),
    ],
)
def test_a_way_that_cannot_be(fields: dict[str, Any], has_registers: bool, words: str) -> None:
    """What is asked for cannot be had so."""
    with pytest.raises(BadInput, match=words):
        way_of(control_pb2.DumpRequest(**fields), has_registers)


def test_questions_and_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest server is asked; strangers' and late answers count for nothing."""
    monkeypatch.setattr("controller.daemon.row_reads.ANSWER_S", 0.05)

    async def use() -> None:
        reads = RowReads()
        with pytest.raises(NotNow, match="no server of job 3"):
            await reads.ask(job_pb2.ReadRows(job=3))
        old, new = reads.follow(3), reads.follow(3)
        waiting = [asyncio.ensure_future(anext(each)) for each in (old, new)]
        await asyncio.sleep(0)
        with pytest.raises(NotNow, match="did not answer"):
            await reads.ask(job_pb2.ReadRows(job=3, row=5))
        late = await waiting[1]
        assert late.row == 5
        assert not waiting[0].done()
        with pytest.raises(NotKnown, match="nobody waits"):
            reads.tell(job_pb2.TellRowsRequest(job=3, number=late.number))

        asking = asyncio.ensure_future(reads.ask(job_pb2.ReadRows(job=3)))
        question = await anext(new)
        with pytest.raises(NotKnown, match="nobody waits"):
            reads.tell(job_pb2.TellRowsRequest(job=4, number=question.number))
        reads.tell(job_pb2.TellRowsRequest(job=3, number=question.number, open_round=8))
        with pytest.raises(NotKnown, match="nobody waits"):
            reads.tell(job_pb2.TellRowsRequest(job=3, number=question.number))
        assert (await asking).open_round == 8

        asking = asyncio.ensure_future(reads.ask(job_pb2.ReadRows(job=3)))
        question = await anext(new)
        reads.tell(
            job_pb2.TellRowsRequest(job=3, number=question.number, failure="the switch is away")
        )
        with pytest.raises(NotNow, match="the switch is away"):
            await asking
        await new.aclose()
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        with pytest.raises(NotNow, match="no server of job 3"):
            await reads.ask(job_pb2.ReadRows(job=3))

    asyncio.run(use())


def test_another_epoch_meanwhile(libra: Libra, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are not told in units of an F that they do not have."""
    reply = control_pb2.DumpReply(epoch=3, through=REGISTERS)
    monkeypatch.setattr(Operator, "dump", lambda *_args, **_options: reply)
    monkeypatch.setattr(Operator, "describe", lambda *_: control_pb2.JobInfo(epoch=4))
    code, out, err = libra("dump", "-j", "1", "--controller", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert "went from epoch 3 to 4" in err


@pytest.mark.parametrize(
    ("open_round", "rounds"),
    [
        (0, [0, 1]),
        (7, [6, 7, 8]),
        (TAG_ROUNDS - 1, [TAG_ROUNDS - 2, TAG_ROUNDS - 1]),
        (TAG_ROUNDS, [TAG_ROUNDS, TAG_ROUNDS + 1]),
    ],
)
def test_the_rounds_of_another_epoch_are_not_read(open_round: int, rounds: list[int]) -> None:
    """They would have the tags of rounds of this one."""
    assert list(rounds_to_read(open_round)) == rounds
