#!/bin/sh
# Builds the static runc that bin/aloft carries, from its Go module at a pinned
# version, into .bin/runc. Does nothing if that version is there already.
# Needs a C compiler, pkg-config and libseccomp-dev (the Makefile installs them).
set -eu

version=v1.5.2
module=github.com/opencontainers/runc

cd "$(dirname "$0")/.."
out=$PWD/.bin/runc
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	echo "runc $version is built: .bin/runc"
	exit 0
fi
for tool in cc pkg-config go; do
	command -v "$tool" >/dev/null || {
		echo "build-runc: $tool is missing: apt-get install -y gcc pkg-config libseccomp-dev" >&2
		exit 1
	}
done
pkg-config --exists libseccomp || {
	echo "build-runc: libseccomp is missing: apt-get install -y libseccomp-dev" >&2
	exit 1
}

mkdir -p .bin
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT INT TERM

# The download runs outside of our module, so that it cannot touch our go.sum.
echo "runc $version: fetching the module"
dir=$(cd "$work" && go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
[ -n "$dir" ] || { echo "build-runc: go mod download gave no directory for $module@$version" >&2; exit 1; }

# The module cache is read-only, but the build may have to add to go.sum.
cp -R "$dir" "$work/src"
chmod -R u+w "$work/src"

echo "runc $version: building (about 20 s)"
(cd "$work/src" && CGO_ENABLED=1 GOFLAGS=-mod=mod GOWORK=off go build -trimpath \
	-tags "seccomp osusergo netgo" \
	-ldflags "-s -w -linkmode external -extldflags -static -X main.version=${version#v}" \
	-o "$work/runc" .)

"$work/runc" --version >/dev/null
mv -f "$work/runc" "$out"
echo "$version $(go env GOARCH)" >"$stamp"
echo "runc $version: built .bin/runc, $(wc -c <"$out") bytes"
