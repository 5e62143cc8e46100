# Sourced by the other scripts of this folder.

set -euo pipefail

# `ip`, `tc` and others are there, but not on the PATH of a user, nor of root after a plain `su`.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

say() {
    printf '== %s\n' "$*"
}

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

is_root() {
    [ "$(id -u)" -eq 0 ]
}

# Whether as_root can work: at once, or after a password where somebody is there to type it.
can_be_root() {
    is_root || { has sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

as_root() {
    if is_root; then
        "$@"
    else
        sudo "$@"
    fi
}

# Runs a command quietly; shows what it wrote only if it fails.
quietly() {
    local log code=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 </dev/null || code=$?
    [ "$code" -eq 0 ] || cat "$log" >&2
    rm -f "$log"
    return "$code"
}
