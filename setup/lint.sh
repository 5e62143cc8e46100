#!/usr/bin/env bash
# lint.sh: check style and types; runs every check before it fails.
source "$(dirname "$0")/common.sh"

failed=()
check() {
    say "$*"
    .venv/bin/python -m "$@" || failed+=("$1 $2")
}

check ruff check --quiet .
check ruff format --check --quiet .
check mypy --no-error-summary
[ ${#failed[@]} -eq 0 ] || fail "failed: $(IFS=,; echo "${failed[*]}")"
