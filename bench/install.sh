#!/usr/bin/env bash
# Installs what `make bench` needs and this machine lacks, with apt-get: protoc, which the crate `pulsar` is built with, and
# nginx and wrk, which the sidecar is measured beside and with, and nats-server, for the bus on it. Zerodha's own client comes from PyPI, into a venv; where that fails
# the comparison with it is left out. `install.sh faults` installs what `make bench PART=faults` needs instead: PostgreSQL, Redis, nginx
# and HAProxy.
# Does nothing, and needs no network and no rights, when they are there. No service is started.
set -euo pipefail

say() { echo "bench/install.sh: $*" >&2; }

venv=$(cd "$(dirname "$0")/.." && pwd)/target/bench-venv
kiteconnect=5.2.2
has_kiteconnect() {
    "$venv/bin/python" -c "from importlib.metadata import version; assert version('kiteconnect') == '$kiteconnect'" 2>/dev/null
}
faults() { [ "$part" = faults ]; }
part=${1:-}
if ! faults && ! has_kiteconnect; then
    say "installing kiteconnect"
    { python3 -m venv --clear "$venv" &&
        "$venv/bin/pip" install --quiet --disable-pip-version-check "kiteconnect==$kiteconnect" </dev/null &&
        has_kiteconnect; } || { rm -rf "$venv"; say "kiteconnect cannot be installed, and is not measured"; }
fi

missing=()
command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || missing+=(nginx-light)
if faults; then
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || missing+=(postgresql)
    command -v redis-server >/dev/null || missing+=(redis-server)
    [ -x /usr/sbin/haproxy ] || missing+=(haproxy)
    command -v setpriv >/dev/null || missing+=(util-linux)
else
    [ -n "${PROTOC:-}" ] || command -v protoc >/dev/null || missing+=(protobuf-compiler)
    command -v wrk >/dev/null || missing+=(wrk)
    command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ] || missing+=(nats-server)
fi
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if ! command -v apt-get >/dev/null; then
    say "missing: ${missing[*]}; there is no apt-get here, so install them by hand"
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        say "missing: ${missing[*]}; installing them needs root, or sudo without a password"
        exit 1
    fi
    as_root=(sudo -n)
fi
say "installing ${missing[*]}"

# Packages ask this script whether they may start their services. A policy that is there already stays.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" </dev/null
