#!/bin/sh
# Builds versitygw, an S3 server for tests, from its Go module at a pinned
# version, into .bin/versitygw. Does nothing if that version is there already.
set -eu

version=v1.8.0
package=github.com/versity/versitygw/cmd/versitygw

cd "$(dirname "$0")/.."
out=$PWD/.bin/versitygw
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	echo "versitygw $version is built: .bin/versitygw"
	exit 0
fi
command -v go >/dev/null || {
	echo "build-versitygw: go is missing: see https://go.dev/doc/install" >&2
	exit 1
}

mkdir -p .bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# The build runs outside of our module, so that it cannot touch our go.mod.
echo "versitygw $version: fetching and building (about a minute of CPU time)"
(cd "$work" && GOBIN="$work" GOFLAGS=-mod=mod GOWORK=off CGO_ENABLED=0 go install -trimpath -ldflags "-s -w" "$package@$version")

"$work/versitygw" --version >/dev/null
mv -f "$work/versitygw" "$out"
echo "$version $(go env GOARCH)" >"$stamp"
echo "versitygw $version: built .bin/versitygw, $(wc -c <"$out") bytes"
