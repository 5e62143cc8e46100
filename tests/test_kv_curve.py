"""The cold path under CurveZMQ: who has the key of the job takes part, and nobody reads along."""

from __future__ import annotations

import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zmq

from controller import cli
from host_stack.connect import worker_node
from host_stack.errors import BadInput
from host_stack.kv import KVServer, KVWorker, Node, Role
from host_stack.kv.curve import Doorkeeper, JobKey
from host_stack.kv.errors import KVConfigError, KVTimeout
from tests.job_in_memory import make_job
from tests.kv_jobs import HOST, AddingStore, config, running_job, start_scheduler

KEYS = np.arange(5, dtype=np.uint64)
VALUES = np.linspace(-1, 1, 5, dtype=np.float32)


def test_a_job_under_a_key() -> None:
    """Pushes and pulls are as without."""
    with running_job(2, 1, key=JobKey.make()) as job:
        server = KVServer(job.servers[0])
        server.set_request_handle(AddingStore())
        for node in job.workers:
            worker = KVWorker(node)
            worker.wait(worker.push(KEYS, VALUES))
        pulled = np.zeros_like(VALUES)
        worker.wait(worker.pull(KEYS, pulled))
    assert pulled.tolist() == (VALUES + VALUES).tolist()


@pytest.mark.parametrize("key", [None, JobKey.make()], ids=["no key", "another key"])
def test_strangers_do_not_register(key: JobKey | None) -> None:
    """Neither without a key nor with another one; the scheduler waits for those of the job."""
    port, done = start_scheduler(1, 1, start_timeout_s=3.0, key=JobKey.make())
    node = Node(config(Role.WORKER, port, 1, 1, start_timeout_s=1.0, key=key))
    with pytest.raises(KVTimeout):
        node.start()
    node.close()
    with pytest.raises(KVTimeout):
        done.result(60)


def test_a_member_does_not_speak_to_a_stranger() -> None:
    """Somebody who listens at the scheduler's address, without the key."""
    port, done = start_scheduler(1, 1, start_timeout_s=3.0)
    node = Node(config(Role.WORKER, port, 1, 1, start_timeout_s=1.0, key=JobKey.make()))
    with pytest.raises(KVTimeout):
        node.start()
    node.close()
    with pytest.raises(KVTimeout):
        done.result(60)


@contextmanager
def recorder(port: int) -> Iterator[tuple[int, bytearray]]:
    """A TCP relay to a port of this machine, which writes down what passes, both ways."""
    seen = bytearray()
    with socket.create_server((HOST, 0)) as listener:

        def relay() -> None:
            near, _ = listener.accept()
            far = socket.create_connection((HOST, port))
            ways = [threading.Thread(target=copy, args=pair) for pair in ((near, far), (far, near))]
            for way in ways:
                way.start()
            for way in ways:
                way.join()
            near.close()
            far.close()

        def copy(source: socket.socket, target: socket.socket) -> None:
            while data := source.recv(1 << 16):
                seen.extend(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=relay)
        thread.start()
        yield listener.getsockname()[1], seen
        thread.join(60)


@pytest.mark.parametrize("key", [None, JobKey.make()], ids=["plain", "encrypted"])
def test_who_reads_along(key: JobKey | None) -> None:
    """Gradients are seen on the wire without a key, and are not with one."""
    secret = VALUES.tobytes() * 20
    with zmq.Context() as context:
        doorkeeper = None if key is None else Doorkeeper(context, key)
        with context.socket(zmq.ROUTER) as router:
            if key is not None:
                key.protect_listener(router)
            port = router.bind_to_random_port(f"tcp://{HOST}")
            with recorder(port) as (relay, seen), context.socket(zmq.DEALER) as dealer:
                if key is not None:
                    key.protect_caller(dealer)
                dealer.connect(f"tcp://{HOST}:{relay}")
                dealer.send(secret)
                assert router.poll(60_000)
                assert router.recv_multipart()[1] == secret
        if doorkeeper is not None:
            doorkeeper.stop()
    assert (secret in seen) is (key is None)


def test_the_file_of_a_key(tmp_path: Path) -> None:
    """Its owner alone may read it; it is never written over, and never shown."""
    path = tmp_path / "job.key"
    key = JobKey.make()
    key.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert JobKey.load(path) == key
    assert key.secret.decode() not in repr(key)
    with pytest.raises(KVConfigError, match="File exists"):
        key.save(path)
    path.chmod(0o644)
    with pytest.raises(KVConfigError, match="chmod 600"):
        JobKey.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"schema": 1', '"schema": 2'),
        lambda text: text.replace("public", "pubic"),
        lambda text: text[: text.index("secret")] + 'secret": "short"}',
        lambda text: text.replace('"public": "', '"public": "x'),
    ],
)
def test_what_is_no_key(change: Callable[[str], str], tmp_path: Path) -> None:
    """A file that was damaged, or of another version."""
    path = tmp_path / "job.key"
    JobKey.make().save(path)
    path.write_text(change(path.read_text()))
    with pytest.raises(KVConfigError, match="is not the key of a job"):
        JobKey.load(path)


def test_a_job_names_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command makes one, hosts load it; without the file they do not begin."""
    path = tmp_path / "job.key"
    job = replace(make_job(1, 10, 30, 9), key_file=str(path))
    with pytest.raises(BadInput, match=r"job\.key is not a key of a job"):
        worker_node(job, job.workers[0])
    monkeypatch.setattr(sys, "argv", ["libra", "key", str(path)])
    with pytest.raises(SystemExit):
        cli.main()
    assert "is a secret" in capsys.readouterr().out
    worker_node(job, job.workers[0]).close()
