#!/usr/bin/env bash
# as_root.sh [COMMAND…]: run a command of the virtual environment as root. What it leaves in out/
# belongs to the user who asked. Without a command, only fail where that is not possible.
source "$(dirname "$0")/common.sh"

can_be_root || fail "an emulation needs root, and sudo is not there or asks for a password:" \
    "run 'make' as root, or from a terminal"
[ $# -gt 0 ] || exit 0
! is_root || exec "$@"

# sudo resets PATH, and with it p4c and bmv2 where they are not in a system folder.
code=0
trap : INT TERM  # the command ends by itself; what follows it still has to be done
sudo -H env "PATH=$PATH" PYTHONDONTWRITEBYTECODE=1 "$@" || code=$?
if [ -d out ]; then
    sudo chown -R "$(id -u):$(id -g)" out
fi
exit "$code"
