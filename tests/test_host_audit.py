"""The auditor finds what was lost, counted twice or changed by one bit."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from host_stack.aggregator import SoftwareAggregator
from host_stack.audit.check import AuditResult, audit, round_near
from host_stack.audit.log import CommitLog, PushLog, read_commits, read_pushes
from host_stack.errors import BadInput, CannotWrite
from host_stack.layout import TAG_ROUNDS, make_tag

NUM_KEYS = 500
WORKERS = 3
F = 33

Push = tuple[np.ndarray, np.ndarray]


def pushes(seed: int) -> list[Push]:
    """A push of each worker; some gradients escape."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(WORKERS):
        keys = np.sort(rng.choice(NUM_KEYS, 100, replace=False)).astype(np.uint64)
        values = rng.standard_normal(100).astype(np.float32)
        values[rng.random(100) < 0.1] = np.float32(1e30)
        values[rng.random(100) < 0.02] = np.float32(np.inf)
        made.append((keys, values))
    return made


def total(made: list[Push], fraction_bits: int) -> Push:
    """What the server comes to."""
    aggregator = SoftwareAggregator(NUM_KEYS, fraction_bits)
    for rank, (keys, values) in enumerate(made):
        aggregator.add(rank, keys.astype(np.int64), values)
    keys, sums = aggregator.take()
    return keys.astype(np.uint64), sums


class Logs:
    """Logs of a job whose rounds are committed one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers = [PushLog(folder, rank) for rank in range(WORKERS)]
        self.server = CommitLog(folder)

    def push(self, epoch: int, round_: int, made: list[Push]) -> None:
        """All workers push."""
        for log, (keys, values) in zip(self.workers, made, strict=True):
            log.record(make_tag(epoch, round_), round_, keys, values)

    def commit(self, epoch: int, round_: int, made: list[Push], fraction_bits: int = F) -> None:
        """The server commits."""
        steps = (round_ + 1,) * WORKERS
        sums = total(made, fraction_bits)
        self.server.record(make_tag(epoch, round_), steps, fraction_bits, *sums)

    def round(self, epoch: int, round_: int, made: list[Push]) -> None:
        """Both."""
        self.push(epoch, round_, made)
        self.commit(epoch, round_, made)


def check(logs: Logs, rounds: int) -> AuditResult:
    """What the audit says where the training has so many rounds."""
    return audit(logs.folder, [rounds] * WORKERS)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """Three rounds; the second one was pushed in two epochs."""
    made = Logs(tmp_path / "audit")
    made.round(1, 0, pushes(0))
    made.push(1, 1, pushes(1))
    made.round(2, 1, pushes(1))
    made.round(2, 2, pushes(2))
    return made


def test_what_was_applied_is_what_was_pushed(logs: Logs) -> None:
    """Pushes of an epoch that was given up are told, and no problem."""
    found = check(logs, 3)
    assert found.conserved, found.problems
    assert (found.commits, found.steps, found.gradients) == (3, 9, 900)
    assert found.discarded == WORKERS


def test_the_hash_tells_of_gradients_alone(logs: Logs, tmp_path: Path) -> None:
    """Other epochs and a server that went back give the same hash; another gradient does not."""
    again = Logs(tmp_path / "again")
    for round_ in range(3):
        again.round(1, round_, pushes(round_))
    again.server = CommitLog(again.folder)
    again.round(2, 1, pushes(1))
    again.round(2, 2, pushes(2))
    found = check(again, 3)
    assert found.conserved, found.problems
    assert found.pushed_sha256 == check(logs, 3).pushed_sha256
    other = Logs(tmp_path / "other")
    for round_ in range(3):
        other.round(1, round_, pushes(round_ + (round_ == 2)))
    assert check(other, 3).pushed_sha256 != found.pushed_sha256


def test_a_push_that_was_not_summed_is_found(logs: Logs) -> None:
    """Though only one of three workers is missing in the sum."""
    made = pushes(3)
    logs.push(2, 3, made)
    empty = (made[0][0][:0], made[0][1][:0])
    logs.commit(2, 3, [made[0], empty, made[2]])
    found = check(logs, 4)
    assert not found.conserved
    assert "round 3" in found.problems[0]


def test_a_push_that_was_summed_twice_is_found(logs: Logs) -> None:
    """All keys are there, and the sums are wrong."""
    made = pushes(3)
    logs.push(2, 3, made)
    keys, values = made[1]
    logs.commit(2, 3, [made[0], (keys, values + values), made[2]])
    found = check(logs, 4)
    assert not found.conserved
    assert "sums differ" in found.problems[0]


def test_one_flipped_bit_is_found(logs: Logs) -> None:
    """The last bit of one sum."""
    made = pushes(3)
    logs.push(2, 3, made)
    keys, sums = total(made, F)
    sums.view(np.uint32)[17] ^= 1
    logs.server.record(make_tag(2, 3), (4,) * WORKERS, F, keys, sums)
    found = check(logs, 4)
    assert not found.conserved
    assert f"1 of {len(keys)} sums differ, first that of key {keys[17]}" in found.problems[0]


def test_steps_occur_once(logs: Logs) -> None:
    """A step that is in two commits, and one that is in none, are named."""
    made = pushes(3)
    for log, (keys, values) in zip(logs.workers, made, strict=True):
        log.record(make_tag(2, 3), 2, keys, values)
    logs.commit(2, 3, made)
    found = check(logs, 4)
    assert not found.conserved
    assert "(0, 3)" in found.problems[0]
    assert "(0, 2)" in found.problems[0]


def test_a_round_that_was_left_out_is_found(logs: Logs) -> None:
    """Rounds follow each other."""
    logs.round(2, 4, pushes(4))
    found = check(logs, 5)
    assert not found.conserved
    assert found.problems[0] == "round 3 was never committed"


@pytest.mark.parametrize("cut", [1, 13, 19, 500])
def test_the_torn_end_of_a_killed_process_is_left_out(logs: Logs, cut: int) -> None:
    """What was not written whole was not told to anybody."""
    logs.push(2, 3, pushes(3))
    path = next(logs.folder.glob("push-001-*"))
    data = path.read_bytes()
    path.write_bytes(data[:-cut])
    assert len([push for push in read_pushes(logs.folder) if push.rank == 1]) == 4
    assert check(logs, 3).conserved


def shorten(folder: Path, keep: Callable[[bytes], bytes]) -> None:
    """Shorten the log of commits."""
    path = next(folder.glob("commit-*"))
    path.write_bytes(keep(path.read_bytes()))


@pytest.mark.parametrize(
    ("keep", "committed"),
    [(lambda log: log[:-1], 2), (lambda log: log[: len(log) // 2], 1), (lambda log: b"", 0)],
    ids=["a byte less", "half", "nothing"],
)
def test_commits_that_are_missing_at_the_end_are_found(
    logs: Logs, keep: Callable[[bytes], bytes], committed: int
) -> None:
    """They are not taken for pushes that were given up."""
    shorten(logs.folder, keep)
    found = check(logs, 3)
    assert not found.conserved
    assert found.commits == committed
    assert found.problems == tuple(
        f"worker {rank}: of 3 steps the commits have {committed}; the last ones are missing"
        for rank in range(WORKERS)
    )


def test_a_training_that_was_ended_early_lacks_steps(logs: Logs) -> None:
    """Of the workers that lack them, how many; and what nobody asked for is found, too."""
    found = audit(logs.folder, [3, 40, 2])
    assert not found.conserved
    assert found.problems == (
        "worker 1: of 40 steps the commits have 3; the last ones are missing",
        "worker 2: the commits have 3 steps of 2",
    )


def test_steps_that_go_back_are_found(logs: Logs) -> None:
    """Though the last commit has all of them."""
    nothing = (np.zeros(0, np.uint64), np.zeros(0, np.float32))
    logs.server.record(make_tag(2, 3), (2,) * WORKERS, F, *nothing)
    logs.server.record(make_tag(2, 4), (2,) * WORKERS, F, *nothing)
    logs.push(2, 5, pushes(2))
    found = check(logs, 2)
    assert not found.conserved
    assert found.problems == ("round 3: steps (2, 2, 2) are committed behind (3, 3, 3)",)


def test_rounds_that_a_server_lost_do_not_count(logs: Logs) -> None:
    """Out of step, the next process may need fewer rounds for the same steps."""
    steps, made = pushes(3), pushes(4)
    logs.round(2, 3, steps)
    logs.round(2, 4, made)
    logs.server = CommitLog(logs.folder)  # it has the rounds before 3 in its checkpoint
    for log, first, second in zip(logs.workers, steps, made, strict=True):
        log.record(make_tag(3, 3), 3, *first)
        log.record(make_tag(3, 3), 4, *second)
    aggregator = SoftwareAggregator(NUM_KEYS, F)
    for step, row in enumerate((steps, made)):
        for rank, (keys, values) in enumerate(row):
            at = keys.astype(np.int64)
            aggregator.add(rank, at, values, np.full(len(at), step))
    keys, sums = aggregator.take()
    logs.server.record(make_tag(3, 3), (5,) * WORKERS, F, keys.astype(np.uint64), sums)
    found = check(logs, 5)
    assert found.conserved, found.problems
    assert (found.commits, found.steps) == (4, 15)


@pytest.mark.parametrize("name", ["push-x-0.log", "push-1.log", "push--1-0.log", "push-²-0.log"])
def test_a_log_of_nobody_is_refused(logs: Logs, name: str) -> None:
    """Its name says whose pushes it has."""
    (logs.folder / name).write_bytes(b"")
    with pytest.raises(BadInput, match="push-RANK-NUMBER"):
        check(logs, 3)


def test_commits_of_another_number_of_workers_are_refused(logs: Logs) -> None:
    """They are of another training."""
    with pytest.raises(BadInput, match="of 3 workers, the training has 2"):
        audit(logs.folder, [3, 3])


def test_a_full_disk_is_told_in_a_line(logs: Logs) -> None:
    """With the name of the log; here of files that may not grow."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        with pytest.raises(CannotWrite, match=r"commit-0000\.log cannot be written: .*make room"):
            logs.commit(2, 3, pushes(3))
        with pytest.raises(CannotWrite, match=r"push-001-0000\.log cannot be written"):
            logs.workers[1].record(make_tag(2, 3), 3, *pushes(3)[1])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert check(logs, 3).conserved


def test_files_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    """By name, and without a crash."""
    with pytest.raises(BadInput, match="nothing to audit"):
        audit(tmp_path, [3])
    (tmp_path / "commit-0000.log").write_bytes(b"x" * 40)
    with pytest.raises(BadInput, match="is no log"):
        list(read_commits(tmp_path))


def test_a_commit_is_checked_at_its_own_scale(logs: Logs) -> None:
    """F may change with an epoch: the same pushes come to other sums, and both are right."""
    made = pushes(3)
    logs.push(3, 3, made)
    logs.commit(3, 3, made, F - 20)
    assert check(logs, 4).conserved
    fine, coarse = total(made, F)[1], total(made, F - 20)[1]
    assert fine.tobytes() != coarse.tobytes()
    logs.push(4, 4, made)
    keys, _ = total(made, F)
    logs.server.record(make_tag(4, 4), (5,) * WORKERS, F, keys, coarse)
    assert not check(logs, 5).conserved


@pytest.mark.parametrize("expected", [0, 5, TAG_ROUNDS - 1, TAG_ROUNDS, 3 * TAG_ROUNDS + 7])
@pytest.mark.parametrize("ahead", [-4, -1, 0, 1, 1000])
def test_rounds_go_on_where_tags_begin_anew(expected: int, ahead: int) -> None:
    """A commit is of the round nearest to the expected one; servers go back a little."""
    if (round_ := expected + ahead) >= 0:
        assert round_near(make_tag(2, round_), expected) == round_
