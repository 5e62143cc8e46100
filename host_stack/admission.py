"""What the server of a job does not take of what is pushed and pulled, and why.

What is only late or repeated is another matter: it is nobody's fault, and is not refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from host_stack.kv.message import KVPairs
from host_stack.kv.server import KVMeta
from host_stack.plain import is_plain


@dataclass(frozen=True)
class Fault:
    """Why a request is refused.

    Attributes:
        counter: of the server, where it counts: `unknown_key` or `bad_push`.
        why: what its sender is told.
    """

    counter: str
    why: str


def fault_of(
    request: KVMeta, pairs: KVPairs, num_keys: int, *, is_worker: bool, has_joined: bool
) -> Fault | None:
    """What is wrong with a push or a pull in a job of `num_keys` keys; None if nothing is.

    Args:
        request: a push or a pull.
        pairs: its uint64[n] keys, ascending, and values.
        num_keys: of the job.
        is_worker: the sender has an address of a worker of the job.
        has_joined: it has joined, so its pushes have tags.
    """
    if len(pairs.keys) and int(pairs.keys[-1]) >= num_keys:
        return Fault("unknown_key", f"key {pairs.keys[-1]}: the job has keys 0 to {num_keys - 1}")
    if request.push and (why := _fault_of_push(request, pairs, is_worker, has_joined)):
        return Fault("bad_push", why)
    return None


def _fault_of_push(request: KVMeta, pairs: KVPairs, is_worker: bool, has_joined: bool) -> str:
    """What is wrong with a push of known keys; empty if nothing is."""
    if not is_worker:
        return "its address is not that of a worker of the job"
    if len(pairs.vals) != len(pairs.keys):
        counts = f"{len(pairs.vals)} values for {len(pairs.keys)} keys"
        return f"{counts}: in a job every key has one float32"
    if is_plain(request):
        return "it has joined the job, so its pushes need a tag" if has_joined else ""
    return "a push with a tag pulls nothing" if request.pull else ""
