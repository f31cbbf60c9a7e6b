#!/bin/sh
# Builds BuildKit's buildkitd and buildctl from its Go module at a pinned
# version, into .bin. Does nothing if that version is there already.
set -eu

version=v0.22.0
module=github.com/moby/buildkit

cd "$(dirname "$0")/.."
out=$PWD/.bin
stamp=$out/buildkit.built

if [ -x "$out/buildkitd" ] && [ -x "$out/buildctl" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	echo "BuildKit $version is built: .bin/buildkitd, .bin/buildctl"
	exit 0
fi
command -v go >/dev/null || {
	echo "build-buildkit: go is missing: see https://go.dev/doc/install" >&2
	exit 1
}

mkdir -p .bin
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT INT TERM

# The download runs outside of our module, so that it cannot touch our go.sum.
echo "BuildKit $version: fetching the module"
dir=$(cd "$work" && go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
[ -n "$dir" ] || { echo "build-buildkit: go mod download gave no directory for $module@$version" >&2; exit 1; }

# Its replace directives apply only to the main module, and the module cache is
# read-only, so build in a copy.
cp -R "$dir" "$work/src"
chmod -R u+w "$work/src"

echo "BuildKit $version: building (about four minutes of CPU time)"
(cd "$work/src" && CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off go build -trimpath \
	-ldflags "-s -w -X $module/version.Version=$version" -o "$work/" ./cmd/buildkitd ./cmd/buildctl)

"$work/buildctl" --version >/dev/null
mv -f "$work/buildkitd" "$work/buildctl" "$out/"
echo "$version $(go env GOARCH)" >"$stamp"
echo "BuildKit $version: built .bin/buildkitd and .bin/buildctl"
