#!/usr/bin/env bash
# clean.sh: remove what the other targets made in this folder. Shared caches of compiled programs
# and data sets in ~/.cache stay.
source "$(dirname "$0")/common.sh"

say "removing .venv, .venv-shell, out and caches"
rm -rf .venv .venv-shell out .pytest_cache .hypothesis .mypy_cache .ruff_cache ./*.egg-info
find . -name __pycache__ -type d -prune -exec rm -rf {} +
