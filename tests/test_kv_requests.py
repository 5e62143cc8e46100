"""Requests of a process, and answers that are not for it."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from host_stack.kv.ids import Role
from host_stack.kv.message import Message
from host_stack.kv.requests import RequestTable
from host_stack.kv.wire import Meta, NodeInfo

PEER = 8


def table(*, is_recovery: bool) -> RequestTable:
    """Of a worker's process."""
    info = NodeInfo(Role.WORKER, "127.0.0.1", 1, 9, is_recovery)
    node = SimpleNamespace(
        info=info,
        roster=(info,),
        condition=threading.Condition(),
        stats=SimpleNamespace(unexpected_response=0),
    )
    return RequestTable(node)  # type: ignore[arg-type]


def test_a_process_that_takes_a_place_hears_no_answers_to_the_one_before() -> None:
    """Both have one id, and the server answers that."""
    first, second = table(is_recovery=False), table(is_recovery=True)
    asked = [first.open("request", [PEER], lambda message: None) for _ in range(3)]
    assert asked == [0, 1, 2]
    again = [second.open("request", [PEER], lambda message: None) for _ in range(3)]
    assert again == [again[0], again[0] + 1, again[0] + 2]
    for timestamp in asked:
        second.answered(Message(Meta(timestamp=timestamp), peer=PEER))
    assert not any(map(second.done, again))
    assert second._node.stats.unexpected_response == 3
