"""The root of the project's exceptions; the command line makes a line and an exit code of them."""


class LibraError(Exception):
    """What went wrong, what is allowed and what to do, in one line.

    `exit_code` is what the command line returns: 1 for a failed run, 2 for bad input.
    """

    exit_code: int = 1


class BadInput(LibraError):
    """A value given by the user or a peer is outside of what is allowed."""

    exit_code = 2


class CannotWrite(LibraError):
    """A file that a job needs cannot be written: the disk is full, for example."""


class LayoutMismatch(LibraError):
    """Host, controller and switch disagree on LANES, the window or the version."""


class PushFailed(LibraError):
    """A push could not be completed; it names the packets that are not acknowledged."""


class DrainFailed(LibraError):
    """The switch did not answer a drain within the deadline."""


class Rewound(LibraError):
    """The job goes on at an earlier step than this process: its server was restarted.

    `step` is where it goes on. Load the state that was saved at that step, and train from there.
    """

    def __init__(self, step: int, was: int) -> None:
        super().__init__(
            f"the job goes on at step {step}, this process is at {was}: load the state that was "
            f"saved at step {step}, or start all processes anew"
        )
        self.step = step


class ServersApart(LibraError):
    """The servers of a job stand at rounds that its workers cannot lead together again.

    One of them has lost rounds that another one has committed: nothing is trained on from there.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: start all servers and workers of the job anew. Servers that keep a "
            "checkpoint of every round (checkpoint-every 1) can be started again one by one"
        )
