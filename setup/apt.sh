# Sourced: installs Debian packages.

# Reports why and returns 1 when the packages cannot be installed.
install_packages() {
    if ! has apt-get; then
        echo "error: this is no Debian or Ubuntu: please install what these of their packages" \
            "hold: $*" >&2
        return 1
    fi
    if ! can_be_root; then
        echo "error: without root or sudo, Debian packages cannot be installed; ask for:" \
            "apt install $*" >&2
        return 1
    fi
    say "installing Debian packages: $*"
    # The lists of a new machine are empty or old: fetch them once, when it turns out so.
    if ! apt_install "$@" >/dev/null 2>&1; then
        quietly as_root apt-get -qq update || echo "warning: apt-get update failed" >&2
        quietly apt_install "$@" || {
            echo "error: apt-get could not install $*" >&2
            return 1
        }
    fi
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 \
        -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" </dev/null
}
