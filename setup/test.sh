#!/usr/bin/env bash
# test.sh [OPTION…]: run the tests; the options are pytest's. Without any, all tests run, a process for each core.
source "$(dirname "$0")/common.sh"

if ! is_root; then
    say "not root: tests that need network namespaces of their own will be skipped"
fi
if [ $# -eq 0 ]; then
    # Neighbours share what a module's fixtures made; an idle process takes over from one that is behind.
    set -- --numprocesses "$(nproc)" --maxprocesses 8 --dist worksteal
fi
say "running the tests"
exec .venv/bin/python -m pytest "$@"
