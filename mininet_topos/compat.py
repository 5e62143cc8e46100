"""The one place that imports Mininet.

Mininet imports `distutils`, which Python dropped in 3.12; setuptools provides it once it is
imported itself.
"""

import setuptools  # type: ignore[import-untyped]  # noqa: F401  isort: skip
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host, Switch

__all__ = ["Host", "Mininet", "Switch", "set_mininet_log"]

# Mininet would raise limits of the whole machine (fs.file-max, kernel.pty.max, …) at its first
# use; an emulation leaves the machine alone.
Mininet.inited = True


def set_mininet_log(verbose: bool) -> None:
    """Let Mininet tell each step on standard error, or errors alone."""
    setLogLevel("info" if verbose else "error")
