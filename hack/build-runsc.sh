#!/bin/sh
# Builds gVisor's runsc, the runtime of the strong class, from its Go module at
# a pinned version, into .bin/runsc. Does nothing if that version is there already.
set -eu

version=v0.0.0-20260905035102-160fafc42237
hash=h1:AU5+CtCvnBnxdZRNcZt1NfSLqgkXZVT3N/u6u1aXg44=

cd "$(dirname "$0")/.."
. hack/lib.sh
begin runsc .bin/runsc.built .bin/runsc

echo "runsc $version: fetching and building (about three minutes of CPU time)"
fetch_module gvisor.dev/gvisor "$version" "$hash"
go_build 0 -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$version" -o "$work/runsc" ./runsc

"$work/runsc" --version >/dev/null
mv -f "$work/runsc" .bin/runsc
finish
