#!/bin/sh
# deps.sh build|test|browser|engines|editor|vm|bench|release…: lists the Debian packages that are missing for the
# purpose, and installs them. Without apt it only lists them: the build fails with what
# it needs.
set -eu
want="git make"
for purpose in "$@"; do
	case $purpose in
	# gcc and libseccomp build the OCI runtime. Agents use sudo, ripgrep and tmux in
	# machines with the host's /usr.
	build)
		want="$want gcc libc6-dev libseccomp-dev pkg-config ca-certificates sudo ripgrep tmux"
		# npm builds the dashboard, and may be installed by other means than apt.
		command -v npm >/dev/null || want="$want nodejs npm"
		;;
	test)
		want="$want bubblewrap buildah busybox-static clangd curl dbus-daemon dpkg-dev ffmpeg file git-lfs iputils-ping mmdebstrap ntfs-3g openbox openssh-client perl poppler-utils procps python3-pytest rsync shellcheck strace tigervnc-standalone-server universal-ctags util-linux x11-utils x11-xserver-utils"
		# These may be installed by other means than apt.
		command -v postgres >/dev/null || want="$want postgresql"
		command -v python3 >/dev/null || want="$want python3"
		;;
	browser) want="$want chromium fonts-dejavu-core" ;;
	bench) want="$want fd-find chromium fonts-dejavu-core ffmpeg tigervnc-standalone-server" ;;
	engines) want="$want podman" ;;
	release) want="$want curl" ;;
	editor) want="$want g++ python3 ripgrep" ;;
	vm) want="$want e2fsprogs mmdebstrap openssh-client python3 qemu-system-x86" ;;
	esac
done
missing=
for p in $want; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
	echo "this is not Debian or Ubuntu: install the equivalents of$missing" >&2
	exit 0
fi
echo "installing the system packages$missing"
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
$sudo apt-get -qq update
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq -o Dpkg::Use-Pty=0 install --no-install-recommends -y $missing >/dev/null
