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
. hack/go-module.sh
arch=$(go env GOARCH)
out=$PWD/.bin/runc
[ "$arch" = "$(go env GOHOSTARCH)" ] || out=$out-$arch
stamp=$out.built

if [ -x "$out" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $arch" ]; then
	echo "runc $version is built: ${out#"$PWD/"}"
	exit 0
fi
for tool in "${CC:-cc}" pkg-config; do
	command -v "$tool" >/dev/null || {
		echo "build-runc: $tool is missing: apt-get install -y gcc pkg-config libseccomp-dev" >&2
		exit 1
	}
done
pkg-config --exists libseccomp || {
	echo "build-runc: libseccomp is missing: apt-get install -y libseccomp-dev" >&2
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
echo "$version $arch" >"$stamp"
echo "runc $version: built ${out#"$PWD/"}, $(wc -c <"$out") bytes"
