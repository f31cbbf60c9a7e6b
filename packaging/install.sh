#!/bin/sh
# install.sh RELEASE installs aloft into /usr/local/bin, or $PREFIX/bin. RELEASE is
# the folder or the https:// address that contains SHA256SUMS and the tarballs.
# Nothing is installed unless the tarball has the checksum in SHA256SUMS.
set -eu

fail() {
	echo "install: $*" >&2
	exit 1
}

[ $# = 1 ] || fail "name the release's folder or https:// address, for example: sh install.sh https://example.com/aloft/v1.0.0"
release=${1%/}
bin=${PREFIX:-/usr/local}/bin

[ "$(uname -s)" = Linux ] || fail "the server needs Linux; this is $(uname -s)"
case $(uname -m) in
x86_64) arch=amd64 ;;
aarch64) arch=arm64 ;;
*) fail "there is no release for $(uname -m), only for x86_64 and aarch64" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# fetch NAME copies a file of the release into $work.
fetch() {
	case $release in
	https://*) curl -fsSL --proto =https --tlsv1.2 -o "$work/$1" "$release/$1" || fail "cannot download $release/$1" ;;
	*://*) fail "$release is neither a folder nor an https:// address" ;;
	*) cp "$release/$1" "$work/$1" || fail "cannot read $release/$1" ;;
	esac
}

fetch SHA256SUMS
line=$(grep "^[0-9a-f]\{64\}  aloft_[0-9A-Za-z.+~-]*_linux_$arch\.tar\.gz\$" "$work/SHA256SUMS") ||
	fail "SHA256SUMS names no tarball for $arch"
[ "$(printf '%s\n' "$line" | wc -l)" = 1 ] || fail "SHA256SUMS names several tarballs for $arch"
tarball=${line#*  }
echo "fetching $tarball"
fetch "$tarball"
(cd "$work" && printf '%s\n' "$line" | sha256sum -c - >/dev/null) ||
	fail "$tarball does not have the checksum in SHA256SUMS; nothing was installed"

tar -xzf "$work/$tarball" -C "$work" --strip-components=1 --no-same-owner "${tarball%.tar.gz}/aloft"
mkdir -p "$bin" || fail "cannot create $bin: run this as root, or set PREFIX"
# Renamed into place, so that a running aloft is replaced whole.
cp "$work/aloft" "$bin/.aloft.new" || fail "cannot write to $bin: run this as root, or set PREFIX"
chmod 755 "$bin/.aloft.new"
mv -f "$bin/.aloft.new" "$bin/aloft"
echo "installed $bin/aloft, $("$bin/aloft" version)"
echo "next: sudo $bin/aloft serve"
