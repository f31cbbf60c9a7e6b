#!/bin/sh
# debian-source.sh PACKAGE DIR [upstream]: unpacks the source of a Debian package
# into DIR; with "upstream", without Debian's changes. It does not change apt's
# state on this machine: it reads the machine's sources as deb-src, with a separate
# state folder.
set -eu
package=$1 dir=$2 what=${3:-all}
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/cache" "$state/parts" "$dir"
. /etc/os-release
for f in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
	[ -e "$f" ] && sed 's/^Types:.*/Types: deb-src/' "$f" >"$state/parts/$(basename "$f")"
done
if [ -e /etc/apt/sources.list ]; then
	sed -n 's/^deb \(.*\)/deb-src \1/p' /etc/apt/sources.list >"$state/parts/host.list"
fi
apt() {
	apt-get -qq -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" \
		-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$state/parts" -o APT::Sandbox::User=root "$@"
}
apt update
cd "$dir"
if [ "$what" = upstream ]; then
	apt source --tar-only "$package"
	tar xf ./*.orig.tar.*[!c]
else
	apt source "$package"
fi
