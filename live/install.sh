#!/usr/bin/env bash
# Installs what `make live` needs and this machine lacks: redis-server, PostgreSQL, Knot DNS, nginx, nats-server, Prometheus, wrk, curl,
# Chromium and Python with apt-get, the Python clients of Pulsar, Indy, ZeroMQ, WebSocket, gRPC and OpenAlgo with pip, in virtual environments below
# target/, and kang with npm, there too. The second generation of OpenAlgo's wants Python 3.12, and kang wants Node.js: they are left out
# where there is none. Apache Pulsar is downloaded with Maven and unpacked below target/; it is left out where Java 17 or Maven is missing,
# or the download fails.
# Does nothing, and needs no network and no rights, when they are there. No service is started.
set -euo pipefail

say() { echo "live/install.sh: $*" >&2; }

has_redis() { command -v redis-server >/dev/null || [ -x /usr/bin/redis-server ]; }
has_postgres() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; }
has_psql() { command -v psql >/dev/null; }
has_nginx() { command -v nginx >/dev/null || [ -x /usr/sbin/nginx ]; }
has_nats() { command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ]; }
has_wrk() { command -v wrk >/dev/null; }
has_curl() { curl --version 2>/dev/null | grep -q HTTP2; }
has_knot() { command -v knotd >/dev/null || [ -x /usr/sbin/knotd ]; }
has_prometheus() { command -v promtool >/dev/null && command -v prometheus >/dev/null; }
has_chromium() { command -v chromium >/dev/null; }
has_setpriv() { command -v setpriv >/dev/null; }
has_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

target=$(cd "$(dirname "$0")/.." && pwd)/target

# has VENV PACKAGE==VERSION...
has() {
    "$target/$1/bin/python" - "${@:2}" 2>/dev/null <<'END'
import sys
from importlib.metadata import version

sys.exit(any(version(client.split("==")[0]) != client.split("==")[1] for client in sys.argv[1:]))
END
}

# provide PYTHON VENV PACKAGE==VERSION...
provide() {
    has "${@:2}" && return
    say "installing ${*:3}"
    "$1" -m venv --clear "$target/$2"
    "$target/$2/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: "${@:3}" </dev/null
    has "${@:2}" || { say "pip succeeded, and yet not all of ${*:3} are there"; exit 1; }
}

# A Python of at least 3.12 that can make virtual environments.
newer_python() {
    local python
    for python in python3 python3.12 python3.13 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[23]*/bin/python3; do
        if "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
            echo "$python"
            return
        fi
    done
}

install_clients() {
    provide python3 live-venv pulsar-client==3.13.0 indy-vdr==0.4.2 pyzmq==27.3.0 websockets==17.4 grpcio==1.85.1
    provide python3 live-openalgo-1 openalgo==1.0.47
    # What is left out is noted for the tests, which would not do without it otherwise.
    local newer left_out="$target/live-openalgo-2-left-out"
    newer=$(newer_python)
    if [ -n "$newer" ]; then
        provide "$newer" live-openalgo-2 openalgo==2.0.5
        rm -f "$left_out"
    else
        say "no Python 3.12: openalgo 2.0.5 is left out"
        rm -rf "$target/live-openalgo-2"
        touch "$left_out"
    fi
}

kang=1.3.0
has_kang() { grep -qs "\"version\": \"$kang\"" "$target/live-npm/node_modules/kang/package.json"; }

# What cannot be had is noted for the test, which would not do without it otherwise.
install_kang() {
    local left_out="$target/live-npm-left-out"
    if has_kang && command -v node >/dev/null; then
        rm -f "$left_out"
        return
    fi
    if command -v node >/dev/null && command -v npm >/dev/null; then
        say "installing kang $kang"
        mkdir -p "$target/live-npm"
        # No scripts: one of its packages would build something that it does without.
        if npm install --prefix "$target/live-npm" --no-save --no-audit --no-fund --ignore-scripts --loglevel error "kang@$kang" \
            </dev/null >"$target/live-npm/log" 2>&1 && has_kang; then
            rm -f "$left_out"
            return
        fi
        tail -n 5 "$target/live-npm/log" >&2
    fi
    say "no Node.js with npm that could install it: kang $kang is left out"
    touch "$left_out"
}

pulsar=4.0.8
has_pulsar() { [ -x "$target/live-pulsar/apache-pulsar-$pulsar/bin/pulsar" ]; }

# The major version of the Java in the path; empty if there is none.
java_version() { java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' || true; }

# leave_out_pulsar REASON: the tests print the reason.
leave_out_pulsar() {
    say "$1: Apache Pulsar $pulsar is left out"
    echo "$1" >"$target/live-pulsar-left-out"
}

# The distribution is 240 MB. Of the 4.0 releases, the registry has it for 4.0.4, 4.0.6 and 4.0.8 only. Plugin 2.8, since newer ones
# resolve the parent pom, which is not published for every release.
install_pulsar() {
    local java place="$target/live-pulsar"
    java=$(java_version)
    if [ -z "$java" ]; then
        leave_out_pulsar "no Java"
        return
    elif [ "$java" -lt 17 ]; then
        leave_out_pulsar "Java $java is older than 17"
        return
    fi
    if ! has_pulsar; then
        if ! command -v mvn >/dev/null; then
            leave_out_pulsar "no Maven"
            return
        fi
        say "downloading Apache Pulsar $pulsar"
        rm -rf "$place"
        mkdir -p "$place/unpacked"
        local archive="$place/m2/org/apache/pulsar/pulsar-server-distribution/$pulsar/pulsar-server-distribution-$pulsar-bin.tar.gz"
        # Moved when complete: an unpacking that was interrupted starts again.
        if ! { mvn -B -q -Dmaven.repo.local="$place/m2" org.apache.maven.plugins:maven-dependency-plugin:2.8:get -Dtransitive=false \
            -Dartifact=org.apache.pulsar:pulsar-server-distribution:$pulsar:tar.gz:bin &&
            tar xzf "$archive" -C "$place/unpacked" &&
            mv "$place/unpacked/apache-pulsar-$pulsar" "$place"; } </dev/null >"$place/log" 2>&1; then
            tail -n 5 "$place/log" >&2
            leave_out_pulsar "the download failed"
            return
        fi
        rm -rf "$place/m2" "$place/unpacked"
    fi
    rm -f "$target/live-pulsar-left-out"
}

missing=()
has_redis || missing+=(redis-server)
has_postgres || missing+=(postgresql)
has_psql || missing+=(postgresql-client)
has_knot || missing+=(knot)
has_nginx || missing+=(nginx-light)
has_nats || missing+=(nats-server)
has_prometheus || missing+=(prometheus)
has_wrk || missing+=(wrk)
has_curl || missing+=(curl)
has_chromium || missing+=(chromium)
has_setpriv || missing+=(util-linux)
has_venv || missing+=(python3 python3-venv)
if [ ${#missing[@]} -eq 0 ]; then
    install_clients
    install_kang
    install_pulsar
    exit 0
fi

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

work=$(mktemp -d)
policy=/usr/sbin/policy-rc.d
own_policy=no
cleanup() {
    if [ "$own_policy" = yes ]; then "${as_root[@]}" rm -f "$policy"; fi
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Packages ask this script whether they may start their services. A policy that is there already stays.
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$work/policy"
    own_policy=yes
    "${as_root[@]}" install -m 755 "$work/policy" "$policy"
fi

apt() {
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@" \
        >"$work/log" 2>&1 </dev/null; then
        say "apt-get $* failed:"
        tail -n 20 "$work/log" >&2
        exit 1
    fi
}

say "installing ${missing[*]}"
apt update
apt install -y --no-install-recommends "${missing[@]}"

for check in has_redis has_postgres has_psql has_knot has_nginx has_nats has_prometheus has_wrk has_curl has_chromium has_setpriv has_venv; do
    "$check" || { say "apt-get succeeded, and yet ${check#has_} is not there"; exit 1; }
done

install_clients
install_kang
install_pulsar
