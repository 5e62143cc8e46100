"""What `libra status` tells."""

from __future__ import annotations

import json
import socket
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from controller.cli_connection import newest_socket
from controller.cli_status import status_fields, status_lines
from controller.jobapi.ask import JobStatus, read_status
from controller.jobapi.channel import ControllerAddress, NoController
from host_stack.errors import BadInput
from host_stack.standing import Standing


def found(
    fraction_bits: int = 33, exponents: dict[int, int] | None = None, **reasons: int
) -> JobStatus:
    """A job with some packets by reason, and sampled exponents if there are some."""
    changes = [(1, "the job begins"), (2, "the switch was empty")]
    status = JobStatus(2, 7, fraction_bits, 1, 12000, "ready", reasons, changes)
    if exponents is None:
        return status
    counts = np.zeros(256, np.int64)
    counts[list(exponents)] = list(exponents.values())
    return replace(status, standing=Standing(7, 1000, 25, 4.5e6, counts), reported_s_ago=0.5)


def told(status: JobStatus) -> str:
    """The text for people."""
    return "\n".join(status_lines(status))


def test_a_status_is_told() -> None:
    """Round, epoch, switch, why epochs were made, packets that were seen."""
    text = told(found(aggregated=1234, duplicate=0))
    assert "round 7, epoch 2" in text
    assert "F = 33, placement 1" in text
    assert "switch ready, 12,000 hot keys" in text
    assert "epoch 2: the switch was empty" in text
    assert "1,234" in text
    assert "duplicate" not in text


def test_the_standing_is_told() -> None:
    """Goodput, what escaped, and how large gradients are."""
    text = told(found(exponents={121: 30, 122: 60, 110: 10}))
    assert "4.50 Mbit/s" in text
    assert "25 of 1,000 gradients escaped (2.50%)" in text
    assert "90.00%" in text
    assert "F = 33 fits" in text


def test_no_scale_is_judged_while_none_is_known() -> None:
    """A controller that was started again has no epoch until it has read the switch."""
    status = replace(found(0, {121: 30}), epoch=0)
    assert status.scale is None
    assert status.scale_fields() is None
    assert "coarse" not in told(status)


@pytest.mark.parametrize(
    ("fraction_bits", "fate", "verdict"), [(70, "escape", "fine"), (0, "count as 0", "coarse")]
)
def test_a_scale_that_does_not_fit_is_told(fraction_bits: int, fate: str, verdict: str) -> None:
    """And which one would."""
    status = found(fraction_bits, {110: 50, 120: 50})
    text = told(status)
    assert fate in text
    assert f"F = {fraction_bits} is too {verdict}" in text
    assert "take F = 46" in text
    fields = json.loads(json.dumps(status_fields(status)))
    assert fields["schema"] == 1
    assert fields["scale"]["better_fraction_bits"] == 46
    assert fields["scale"]["exponents"] == {"110": 50, "120": 50}


def test_nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error says so, and what to do; a socket that nobody serves is another one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(BadInput, match="--controller"):
        newest_socket()
    folder = tmp_path / "libra-x"
    folder.mkdir()
    (folder / "job.sock").touch()
    with pytest.raises(BadInput, match="--controller"):
        newest_socket()
    with socket.create_server(str(folder / "job.sock.alive"), family=socket.AF_UNIX) as alive:
        (folder / "job.sock").unlink()
        (folder / "job.sock.alive").rename(folder / "job.sock")
        killed = tmp_path / "libra-y" / "job.sock"
        killed.parent.mkdir()
        killed.touch()
        assert newest_socket() == folder / "job.sock"
        alive.close()
    with pytest.raises(NoController, match="does not answer"):
        read_status(ControllerAddress.at_socket(folder / "job.sock"), 1, 0.3)
