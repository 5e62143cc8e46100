"""What networks of an emulation have in common: how they come up, and that nothing stays behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from mininet_topos.namespace import require_isolated, shielded_from_signals
from mininet_topos.processes import ProcessGroup
from mininet_topos.tools import NETWORK_TOOLS, require_tools


class Network(ABC):
    """A running network; use it as a context.

    `with` builds it; leaving the block, by whatever error or signal, undoes what `_stack` holds:
    every process is stopped and every interface removed. Processes log to `<run_dir>/logs`.

    Attributes:
        processes: the supervised processes of the emulation.

    """

    def __init__(self, run_dir: Path) -> None:
        self.processes = ProcessGroup(run_dir / "logs")
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        require_isolated()
        require_tools(*NETWORK_TOOLS)
        try:
            self._build()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    @abstractmethod
    def _build(self) -> None:
        """Bring everything up, and tell `_stack` how to take it down."""

    def _close(self) -> None:
        with shielded_from_signals():
            self._stack.close()
