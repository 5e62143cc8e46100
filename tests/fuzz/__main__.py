"""`python -m tests.fuzz TARGET…`: see docs/development.md."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from tests.fuzz.run import TARGETS, run_target, save


def main() -> int:
    """Run targets one after the other until something fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each target (300)")
    parser.add_argument("--seed", type=int, help="of the mutations; a new one unless given")
    parser.add_argument("--input", type=Path, action="append", help="try this file alone")
    options = parser.parse_args()
    targets = options.targets or TARGETS
    if unknown := set(targets) - set(TARGETS):
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(TARGETS)}")
    for name in targets:
        seed = secrets.randbits(32) if options.seed is None else options.seed
        print(f"{name}: seed {seed}", flush=True)
        outcome = run_target(name, seed, seconds=options.seconds, inputs=options.input or ())
        if outcome.failed is not None:
            print(outcome.report)
            print(f"{name}: failed; the input is in {save(name, outcome.failed, Path.cwd())}")
            return 1
        print(f"{name}: {outcome.tried} inputs, {outcome.reached} got far, none failed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
