"""What can go wrong between a PyTorch model and a job, by name."""

from host_stack.errors import BadInput, LibraError


class TorchMissing(LibraError, ImportError):
    """PyTorch is not installed."""


class TableError(BadInput):
    """An embedding, an index or a gradient that a job cannot take."""


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
