#!/usr/bin/env bash
# venv.sh FOLDER: a virtual environment with Libra and all that it needs, pinned. Idempotent.
# $PYTHON chooses the interpreter; without it, the first on PATH from 3.11 on.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/apt.sh"

venv=$1
here=$(pwd -P)
constraints=$(dirname "$0")/constraints.txt

is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

version_of() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || echo unknown
}

find_python() {
    local candidate
    if [ -n "${PYTHON-}" ]; then
        has "$PYTHON" || fail "PYTHON=$PYTHON is not a program"
        is_recent "$PYTHON" || fail "PYTHON=$PYTHON is Python $(version_of "$PYTHON"); Libra needs 3.11 or later"
        echo "$PYTHON"
        return
    fi
    for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
        if has "$candidate" && is_recent "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    if has python3; then
        fail "python3 on PATH is Python $(version_of python3); Libra needs 3.11 or later. Install one" \
            "(for example: apt install python3.11 python3.11-venv) or name it: make run PYTHON=/path/to/python3.11"
    fi
    install_packages python3 python3-venv >&2 || exit 1
    is_recent python3 || fail "Debian's python3 is Python $(version_of python3); Libra needs 3.11 or later"
    echo python3
}

# Debian ships the module ensurepip in a package of its own.
require_ensurepip() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    local executable
    executable=$("$1" -c 'import sys; print(sys.executable)')
    case $executable in
        /usr/bin/*) install_packages "python$(version_of "$1")-venv" || exit 1 ;;
    esac
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$executable cannot make virtual environments: its module ensurepip is missing"
}

# Usable: its Python runs, is recent, and its scripts were made for this folder.
is_usable() {
    [ -x "$venv/bin/python" ] && is_recent "$venv/bin/python" &&
        [ "$(sed -n 's/^command = .* -m venv \(--clear \)*//p' "$venv/pyvenv.cfg")" = "$here/$venv" ] &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

if ! is_usable; then
    python=$(find_python)
    require_ensurepip "$python"
    say "making a virtual environment in $venv ($("$python" --version))"
    quietly "$python" -m venv --clear "$here/$venv"
fi
say "installing Python packages into $venv"
# Stamps of an earlier state must not outlive a failure.
rm -f "$venv"/.installed-*
quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --progress-bar off --constraint "$constraints" --editable '.[test]' ||
    fail "pip could not install the Python packages"
