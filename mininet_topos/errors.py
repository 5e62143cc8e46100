"""What can go wrong in an emulation, each with what to do about it."""

from host_stack.errors import BadInput, LibraError


class EmulationError(LibraError):
    """The root of the emulation's errors."""


class BadTopology(EmulationError, BadInput):
    """A topology, rate or name is outside of what is allowed."""


class NeedsRoot(EmulationError):
    """Network namespaces are made by root only."""


class MissingTool(EmulationError):
    """A program that the emulation calls is not installed."""


class IsolationFailed(EmulationError):
    """The kernel or the container forbids the namespaces that an emulation lives in."""


class NotIsolated(EmulationError):
    """A network was to be built outside of an emulation's own namespaces."""


class CommandFailed(EmulationError):
    """A set-up command returned an error."""


class ProcessDied(EmulationError):
    """A supervised process ended before it should.

    `process` is its name, `returncode` its exit code (negative: the signal that killed it) and
    `log_tail` the last lines that it logged. Where it has told `why` itself, that is shown alone.
    """

    def __init__(
        self,
        process: str,
        returncode: int,
        ending: str,
        log_tail: list[str],
        why: str | None = None,
    ) -> None:
        super().__init__(process, returncode)
        self.process = process
        self.returncode = returncode
        self.log_tail = log_tail
        self._ending = ending
        self._why = why

    def __str__(self) -> str:
        if self._why is not None:
            return f"{self.process}: {self._why}"
        return _with_tail(f"{self.process} {self._ending}", self.log_tail)


class NotReady(EmulationError):
    """A supervised process did not do in time what was waited for."""

    def __init__(self, process: str, awaited: str, timeout_s: float, log_tail: list[str]) -> None:
        super().__init__(process, awaited, timeout_s)
        self.process = process
        self.log_tail = log_tail
        self._text = f"{process}: no {awaited} within {timeout_s:g} s"

    def __str__(self) -> str:
        return _with_tail(self._text, self.log_tail)


def _with_tail(text: str, log_tail: list[str]) -> str:
    if not log_tail:
        return f"{text}; it logged nothing"
    return "\n".join([f"{text}; the last lines of its log:", *(f"  | {line}" for line in log_tail)])
