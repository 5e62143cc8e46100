#!/usr/bin/env bash
# shell_venv.sh [--optional] FOLDER: a virtual environment with p4runtime-shell, pinned, made with
# the Python of .venv. Idempotent. With --optional it goes on where it cannot be made.
source "$(dirname "$0")/common.sh"

optional=no
if [ "$1" = --optional ]; then
    optional=yes
    shift
fi
venv=$1
here=$(pwd -P)
constraints=$(dirname "$0")/shell-constraints.txt
# Of this folder, these pins and this Python: anything else is made again.
stamp=$venv/.installed-$({ pwd -P; cat "$constraints"; .venv/bin/python --version; } | cksum | cut -d ' ' -f 1)

install() {
    rm -rf "$venv"
    quietly .venv/bin/python -m venv "$here/$venv" &&
        quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
            --progress-bar off --retries 1 --timeout 20 --requirement "$constraints" &&
        touch "$stamp"
}

[ ! -e "$stamp" ] || exit 0
say "making a virtual environment for p4runtime-shell in $venv"
if ! install; then
    rm -rf "$venv"
    [ "$optional" = yes ] || fail "pip could not install p4runtime-shell (is there Internet access?)"
    say "going on without p4runtime-shell: the tests that need it will be skipped"
fi
