package container

import (
	"strings"
	"testing"

	"aloft/internal/control/machine"
)

// askFilter reads the packet filter's tables by options of raw sockets, as
// iptables does without netlink. It tries every value of the level argument that
// the kernel accepts. Then it uses ordinary options.
const askFilter = `
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 55, "aarch64": 209}[os.uname().machine] # of getsockopt
def info(family, protocol, level, option):
    s = socket.socket(family, socket.SOCK_RAW, protocol)
    table, size = ctypes.create_string_buffer(b"filter", 84), ctypes.c_uint(84)
    return libc.syscall(ctypes.c_long(number), ctypes.c_long(s.fileno()), ctypes.c_long(level), ctypes.c_long(option), table, ctypes.byref(size)) == 0
for high in 0, 1 << 32:
    for family, protocol, level in (socket.AF_INET, 255, 0), (socket.AF_INET6, 255, 41):
        for option in 64, 65, 68, 69, 96, 128:
            if info(family, protocol, level | high, option) or info(family, protocol, level, option | high): print("reached", family, option, high)
six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, 8)
six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
six.setsockopt(socket.IPPROTO_IPV6, 72, 2) # IPV6_ADDR_PREFERENCES
four = socket.socket()
four.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)
four.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
print(four.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE))
`

// TestNoPacketFilter has a user in a machine use the packet filter of its own user and
// network namespace by socket options, which need no netlink.
func TestNoPacketFilter(t *testing.T) {
	m := create(t, newRuntime(t, t.TempDir(), engines(t)["runc"]), machine.Spec{Image: "host"}).(*Machine)
	got := ask(t, m, "setpriv", "--reuid=1000", "--regid=1000", "--clear-groups", "unshare", "-Urn", "python3", "-c", askFilter)
	if got.Code != 0 || strings.TrimSpace(got.Output) != "1" {
		t.Errorf("options of sockets: %+v", got)
	}
}
