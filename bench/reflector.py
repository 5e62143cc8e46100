"""The reflector as a process: python -m bench.reflector INTERFACE ANSWER_BYTES."""

from __future__ import annotations

import json
import sys

from bench.traffic import reflect
from host_stack.errors import LibraError


def main() -> int:
    """Reflect until the process is stopped."""
    ifname, answer_bytes = sys.argv[1], int(sys.argv[2])
    try:
        reflect(ifname, answer_bytes, lambda: print(json.dumps({"event": "ready"}), flush=True))
    except LibraError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
