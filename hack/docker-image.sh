#!/bin/sh
# docker-image.sh DIR: creates in DIR the root of a Debian with docker.io, for the
# image rootfs:DIR. It downloads packages with this machine's apt without changing
# its state, unpacks them, and runs none of their scripts.
set -eu
dir=$1
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
[ -x "$dir/usr/sbin/dockerd" ] && exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
touch "$work/status"
mkdir "$work/debs"
# Resolved as if nothing were installed, so that the list is complete.
names=$(apt-get -o Dir::State::status="$work/status" -s -qq --no-install-recommends install \
	base-files bash ca-certificates coreutils diffutils docker.io findutils git grep gzip iptables libc-bin login \
	mount passwd procps sed sudo tar util-linux | sed -n 's/^Inst \([^ ]*\).*/\1/p')
cd "$work/debs"
# shellcheck disable=SC2086 # a list of words
apt-get -qq -o APT::Sandbox::User=root download $names
for d in bin sbin lib lib64; do
	mkdir -p "$dir/usr/$d"
	ln -sfn "usr/$d" "$dir/$d"
done
for d in *.deb; do
	dpkg-deb --fsys-tarfile "$d" | tar -x -C "$dir" --keep-directory-symlink
done
# Does what the packages' scripts would have done: the shell, root, and a sudo rule
# that lets everybody in the machine become root.
for stack in auth account password session session-noninteractive; do
	printf '%s required pam_permit.so\n' "${stack%%-*}" >"$dir/etc/pam.d/common-$stack"
done
ln -sfn bash "$dir/usr/bin/sh"
printf 'root:x:0:0:root:/root:/bin/bash\n' >"$dir/etc/passwd"
printf 'root:x:0:\ndocker:x:999:ubuntu\n' >"$dir/etc/group"
