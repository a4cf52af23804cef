#!/usr/bin/env bash
# Installs what `make bench` needs and this machine lacks: protoc, which the crate `pulsar` is built with, with apt-get.
# Does nothing, and needs no network and no rights, when it is there.
set -euo pipefail

say() { echo "bench/install.sh: $*" >&2; }

if [ -n "${PROTOC:-}" ] || command -v protoc >/dev/null; then exit 0; fi
if ! command -v apt-get >/dev/null; then
    say "missing: protoc; there is no apt-get here, so install it by hand"
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
        say "missing: protoc; installing it needs root, or sudo without a password"
        exit 1
    fi
    as_root=(sudo -n)
fi
say "installing protobuf-compiler"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends protobuf-compiler </dev/null
