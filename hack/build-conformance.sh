#!/bin/sh
# Builds the runner of the Connect conformance suite, at a pinned version, into
# .bin/connectconformance. Does nothing if that version is there already.
set -eu

version=v1.0.5
package=connectrpc.com/conformance/cmd/connectconformance

cd "$(dirname "$0")/.."
out=$PWD/.bin/connectconformance
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	exit 0
fi
mkdir -p .bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# The build runs outside of our module, so that it cannot touch our go.mod.
echo "connectconformance $version: fetching and building"
(cd "$work" && GOBIN="$work" GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "$package@$version")
mv -f "$work/connectconformance" "$out"
echo "$version $(go env GOARCH)" >"$stamp"
