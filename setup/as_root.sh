#!/usr/bin/env bash
# as_root.sh COMMAND…: run a command of the virtual environment as root. What it leaves in out/
# belongs to the user who asked.
source "$(dirname "$0")/common.sh"

if is_root; then
    exec "$@"
fi
can_be_root || fail "an emulation needs root, and sudo is not there or asks for a password:" \
    "run 'make' as root, or from a terminal"

# sudo resets PATH, and with it p4c and bmv2 where they are not in a system folder.
code=0
sudo env "PATH=$PATH" PYTHONDONTWRITEBYTECODE=1 "$@" || code=$?
if [ -d out ]; then
    sudo chown -R "$(id -u):$(id -g)" out
fi
exit "$code"
