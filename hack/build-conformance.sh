#!/bin/sh
# Builds the runner of the Connect conformance suite, at a pinned version, into
# .bin/connectconformance. Does nothing if that version is there already.
set -eu

version=v1.0.5
hash=h1:w5d+gBj0uUX/DAN+hInQMeUxYTmec5m1Vvi2s/6V56s=

cd "$(dirname "$0")/.."
. hack/go-module.sh
out=$PWD/.bin/connectconformance
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	exit 0
fi

echo "connectconformance $version: fetching and building"
fetch_module connectrpc.com/conformance "$version" "$hash"
go_build 0 -ldflags "-s -w" -o "$work/connectconformance" ./cmd/connectconformance
mv -f "$work/connectconformance" "$out"
echo "$version $(go env GOARCH)" >"$stamp"
