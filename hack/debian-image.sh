#!/bin/sh
# debian-image.sh DIR [PACKAGE...]: creates in DIR the root of a small Debian with a
# working apt-get and the given packages, for the image rootfs:DIR. Its packages and
# its apt sources are those of this machine. Several processes may run it at once
# with the same DIR: the first one creates the root, the others wait for it.
set -eu
dir=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.flock"
flock 9
[ -e "$dir/usr/share/aloft/packages.lock" ] && exit 0
rm -rf "$dir" "$dir.new"
trap 'rm -rf "$dir.new"' EXIT INT TERM
sources=
for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.sources /etc/apt/sources.list.d/*.list; do
	[ -s "$f" ] && sources="$sources $f"
done
packages=$(echo bash ca-certificates git procps sudo "$@" | tr ' ' ,)
# shellcheck disable=SC2086 # a list of files
mmdebstrap --quiet --mode=root --variant=apt --include="$packages" \
	--customize-hook="$here/images/setup.sh" '' "$dir.new" $sources 9>&-
mv "$dir.new" "$dir"
