package pid1

import (
	"context"
	"net/netip"
	"runtime"
	"slices"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"aloft/internal/guest/listening"
	"aloft/internal/wire/podv1"
)

// maxPorts is how many ports a reply lists.
const maxPorts = 256

// ListPorts implements pod.v1's PodService.
func (s *podServer) ListPorts(context.Context, *connect.Request[podv1.ListPortsRequest]) (*connect.Response[podv1.ListPortsResponse], error) {
	ports, err := listening.List("/proc")
	if err != nil {
		return nil, err
	}
	names := s.d.programsOfUser()
	c := s.d.cfg
	own := []string{c.GitAddr, c.ExecAddr, c.PTYAddr, c.ManageAddr, c.InsideAddr}
	res := &podv1.ListPortsResponse{}
	for _, p := range ports {
		if slices.ContainsFunc(own, func(address string) bool {
			a, err := netip.ParseAddrPort(address)
			return err == nil && a.Port() == p.Port
		}) {
			continue
		}
		if p.Program == "" {
			p.Program = names[p.Port]
		}
		if len(res.Ports) < maxPorts {
			res.Ports = append(res.Ports, &podv1.ListeningPort{Port: int32(p.Port), Program: p.Program})
		}
	}
	return connect.NewResponse(res), nil
}

// programsOfUser returns the names of the agent user's programs that listen, by their
// ports. The kernel compares the file system ids of the calling thread with the process
// whose descriptors are read (ptrace(2), access mode checking), and pod-daemon may lack
// CAP_SYS_PTRACE. The result is nil if the ids cannot be changed or the list is not
// readable: then the names remain unknown.
func (d *Daemon) programsOfUser() map[uint16]string {
	user := d.user.Load()
	programs := make(chan map[uint16]string)
	go func() {
		defer close(programs)
		runtime.LockOSThread()
		defer func() {
			if unix.Setfsuid(unix.Geteuid()) == nil && unix.Setfsgid(unix.Getegid()) == nil {
				runtime.UnlockOSThread() // otherwise the thread ends with this goroutine
			}
		}()
		if unix.Setfsgid(int(user.GID)) != nil || unix.Setfsuid(int(user.UID)) != nil {
			return
		}
		ports, err := listening.List("/proc")
		if err != nil {
			return
		}
		found := make(map[uint16]string)
		for _, p := range ports {
			found[p.Port] = p.Program
		}
		programs <- found
	}()
	return <-programs
}
