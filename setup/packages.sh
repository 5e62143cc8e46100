#!/usr/bin/env bash
# packages.sh [--optional] GROUP…: install the Debian packages of each group whose programs are
# missing. Without root or sudo it says what is missing and fails; with --optional it goes on.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/apt.sh"

optional=no
missing=()

need() {
    local program=$1 package=$2
    has "$program" || add "$package"
}

add() {
    case " ${missing[*]-} " in
        *" $1 "*) ;;
        *) missing+=("$1") ;;
    esac
}

# The headers come in a package of their own.
can_compile() {
    has cc && echo '#include <stdio.h>
        #include <linux/if_packet.h>' | cc -fsyntax-only -x c - 2>/dev/null
}

for group in "$@"; do
    case $group in
        --optional)
            optional=yes
            ;;
        emulation)
            need mnexec mininet
            need ip iproute2
            need tc iproute2
            need bridge iproute2
            need ethtool ethtool
            need ifconfig net-tools
            need sysctl procps
            need unshare util-linux
            need nsenter util-linux
            need mount mount
            ;;
        compiler)
            if ! can_compile; then
                add gcc
                add libc6-dev
            fi
            ;;
        *)
            fail "packages.sh: unknown group '$group': known are emulation, compiler"
            ;;
    esac
done

[ ${#missing[@]} -gt 0 ] || exit 0

if install_packages "${missing[@]}"; then
    exit 0
fi
if [ "$optional" = yes ]; then
    say "going on without ${missing[*]}: the tests that need them will be skipped"
else
    exit 1
fi
