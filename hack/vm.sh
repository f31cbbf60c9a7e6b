#!/bin/sh
# vm.sh: runs Aloft in a virtual machine with Debian, systemd and cgroup v2 only, as most
# hosts have it. Without KVM (VM_ACCEL=tcg) everything in it is about ten times slower.
#
#   hack/vm.sh run CMD...        starts the VM if necessary and runs CMD in it, as root,
#                                with bin/aloft at /usr/local/bin
#   hack/vm.sh test PKG [FLAG].. runs the tests of a package in it
#   hack/vm.sh stop              shuts it down; its disk stays
#   hack/vm.sh remove            removes it
#
# VM_SUITE selects the release of Debian (bookworm), VM_DIR the folder of the VM.
# It needs root, because mmdebstrap and mkfs.ext4 have to keep the owners of files.
# shellcheck disable=SC2016 # commands for other shells
set -eu
cd "$(dirname "$0")/.."
suite=${VM_SUITE:-bookworm}
dir=${VM_DIR:-$PWD/.bin/vm}/$suite
accel=${VM_ACCEL:-kvm:tcg}

# What a server with Docker has, and what tests use.
packages=linux-image-cloud-amd64,initramfs-tools,systemd-sysv,udev,dbus,openssh-server,kmod,iproute2,iptables
packages=$packages,docker.io,docker-compose,git,sudo,curl,ca-certificates,ripgrep,tmux,procps,busybox-static,bubblewrap
packages=$packages,strace,python3,make,gcc,libc6-dev,xz-utils,zstd,e2fsprogs,mount,less,file,bsdextrautils

# create makes the disk, with a key that may sign in as root.
create() {
	[ ! -e "$dir/disk.ext4" ] || return 0
	hack/deps.sh vm
	rm -rf "$dir"
	mkdir -p "$dir"
	echo "creating a VM with Debian $suite in $dir (a few minutes)" >&2
	# The initial RAM disk needs only the drivers of this VM's disk.
	mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
		--aptopt='Apt::Install-Recommends "false"' \
		--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
		--essential-hook='echo MODULES=list >"$1/etc/initramfs-tools/conf.d/vm"' \
		--essential-hook='printf "%s\n" virtio_pci virtio_blk ext4 >"$1/etc/initramfs-tools/modules"' \
		"$suite" "$dir/root"
	cp "$dir"/root/boot/vmlinuz-* "$dir/vmlinuz"
	cp "$dir"/root/boot/initrd.img-* "$dir/initrd"
	ssh-keygen -q -t ed25519 -N '' -f "$dir/key"
	mkdir -p "$dir/root/root/.ssh"
	cp "$dir/key.pub" "$dir/root/root/.ssh/authorized_keys"
	# The authority of the host, which some networks need to reach package sources.
	cp /etc/ssl/certs/ca-certificates.crt "$dir/root/etc/ssl/certs/ca-certificates.crt"
	echo aloft-vm >"$dir/root/etc/hostname"
	echo 'nameserver 10.0.2.3' >"$dir/root/etc/resolv.conf"
	echo '/dev/vda / ext4 defaults 0 1' >"$dir/root/etc/fstab"
	printf '[Match]\nName=e*\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\n' >"$dir/root/etc/systemd/network/all.network"
	chroot "$dir/root" systemctl --quiet enable systemd-networkd
	# The server's Docker is not needed, only its programs in machines.
	chroot "$dir/root" systemctl --quiet disable docker containerd apt-daily.timer apt-daily-upgrade.timer
	truncate -s 12G "$dir/disk.new"
	mkfs.ext4 -q -F -E lazy_itable_init=1 -d "$dir/root" "$dir/disk.new"
	rm -rf "$dir/root"
	mv "$dir/disk.new" "$dir/disk.ext4"
}

in_vm() {
	ssh -q -F none -i "$dir/key" -p "$(cat "$dir/port")" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
		-o LogLevel=ERROR -o ConnectTimeout=60 -o ServerAliveInterval=30 \
		-o ControlMaster=auto -o ControlPath="$dir/ssh" -o ControlPersist=1h root@127.0.0.1 "$@"
}

running() { [ -e "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }

# start boots the VM in the background. It forwards a free port of the host's
# loopback to the VM's ssh server.
start() {
	create
	running && return
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	echo "$port" >"$dir/port"
	truncate -s 2G "$dir/files.disk"
	qemu-system-x86_64 -machine "q35,accel=$accel" -cpu max -smp 2 -m 4096 -no-reboot -nographic -nodefaults \
		-kernel "$dir/vmlinuz" -initrd "$dir/initrd" -append "root=/dev/vda rw console=ttyS0 quiet" \
		-drive "file=$dir/disk.ext4,format=raw,if=virtio,cache=unsafe" \
		-drive "file=$dir/files.disk,format=raw,if=virtio,cache=unsafe" -device virtio-rng-pci \
		-nic "user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:$port-:22" \
		-serial "file:$dir/console.log" -pidfile "$dir/pid" -daemonize
	tries=0
	until in_vm true 2>/dev/null; do
		tries=$((tries + 1))
		if [ $tries -gt 600 ] || ! running; then
			echo "the VM does not start; its console is in $dir/console.log" >&2
			exit 1
		fi
		sleep 1
	done
}

stop() {
	running || return 0
	pid=$(cat "$dir/pid")
	in_vm systemctl poweroff || :
	while kill -0 "$pid" 2>/dev/null; do sleep 1; done
}

# put copies the files below a folder to the VM's root folder, unless the VM has had the
# same before. They go through the second disk, which is much faster than ssh.
put() {
	tar -C "$1" --sort=name --mtime=@0 -cf "$dir/files.tar" .
	sum=$(sha256sum <"$dir/files.tar")
	[ "$sum" != "$(cat "$dir/files.sum" 2>/dev/null)" ] || return 0
	dd if="$dir/files.tar" of="$dir/files.disk" bs=1M conv=notrunc status=none
	in_vm 'dd if=/dev/vdb bs=1M iflag=direct status=none | tar -C / --no-overwrite-dir -x'
	echo "$sum" >"$dir/files.sum"
}

# run_tests runs the tests of a package in the VM, which has no Go: the test and the
# programs that it builds are built here, and "go build" in the VM copies them.
run_tests() {
	package=${1#./}
	shift
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT INT TERM
	mkdir -p "$work/aloft/src/$package" "$work/aloft/src/.bin" "$work/usr/local/bin"
	CGO_ENABLED=0 go test -c -trimpath -o "$work/aloft/src/$package/package.test" "./$package"
	for program in $(cat "$package"/*_test.go | grep -o '"aloft/[a-z0-9/-]*"' | tr -d '"' | sort -u); do
		[ "$(go list -f '{{.Name}}' "$program")" = main ] || continue
		CGO_ENABLED=0 go build -trimpath -o "$work/aloft/programs/$program" "$program"
	done
	printf '#!/bin/sh\n# go build -trimpath -o FILE PROGRAM\nexec cp "/aloft/programs/$5" "$4"\n' >"$work/usr/local/bin/go"
	chmod 755 "$work/usr/local/bin/go"
	cp .bin/runc "$work/aloft/src/.bin"
	[ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$work/aloft/src/$package"
	put "$work"
	in_vm "cd '/aloft/src/$package' && TEST_NEEDS=all ./package.test -test.v -test.timeout=2h $*"
}

case ${1-} in
run)
	shift
	start
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT INT TERM
	mkdir -p "$work/usr/local/bin"
	cp bin/aloft "$work/usr/local/bin"
	put "$work"
	in_vm "$@"
	;;
test)
	shift
	start
	run_tests "$@"
	;;
stop) stop ;;
remove)
	stop
	rm -rf "$dir"
	;;
*)
	sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
