#!/bin/sh
# Builds gVisor's runsc, the runtime of the strong class, from its Go module at
# a pinned version, into .bin/runsc. Does nothing if that version is there already.
set -eu

version=v0.0.0-20260905035102-160fafc42237
package=gvisor.dev/gvisor/runsc

cd "$(dirname "$0")/.."
out=$PWD/.bin/runsc
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	echo "runsc $version is built: .bin/runsc"
	exit 0
fi
command -v go >/dev/null || {
	echo "build-runsc: go is missing: see https://go.dev/doc/install" >&2
	exit 1
}

mkdir -p .bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# The build runs outside of our module, so that it cannot touch our go.mod.
echo "runsc $version: fetching and building (about three minutes of CPU time)"
(cd "$work" && GOBIN="$work" GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "$package@$version")

"$work/runsc" --version >/dev/null
mv -f "$work/runsc" "$out"
echo "$version $(go env GOARCH)" >"$stamp"
echo "runsc $version: built .bin/runsc, $(wc -c <"$out") bytes"
