#!/bin/sh
# setup.sh ROOT: what is done in the tree of the base image once its packages
# are installed. It leaves nothing behind that differs from one build to the next.
set -eu
root=$1
chroot "$root" useradd --create-home --uid 1000 --user-group --shell /bin/bash ubuntu
if [ -d "$root/etc/sudoers.d" ]; then
	echo 'ubuntu ALL=(ALL:ALL) NOPASSWD:ALL' >"$root/etc/sudoers.d/90-aloft"
	chmod 0440 "$root/etc/sudoers.d/90-aloft"
fi
[ ! -e "$root/usr/bin/fdfind" ] || ln -sf fdfind "$root/usr/bin/fd"
# Projects, Playwright and Puppeteer look for Chrome under these names.
if [ -x "$root/usr/bin/chromium" ] && [ ! -e "$root/usr/bin/google-chrome" ]; then
	mkdir -p "$root/opt/google/chrome"
	ln -s chromium "$root/usr/bin/google-chrome"
	ln -s /usr/bin/chromium "$root/opt/google/chrome/chrome"
fi
# git-lfs writes its part in another order each time.
if [ -x "$root/usr/bin/git-lfs" ]; then
	cat >"$root/etc/gitconfig" <<-'END'
		[filter "lfs"]
			clean = git-lfs clean -- %f
			process = git-lfs filter-process
			required = true
			smudge = git-lfs smudge -- %f
	END
fi
# What is installed, exactly: `aloft image build --lock` takes it back.
mkdir -p "$root/usr/share/aloft"
chroot "$root" dpkg-query -W -f '${Package}=${Version}\n' | LC_ALL=C sort >"$root/usr/share/aloft/packages.lock"
# The days in it are the build's.
sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1:19000:/' "$root/etc/shadow"
rm -f "$root/etc/shadow-" "$root/etc/passwd-" "$root/etc/group-" "$root/etc/gshadow-" "$root/etc/subuid-" "$root/etc/subgid-"
rm -rf "$root/var/cache/ldconfig/aux-cache" "$root/var/cache/apt/pkgcache.bin" "$root/var/cache/apt/srcpkgcache.bin"
rm -f "$root/etc/machine-id" "$root/etc/hostname" "$root/etc/resolv.conf" "$root/var/lib/dbus/machine-id"
: >"$root/etc/machine-id"
find "$root/var/log" -type f -delete
