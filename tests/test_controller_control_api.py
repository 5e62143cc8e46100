"""The control API in one process: jobs, rooms, request ids, codes. Switches are not reached."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import grpc
import numpy as np
import pytest
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from controller.artifacts import Artifact
from controller.daemon import deadlines, serving
from controller.daemon.controller import Controller
from controller.daemon.messages import read_ask
from controller.daemon.serving import Endpoint, serve
from controller.daemon.store import Store
from controller.jobapi import control_pb2, control_pb2_grpc
from controller.jobapi.operator import npz
from host_stack.job import Job
from host_stack.placement import heat_based
from tests.controller_process import socket_path, star

ARTIFACT = Artifact.load()
ROWS = ARTIFACT.layout.rows
HOSTS = {f"10.0.0.{port}": port for port in range(1, 21)}
T = TypeVar("T")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state's file."""
    return tmp_path / "state.sqlite"


@pytest.fixture
def socket() -> Iterator[Path]:
    """Where the controller listens."""
    with socket_path() as path:
        yield path


def with_api(state: Path, socket: Path, use: Callable[[Any], Awaitable[T]]) -> T:
    """Serve a controller whose switch is never there, and use it."""

    async def serve_it() -> T:
        store = Store(state)
        controller = Controller(star("127.0.0.1:9", HOSTS), store)
        server = await serve(controller, [Endpoint(f"unix:{socket}")])
        try:
            async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
                return await use(channel)
        finally:
            await server.stop(None)
            store.close()

    return asyncio.run(serve_it())


def spec(job: int = 1, **changes: Any) -> control_pb2.JobSpec:
    """A job of two workers."""
    fields: dict[str, Any] = {
        "job": job,
        "fraction_bits": 30,
        "num_keys": 1000,
        "workers": ["10.0.0.2", "10.0.0.3"],
        "server": "10.0.0.1",
        "group": f"239.1.1.{job}",
        "scheduler": "10.0.0.1:9700",
    }
    return control_pb2.JobSpec(**{**fields, **changes})


def creation(
    job: int = 1, hot: int = 100, request_id: str = "", **changes: Any
) -> control_pb2.CreateJobRequest:
    """A request for a job with so many hot keys."""
    placement = heat_based(np.arange(hot, dtype=np.uint64), ARTIFACT.layout)
    return control_pb2.CreateJobRequest(
        request_id=request_id or str(uuid.uuid4()),
        spec=spec(job, **changes),
        placement=npz(placement),
    )


def refused(
    state: Path, socket: Path, *requests: control_pb2.CreateJobRequest
) -> grpc.aio.AioRpcError:
    """Create jobs; returns the error of the last."""

    async def use(channel: Any) -> grpc.aio.AioRpcError:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        for request in requests[:-1]:
            await stub.CreateJob(request)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.CreateJob(requests[-1])
        return failed.value

    return with_api(state, socket, use)


def test_the_life_of_a_job(state: Path, socket: Path) -> None:
    """Created, described, listed, deleted; its job file is what hosts read."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        made = await stub.CreateJob(creation())
        assert (made.row_base, made.rows, made.slot, made.group_id) == (0, 4, 1, 1)
        assert (made.state, made.hot_keys) == (control_pb2.JOB_STATE_PENDING, 100)
        assert made.spec.switch == "s1"
        described = await stub.DescribeJob(control_pb2.DescribeJobRequest(job=1))
        assert described == made
        path = state.parent / "job.json"
        path.write_text(described.job_file)
        assert Job.load(path).workers == ("10.0.0.2", "10.0.0.3")
        assert json.loads(described.job_file)["switch"] == "127.0.1.254"
        listed = await stub.ListJobs(control_pb2.ListJobsRequest())
        assert list(listed.jobs) == [made]
        await stub.DeleteJob(control_pb2.DeleteJobRequest(request_id="d1", job=1))
        assert not (await stub.ListJobs(control_pb2.ListJobsRequest())).jobs
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.DescribeJob(control_pb2.DescribeJobRequest(job=1))
        assert failed.value.code() is grpc.StatusCode.NOT_FOUND

    with_api(state, socket, use)


def test_jobs_survive_a_restart(state: Path, socket: Path) -> None:
    """So do their rows, and the answers to requests."""
    request = creation(hot=500)

    async def create(channel: Any) -> Any:
        return await control_pb2_grpc.ControlServiceStub(channel).CreateJob(request)

    first = with_api(state, socket, create)
    assert with_api(state, socket, create) == first

    async def describe(channel: Any) -> Any:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        return await stub.DescribeJob(control_pb2.DescribeJobRequest(job=1))

    assert with_api(state, socket, describe) == first


def test_a_request_id_is_for_one_call(state: Path, socket: Path) -> None:
    """The same call is carried out once, whoever repeats it; another one needs another id."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        request = creation(request_id="the-same")
        answers = await asyncio.gather(*(stub.CreateJob(request) for _ in range(5)))
        assert all(answer == answers[0] for answer in answers)
        delete = control_pb2.DeleteJobRequest(request_id="gone", job=1)
        await stub.DeleteJob(delete)
        await stub.DeleteJob(delete)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.CreateJob(creation(job=2, request_id="the-same"))
        assert failed.value.code() is grpc.StatusCode.ALREADY_EXISTS

    with_api(state, socket, use)


def test_what_is_refused_leaves_nothing_behind(state: Path, socket: Path) -> None:
    """Neither a job nor an answer: the same id may be used for a better request."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.CreateJob(creation(request_id="again", server="10.0.0.99"))
        assert not (await stub.ListJobs(control_pb2.ListJobsRequest())).jobs
        await stub.CreateJob(creation(request_id="again"))

    with_api(state, socket, use)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"request_id": "no spaces"}, "request id 'no spaces'"),
        ({"job": 70000}, "1 to 65535"),
        ({"fraction_bits": 127}, "127"),
        ({"num_keys": 0}, "0 keys"),
        ({"num_keys": 99}, "has key 99, the job's keys are 0 to 98"),
        ({"workers": ["10.0.0.77"]}, "10.0.0.77: no port"),
        ({"workers": ["10.0.0.2", "10.0.0.2"]}, "10.0.0.2"),
        ({"server": "moon"}, "moon"),
        ({"switch": "s9"}, "it has s1"),
        ({"group": "10.1.1.1"}, "224.0.0.0"),
        ({"scheduler": "10.0.0.1"}, "ADDRESS:PORT"),
        ({"placed": 9}, "allowed are"),
        ({"rows": 2}, "the placement needs 4"),
        ({"rows": 1 << 20}, f"the switch has {ROWS}"),
        ({"timeouts_s": {"push": 1.0}}, "push, drain, commit"),
        ({"timeouts_s": {"push": 1.0, "drain": float("nan"), "commit": 1.0}}, "finite"),
    ],
)
def test_bad_input_has_its_code(
    changes: dict[str, Any], words: str, state: Path, socket: Path
) -> None:
    """INVALID_ARGUMENT, with what was given and what is allowed."""
    error = refused(state, socket, creation(**changes))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (error.details() or "")


def test_a_placement_that_is_none(state: Path, socket: Path) -> None:
    """Bytes that are no .npz file."""
    request = creation()
    request.placement = b"PK\x03\x04 and nothing else"
    assert refused(state, socket, request).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_numbers_and_groups_are_taken_once(state: Path, socket: Path) -> None:
    """ALREADY_EXISTS names who has them."""
    error = refused(state, socket, creation(), creation())
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS
    error = refused(state, socket, creation(2, group="239.1.1.1"))
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS
    assert "job 1" in (error.details() or "")


def test_rows_run_out(state: Path, socket: Path) -> None:
    """RESOURCE_EXHAUSTED says what is free; blocks are disjoint; a job without rows has room."""
    requests = [creation(1, rows=ROWS // 2), creation(2, rows=ROWS // 4)]
    error = refused(state, socket, *requests, creation(3, rows=ROWS // 2))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"{ROWS // 4} rows are free, the largest block has {ROWS // 4}" in (
        error.details() or ""
    )

    async def use(channel: Any) -> Any:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        off = await stub.CreateJob(creation(3, placed=control_pb2.PLACED_GROUP))
        assert off.slot == 0
        (info,) = (await stub.ListSwitches(control_pb2.ListSwitchesRequest())).switches
        return info

    info = with_api(state, socket, use)
    assert (info.free_rows, info.fragmentation) == (ROWS // 4, 0.0)
    assert MessageToDict(info)["free"] == [{"base": ROWS * 3 // 4, "rows": ROWS // 4}]
    assert (info.ready, list(info.jobs)) == (False, [1, 2, 3])


def test_slots_run_out(state: Path, socket: Path) -> None:
    """A switch tells fifteen jobs apart."""
    requests = [creation(job) for job in range(1, 17)]
    error = refused(state, socket, *requests)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "15 jobs" in (error.details() or "")


def test_workers_may_be_declared_later(state: Path, socket: Path) -> None:
    """Until then the job waits, and has no job file."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        made = await stub.CreateJob(creation(workers=[]))
        assert (made.state, made.job_file) == (control_pb2.JOB_STATE_DECLARED, "")
        declared = await stub.DeclareWorkers(
            control_pb2.DeclareWorkersRequest(request_id="w", job=1, workers=["10.0.0.5"])
        )
        assert declared.state == control_pb2.JOB_STATE_PENDING
        assert json.loads(declared.job_file)["workers"] == ["10.0.0.5"]
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.DeclareWorkers(
                control_pb2.DeclareWorkersRequest(request_id="x", job=1, workers=["10.0.0.50"])
            )
        assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    with_api(state, socket, use)


def test_pages(state: Path, socket: Path) -> None:
    """Jobs come by number, as many as asked for."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        for job in (5, 3, 9):
            await stub.CreateJob(creation(job))
        page = await stub.ListJobs(control_pb2.ListJobsRequest(page_size=2))
        assert ([job.spec.job for job in page.jobs], page.more) == ([3, 5], True)
        page = await stub.ListJobs(control_pb2.ListJobsRequest(page_size=2, after_job=5))
        assert ([job.spec.job for job in page.jobs], page.more) == ([9], False)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.ListJobs(control_pb2.ListJobsRequest(page_size=1001))
        assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    with_api(state, socket, use)


def test_a_change_needs_an_installed_job(state: Path, socket: Path) -> None:
    """FAILED_PRECONDITION while the switch is not there."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        await stub.CreateJob(creation())
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.ChangeJob(
                control_pb2.ChangeJobRequest(request_id="c", job=1, fraction_bits=20)
            )
        assert failed.value.code() is grpc.StatusCode.FAILED_PRECONDITION

    with_api(state, socket, use)


def test_events_are_watched(state: Path, socket: Path) -> None:
    """Those that were, then those that come; of one job if so asked."""

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        await stub.CreateJob(creation(1))
        await stub.CreateJob(creation(2))
        kept = [
            event
            async for event in stub.WatchEvents(control_pb2.WatchEventsRequest(stop_at_end=True))
        ]
        assert [(event.kind, event.job) for event in kept] == [
            ("job-created", 1),
            ("job-created", 2),
        ]
        watch = stub.WatchEvents(control_pb2.WatchEventsRequest(after=kept[-1].number, job=2))
        await stub.DeleteJob(control_pb2.DeleteJobRequest(request_id="d1", job=1))
        await stub.DeleteJob(control_pb2.DeleteJobRequest(request_id="d2", job=2))
        event = await asyncio.wait_for(watch.read(), 60)
        assert (event.kind, event.job) == ("job-deleted", 2)
        watch.cancel()

    with_api(state, socket, use)


def test_a_switch_that_cannot_be_read_is_named(state: Path, socket: Path) -> None:
    """Counters of the others would still come."""

    async def use(channel: Any) -> Any:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        return await stub.ReadStats(control_pb2.ReadStatsRequest())

    reply = with_api(state, socket, use)
    assert (list(reply.missing), list(reply.counts)) == (["s1"], [])


def test_health_and_reflection(state: Path, socket: Path) -> None:
    """Both answer for both services."""

    async def use(channel: Any) -> None:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", "libra.control.v1.ControlService", "libra.job.v1.JobService"):
            reply = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert reply.status == health_pb2.HealthCheckResponse.SERVING
        mirror = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        async for reply in mirror.ServerReflectionInfo(iter([request])):
            names = {each.name for each in reply.list_services_response.service}
        assert {"libra.control.v1.ControlService", "grpc.health.v1.Health"} <= names

    with_api(state, socket, use)


def test_calls_end_in_time(state: Path, socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even of a caller who would wait for ever."""
    monkeypatch.setattr(deadlines, "MAX_CALL_S", 0.05)

    async def never(*_arguments: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(
        "controller.daemon.control_service.ControlService._stats", never, raising=True
    )

    async def use(channel: Any) -> grpc.StatusCode:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.ReadStats(control_pb2.ReadStatsRequest())
        return failed.value.code()

    assert with_api(state, socket, use) is grpc.StatusCode.DEADLINE_EXCEEDED


def test_no_more_calls_at_once_than_allowed(
    state: Path, socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused, whatever it asks, and served when there is room again."""
    monkeypatch.setattr(serving, "MAX_CALLS", 3)
    begun, end = asyncio.Semaphore(0), asyncio.Event()

    async def wait(*_arguments: object) -> control_pb2.ReadStatsReply:
        begun.release()
        await end.wait()
        return control_pb2.ReadStatsReply()

    monkeypatch.setattr("controller.daemon.control_service.ControlService._stats", wait)

    async def use(channel: Any) -> grpc.StatusCode:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        calls = [stub.ReadStats(control_pb2.ReadStatsRequest()) for _ in range(3)]
        for _ in calls:
            await begun.acquire()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.ListSwitches(control_pb2.ListSwitchesRequest())
        end.set()
        await asyncio.gather(*calls)
        await stub.ListSwitches(control_pb2.ListSwitchesRequest())
        return failed.value.code()

    assert with_api(state, socket, use) is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_streams_leave_room_for_calls(
    state: Path, socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay open for as long as jobs run; one more is refused, and nothing else."""
    monkeypatch.setattr(serving, "MAX_STREAMS", 3)

    async def use(channel: Any) -> None:
        stub = control_pb2_grpc.ControlServiceStub(channel)
        await stub.CreateJob(creation())
        streams = [stub.WatchEvents(control_pb2.WatchEventsRequest()) for _ in range(3)]
        for stream in streams:
            assert (await stream.read()).kind == "job-created"
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await stub.WatchEvents(control_pb2.WatchEventsRequest()).read()
        assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.ListSwitches(control_pb2.ListSwitchesRequest())
        for stream in streams:
            stream.cancel()
        while True:  # the controller hears of it a little later
            try:
                again = await stub.WatchEvents(control_pb2.WatchEventsRequest()).read()
            except grpc.aio.AioRpcError:
                continue
            assert again.kind == "job-created"
            return

    with_api(state, socket, use)


def test_rows_that_a_deleted_job_has_used_begin_in_another_epoch(tmp_path: Path) -> None:
    """Its cells may still hold sums of the deleted job's epochs."""
    store = Store(tmp_path / "state.sqlite")
    controller = Controller(star("127.0.0.1:9", HOSTS), store)

    async def use() -> tuple[int, int]:
        first = controller.create(read_ask(creation(1)))
        for _ in range(7):
            last = first.take("a test").epoch
        controller.delete(1)
        second = controller.create(read_ask(creation(2)))
        return last, second.take("the job begins").epoch

    assert asyncio.run(use()) == (7, 8)
    store.forget_spent("s1")
    assert store.spent_epoch(controller.job(2).record.seat_on("s1")) == 0
    store.close()
