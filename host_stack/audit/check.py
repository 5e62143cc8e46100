"""The auditor: recomputes every commit from what workers say they pushed."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from host_stack.audit.log import (
    KEY,
    STEP,
    VALUE,
    CommitRecord,
    Keys,
    PushRecord,
    read_commits,
    read_pushes,
)
from host_stack.errors import BadInput
from host_stack.fixedpoint import FloatArray, to_fixed, to_float32
from host_stack.layout import TAG_ROUNDS

MAX_PROBLEMS = 20


@dataclass(frozen=True)
class AuditResult:
    """What an audit found.

    Attributes:
        conserved: every step that the training has is in one commit, and every commit is the sum
            of its steps, bit for bit.
        pushed_sha256: over the committed steps by round, rank and step: rank, step, keys,
            gradients. A function of the training alone, whatever went wrong meanwhile.
        commits, steps, gradients: that were checked.
        discarded: pushes that were acknowledged and belong to no commit: their round was pushed
            again, in another epoch.
        problems: what is wrong, at most `MAX_PROBLEMS`.
    """

    conserved: bool
    pushed_sha256: str
    commits: int
    steps: int
    gradients: int
    discarded: int
    problems: tuple[str, ...]

    def as_fields(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self) | {"problems": list(self.problems)}


def audit(folder: Path, steps: Sequence[int]) -> AuditResult:
    """Check the logs of a folder, each commit at the scale that it was summed at.

    `steps` are those of each rank in the whole training: what the last commit lacks of them is a
    problem, whether its record is lost or the training was ended early. A commit replaces those of
    its round and of later ones before it: they were lost with a server that went back.

    Raises `BadInput` for a folder without any log, and for files that are none.
    """
    if not any(folder.glob("*-*.log")):
        raise BadInput(f"{folder} holds no log of an audit: nothing to audit")
    pushes: dict[int, list[PushRecord]] = defaultdict(list)
    for push in read_pushes(folder):
        pushes[push.tag].append(push)
    commits = _standing(read_commits(folder))
    check = _Check(len(steps))
    for expected, round_ in enumerate(commits):
        if round_ != expected:
            check.say(f"round {expected} was never committed")
            break
        check.take(round_, commits[round_], pushes.get(commits[round_].tag, []))
    check.end(steps)
    recorded = sum(map(len, pushes.values()))
    return check.result(recorded)


def _standing(commits: Iterable[CommitRecord]) -> dict[int, CommitRecord]:
    """The commits that no later one has replaced, by round, ascending."""
    found: dict[int, CommitRecord] = {}
    for commit in commits:
        round_ = round_near(commit.tag, next(reversed(found), -1) + 1)
        while found and next(reversed(found)) >= round_:
            found.popitem()
        found[round_] = commit
    return found


def round_near(tag: int, expected: int) -> int:
    """The round nearest to an expected one among those that a tag may stand for."""
    ahead = (tag - expected) % TAG_ROUNDS
    return expected + (ahead if ahead < TAG_ROUNDS // 2 else ahead - TAG_ROUNDS)


def all_of(shards: Sequence[AuditResult]) -> AuditResult:
    """The audit of a job with several servers: its shards, each of which has every round.

    Its hash is that of the shards' hashes.
    """
    if len(shards) == 1:
        return shards[0]
    hashes = "".join(shard.pushed_sha256 for shard in shards)
    problems = [
        f"shard {number}: {problem}"
        for number, shard in enumerate(shards)
        for problem in shard.problems
    ]
    return AuditResult(
        all(shard.conserved for shard in shards),
        hashlib.sha256(hashes.encode()).hexdigest(),
        sum(shard.commits for shard in shards),
        sum(shard.steps for shard in shards),
        sum(shard.gradients for shard in shards),
        sum(shard.discarded for shard in shards),
        tuple(problems[:MAX_PROBLEMS]),
    )


class _Check:
    """Takes the commits in the order of rounds."""

    def __init__(self, workers: int) -> None:
        self._committed = (0,) * workers
        self._sha256 = hashlib.sha256()
        self._problems: list[str] = []
        self._commits = self._steps = self._gradients = 0

    def say(self, problem: str) -> None:
        """Note a problem."""
        self._problems.append(problem)

    def take(self, round_: int, commit: CommitRecord, pushes: list[PushRecord]) -> None:
        """Check one commit against the pushes of its tag."""
        if len(commit.steps) != len(self._committed):
            raise BadInput(
                f"round {round_} is a commit of {len(commit.steps)} workers, the training has "
                f"{len(self._committed)}"
            )
        pushes = sorted(pushes, key=lambda push: (push.rank, push.step))
        before, self._committed = self._committed, commit.steps
        if any(end < first for first, end in zip(before, commit.steps, strict=True)):
            self.say(f"round {round_}: steps {commit.steps} are committed behind {before}")
        due = [
            (rank, step)
            for rank, (first, end) in enumerate(zip(before, commit.steps, strict=True))
            for step in range(first, end)
        ]
        found = [(push.rank, push.step) for push in pushes]
        if found != due:
            self.say(
                f"round {round_}: committed are the (rank, step) {_show(due)}, pushed were "
                f"{_show(found)}"
            )
        keys, sums = sum_of(pushes, commit.fraction_bits)
        if keys.tobytes() != commit.keys.astype(KEY).tobytes():
            self.say(f"round {round_}: {len(commit.keys)} keys committed, {len(keys)} pushed")
        elif sums.tobytes() != commit.sums.astype(VALUE).tobytes():
            wrong = np.flatnonzero(sums.view(np.uint32) != commit.sums.view(np.uint32))
            self.say(
                f"round {round_}: {len(wrong)} of {len(keys)} sums differ, first that of key "
                f"{keys[wrong[0]]}: {commit.sums[wrong[0]]!r} committed, {sums[wrong[0]]!r} pushed"
            )
        for push in pushes:
            self._sha256.update(np.array([push.rank, push.step], STEP).tobytes())
            self._sha256.update(push.keys.tobytes())
            self._sha256.update(push.gradients.tobytes())
            self._gradients += len(push.keys)
        self._commits += 1
        self._steps += len(pushes)

    def end(self, steps: Sequence[int]) -> None:
        """Compare what is committed with the `steps` of each rank that the training has."""
        for rank, (done, due) in enumerate(zip(self._committed, steps, strict=True)):
            if done < due:
                self.say(
                    f"worker {rank}: of {due} steps the commits have {done}; the last ones "
                    f"are missing"
                )
            elif done > due:
                self.say(f"worker {rank}: the commits have {done} steps of {due}")

    def result(self, recorded: int) -> AuditResult:
        """The verdict, of `recorded` pushes in all."""
        return AuditResult(
            not self._problems,
            self._sha256.hexdigest(),
            self._commits,
            self._steps,
            self._gradients,
            recorded - self._steps,
            tuple(self._problems[:MAX_PROBLEMS]),
        )


def sum_of(pushes: list[PushRecord], fraction_bits: int) -> tuple[Keys, FloatArray]:
    """The sum of pushes in the order of (rank, step), as section 3 of the design defines it.

    Returns:
        uint64[n] keys, ascending, and float32[n] sums.
    """
    if not pushes:
        return np.zeros(0, KEY), np.zeros(0, VALUE)
    keys, at = np.unique(np.concatenate([push.keys for push in pushes]), return_inverse=True)
    gradients = np.concatenate([push.gradients for push in pushes])
    fixed, escaped = to_fixed(gradients, fraction_bits)
    total = np.zeros(len(keys), np.int64)
    np.add.at(total, at, fixed)
    sums = to_float32(total, fraction_bits)
    if escaped.any():
        # One after the other: the order in which floats are added shows in the result.
        exact = np.ldexp(total.astype(np.float64), -fraction_bits)
        with np.errstate(invalid="ignore", over="ignore"):
            np.add.at(exact, at[escaped], gradients[escaped].astype(np.float64))
            affected = np.unique(at[escaped])
            sums[affected] = exact[affected].astype(np.float32)
    return keys, sums


def _show(pairs: list[tuple[int, int]]) -> str:
    shown = ", ".join(map(str, pairs[:4]))
    return f"{shown}, … ({len(pairs)})" if len(pairs) > 4 else shown or "none"
