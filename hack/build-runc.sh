#!/bin/sh
# Builds the static runc that bin/aloft carries, from its Go module at a pinned
# version, into .bin/runc. Does nothing if that version is there already.
# Needs a C compiler, pkg-config and libseccomp-dev (the Makefile installs them).
# For another architecture, set GOARCH, CC and PKG_CONFIG_PATH; the result is then
# .bin/runc-GOARCH.
set -eu

version=v1.5.2
hash=h1:eUUowc2WJCnFYzI87C1WqRcu356Dk/wsoi90y+2wEfE=

cd "$(dirname "$0")/.."
. hack/lib.sh
out=.bin/runc
[ "$(go env GOARCH)" = "$(go env GOHOSTARCH)" ] || out=$out-$(go env GOARCH)
begin runc "$out.built" "$out"
require build "${CC:-cc}" pkg-config
pkg-config --exists libseccomp || {
	echo "build-runc: libseccomp is missing: hack/deps.sh build" >&2
	exit 1
}

echo "runc $version: fetching the module"
fetch_module github.com/opencontainers/runc "$version" "$hash"
echo "runc $version: building (about 20 s)"
go_build 1 \
	-tags "seccomp osusergo netgo" \
	-ldflags "-s -w -linkmode external -extldflags -static -X main.version=${version#v}" \
	-o "$work/runc" .

[ "$arch" != "$(go env GOHOSTARCH)" ] || "$work/runc" --version >/dev/null
mv -f "$work/runc" "$out"
finish
