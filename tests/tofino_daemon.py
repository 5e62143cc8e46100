"""A controller that finds the output of the Tofino back end in a folder.

`python -m tests.tofino_daemon FOLDER …`, and what `controller.daemon` takes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from controller.daemon.__main__ import main
from controller.targets.tofino import Tofino
from controller.targets.tofino_output import TofinoProgram

if __name__ == "__main__":
    folder = Path(sys.argv.pop(1))
    with mock.patch.object(
        Tofino, "load", lambda _target, program: TofinoProgram.load(program, folder)
    ):
        sys.exit(main())
