"""Where `libra` begins: importing all of it takes a moment, in which it may be interrupted."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    """Run the command line (`controller.cli.main`)."""
    try:
        cli = importlib.import_module("controller.cli")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    cli.main()
