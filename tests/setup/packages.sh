#!/bin/sh
# usage: packages.sh PACKAGE...
#
# Install those of the named Debian packages that are missing: as root, or by sudo, else print the one line and stop.
# No service is started, now or at the next boot: the tests bring up servers of their own.
set -eu

if ! command -v dpkg-query >/dev/null; then
    echo "note: no apt here, so nothing was installed; Debian calls what is needed: $*" >&2
    exit 0
fi

missing=
for package; do
    case $package in
    chromium) # Ubuntu's package of that name brings a snap, which no container can run
        if grep -qx 'ID=ubuntu' /etc/os-release; then continue; fi ;;
    esac
    if [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
        missing="$missing $package"
    fi
done
if [ -z "$missing" ]; then
    exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        exec sudo sh "$0" "$@"
    fi
    echo "Some Debian packages are missing, and only root can install them. Run this, and then make again:" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi

policy=/usr/sbin/policy-rc.d                         # asked by invoke-rc.d(8) and deb-systemd-invoke(1): 101 is "no"
cluster=/etc/postgresql-common/createcluster.conf    # asked when postgresql is installed: whether to make a database
own_policy='' own_cluster=''
log=$(mktemp)
restore() {
    rm -f "$log"
    if [ -n "$own_policy" ]; then rm -f "$policy"; fi
    if [ -n "$own_cluster" ] && [ -e "/usr/share/postgresql-common/${cluster##*/}" ]; then
        cp "/usr/share/postgresql-common/${cluster##*/}" "$cluster"
        rm -f "$cluster.ucf-dist"
    fi
}
trap restore EXIT
trap 'exit 1' HUP INT TERM
if [ ! -e "$policy" ]; then
    own_policy=yes
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
case $missing in
*postgresql*)
    if [ ! -e "$cluster" ]; then
        own_cluster=yes
        mkdir -p "${cluster%/*}"
        echo 'create_main_cluster = false' >"$cluster"
    fi ;;
esac

echo "apt-get install --no-install-recommends$missing"
export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
apt-get update -qq || echo 'warning: apt-get update failed; going on with the lists that are here' >&2
# shellcheck disable=SC2086 # the packages are words
if ! apt-get install -y --no-install-recommends -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 $missing >"$log" 2>&1; then
    cat "$log" >&2
    exit 1
fi
