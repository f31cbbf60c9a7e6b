// Package listening finds the TCP ports of a machine on which programs listen.
package listening

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port is a TCP port on which a program listens.
type Port struct {
	Port    uint16
	Program string // name of the process, at most 15 bytes; "" if unknown
}

// maxSockets is how many listening sockets are considered.
const maxSockets = 4096

// List returns the ports that accept connections on a loopback address, sorted. proc is
// the folder /proc. The names of programs are known only as far as the caller may read the
// descriptors of their processes.
func List(proc string) ([]Port, error) {
	sockets := make(map[string]uint16) // the port by the socket's inode
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "net", name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		err = errors.Join(readSockets(f, sockets), f.Close())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	owners, err := findOwners(proc, sockets)
	if err != nil {
		return nil, err
	}
	programs := make(map[uint16]string)
	for inode, port := range sockets {
		programs[port] = cmp.Or(programs[port], owners[inode])
	}
	ports := make([]Port, 0, len(programs))
	for port, program := range programs {
		ports = append(ports, Port{port, program})
	}
	slices.SortFunc(ports, func(a, b Port) int { return cmp.Compare(a.Port, b.Port) })
	return ports, nil
}

// stateListen is TCP_LISTEN in /proc/net/tcp.
const stateListen = "0A"

// readSockets adds the listening sockets of /proc/net/tcp or tcp6 that accept
// connections on a loopback address. A line has the number, the local address, the
// remote address, the state, five more fields and the inode (proc(5)).
func readSockets(r io.Reader, sockets map[string]uint16) error {
	lines := bufio.NewScanner(r)
	lines.Scan() // the heading
	for lines.Scan() && len(sockets) < maxSockets {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != stateListen {
			continue
		}
		local, err := parseAddress(fields[1])
		if err != nil {
			return err
		}
		if a := local.Addr().Unmap(); a.IsLoopback() || a.IsUnspecified() {
			sockets[fields[9]] = local.Port()
		}
	}
	return lines.Err()
}

// parseAddress parses an address such as 0100007F:1F90. Each group of eight digits is 32
// bits in the order of the CPU, which is little-endian on all platforms of Aloft.
func parseAddress(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%.60q is not an address", s)
	}
	for group := range slices.Chunk(b, 4) {
		slices.Reverse(group)
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%.60q is not an address", s)
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil
}

// findOwners returns the names of the processes that have the sockets open, by the
// sockets' inodes. Of several processes that share a socket, it is the one with the
// lowest id. Processes that end meanwhile, or that the caller may not read, are left out.
func findOwners(proc string, sockets map[string]uint16) (map[string]string, error) {
	owners := make(map[string]string)
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if len(owners) == len(sockets) {
			break
		}
		dir := filepath.Join(proc, strconv.Itoa(id))
		for _, inode := range openSockets(filepath.Join(dir, "fd")) {
			_, listens := sockets[inode]
			if _, found := owners[inode]; found || !listens {
				continue
			}
			name, _ := os.ReadFile(filepath.Join(dir, "comm")) // the process may have ended
			owners[inode] = strings.TrimSpace(string(name))
		}
	}
	return owners, nil
}

// openSockets returns the inodes of the sockets among a process's descriptors.
func openSockets(dir string) (inodes []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(maxSockets)
	for _, name := range names {
		target, _ := os.Readlink(filepath.Join(dir, name))
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}
