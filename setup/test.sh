#!/usr/bin/env bash
# test.sh [OPTION…]: run the tests; the options are pytest's.
source "$(dirname "$0")/common.sh"

if ! is_root; then
    say "not root: tests that need network namespaces of their own will be skipped"
fi
say "running the tests"
exec .venv/bin/python -m pytest "$@"
