"""The log of a process, for people and for programs."""

from __future__ import annotations

import argparse
import io
import json
import logging

import pytest

from controller.daemon.event_log import log_event
from host_stack import logs
from host_stack.errors import BadInput

LOGGER = logging.getLogger("host_stack.somewhere")


def lines(stream: io.StringIO) -> list[dict]:
    """What was logged as JSON."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_json_has_job_epoch_and_round_as_they_are_when_a_line_is_written() -> None:
    """Not as they were when the log was set up."""
    stream, at = io.StringIO(), {"job": 7, "epoch": 1, "round": 0}
    logs.start("json", "server", stream=stream)
    logs.describe(lambda: at)
    LOGGER.info("a round of %d keys", 3)
    at["epoch"], at["round"] = 2, 5
    LOGGER.warning("a switch is silent", extra={"fields": {"switch": "s1", "round": 4}})
    first, second = lines(stream)
    assert first.pop("at_s") <= second.pop("at_s")
    assert first == {
        "level": "info",
        "process": "server",
        "logger": "host_stack.somewhere",
        "text": "a round of 3 keys",
        "job": 7,
        "epoch": 1,
        "round": 0,
    }
    assert (second["level"], second["switch"]) == ("warning", "s1")
    assert (second["epoch"], second["round"]) == (2, 4)


def test_people_read_the_same() -> None:
    """Job 0 and no switch are left out, round 0 and worker 0 are not."""
    stream = io.StringIO()
    logs.start("text", "worker", stream=stream)
    logs.describe(lambda: {"job": 7, "worker": 0, "round": 0})
    LOGGER.info("ready")
    LOGGER.info("none", extra={"fields": {"job": 0, "switch": "", "round": None, "worker": None}})
    told = [line.split(" ", 1)[1] for line in stream.getvalue().splitlines()]
    assert told == ["info worker job 7 worker 0 round 0: ready", "info worker: none"]


@pytest.mark.parametrize("form", logs.FORMATS)
def test_an_exception_is_there(form: str) -> None:
    """In JSON within its line."""
    stream = io.StringIO()
    logs.start(form, "server", stream=stream)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        LOGGER.exception("a handler failed")
    assert "ZeroDivisionError" in stream.getvalue()
    if form == "json":
        (line,) = lines(stream)
        assert line["traceback"].startswith("Traceback")


def test_levels() -> None:
    """Of this project's packages as asked for, of others warnings."""
    stream = io.StringIO()
    logs.start("json", "server", stream=stream)
    LOGGER.debug("nothing")
    logging.getLogger("another").info("nothing")
    logging.getLogger("another").warning("a warning")
    logs.start("json", "server", level="debug", stream=stream)
    LOGGER.debug("details")
    assert [line["text"] for line in lines(stream)] == ["a warning", "details"]
    with pytest.raises(BadInput, match="log format 'xml': known are text, json"):
        logs.start("xml", "server")
    with pytest.raises(BadInput, match="log level 'loud'"):
        logs.start("text", "server", level="loud")


def test_why_a_process_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """A line of the log where that is JSON, else one that begins with `error: `."""
    logs.start("json", "server")
    logs.describe(lambda: {"job": 7})
    logs.tell_error(BadInput("no such file"))
    (line,) = [json.loads(each) for each in capsys.readouterr().err.splitlines()]
    assert (line["level"], line["text"], line["job"]) == ("error", "no such file", 7)
    logs.start("text", "server")
    logs.tell_error(BadInput("no such file"))
    assert capsys.readouterr().err == "error: no such file\n"


def test_events_of_a_controller() -> None:
    """Fields for programs, one sentence for people; what needs a look is a warning."""
    stream = io.StringIO()
    logs.start("json", "controller", stream=stream)
    log_event("epoch", job=3, switch="s1", text="epoch 2: a placement", epoch=2, round=9)
    log_event("switch-down", job=0, switch="s1", text="it does not answer")
    log_event("ready", jobs=0, switches=1)
    epoch, down, ready = lines(stream)
    assert (epoch["event"], epoch["text"]) == ("epoch", "epoch 2: a placement")
    assert (epoch["job"], epoch["epoch"], epoch["round"], epoch["level"]) == (3, 2, 9, "info")
    assert (down["event"], down["level"]) == ("switch-down", "warning")
    assert (ready["text"], ready["switches"]) == ("0 jobs, 1 switches", 1)
    stream.truncate(stream.seek(0))
    logs.start("text", "controller", stream=stream)
    log_event("epoch", job=3, switch="s1", text="epoch 2: a placement", epoch=2, round=9)
    assert stream.getvalue().endswith(
        " info controller switch s1 job 3 epoch 2 round 9: epoch: epoch 2: a placement\n"
    )


def test_options() -> None:
    """Every process of a job has the same."""
    parser = argparse.ArgumentParser()
    logs.add_options(parser)
    assert vars(parser.parse_args([])) == {"log_format": "text", "log_level": "info"}
    given = parser.parse_args(["--log-format", "json", "--log-level", "debug"])
    assert (given.log_format, given.log_level) == ("json", "debug")
    with pytest.raises(SystemExit):
        parser.parse_args(["--log-format", "xml"])


def test_standard_error_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    """Standard output is for events and results."""
    logs.start("text", "server")
    LOGGER.info("here")
    captured = capsys.readouterr()
    assert (captured.out, "here" in captured.err) == ("", True)
