package container

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/process"
	"aloft/internal/control/machine/machinetest"
	"aloft/internal/control/machine/machinetest/standin"
	"aloft/internal/control/poll"
	"aloft/internal/policy"
)

// gateways counts the running egress processes of the machines below dir.
func gateways(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && strings.Contains(string(line), "--dir="+dir) {
			n++
		}
	}
	return n
}

// TestGatewayOutlivesServer runs a download while one server stops and another
// starts. The download must continue.
func TestGatewayOutlivesServer(t *testing.T) {
	halfway, on := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "first ")
		w.(http.Flusher).Flush()
		close(halfway)
		<-on
		_, _ = io.WriteString(w, "second")
	}))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, name := range []string{"runc"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newRuntime(t, dir, engines(t)[name])
			m := create(t, r, machine.Spec{Image: "host", Network: opened(policy.AllowAll)})
			conn := machinetest.Connect(t, m)
			heard := make(chan string, 1)
			go func() {
				reply, err := standin.Ask(t.Context(), conn, standin.Request{Argv: []string{"curl", "-sS", "-m", "60", "http://172.30.0.1:" + port}})
				heard <- fmt.Sprint(reply.Output, err)
			}()
			<-halfway
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			again := newRuntime(t, dir, engines(t)[name])
			m, err := again.Open(t.Context(), "m-1")
			if err != nil {
				t.Fatal(err)
			}
			for wait := poll.New(50 * time.Millisecond); ; { // the first bytes may not have arrived yet
				page, err := client(t, m).Connections(t.Context(), 0, 10, 0)
				if err != nil || len(page.Open) != 1 {
					t.Fatalf("the new server sees %+v, %v", page, err)
				}
				if page.Open[0].Received > 0 {
					break
				}
				if err := wait.Pause(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			close(on)
			if got := <-heard; got != "first second<nil>" {
				t.Errorf("the machine has %q", got)
			}
			if n := gateways(t, dir); n != 1 {
				t.Errorf("%d gateways", n)
			}
			// The egress process ends when the machine stops. A restart starts
			// a new one.
			killInit(t, again, "m-1")
			if err := m.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := m.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := ask(t, m, "sh", "-c", "curl -sS -m 20 http://172.30.0.1:1 2>&1 | grep -c -i connect"); got.Output != "1\n" {
				t.Errorf("after a restart: %+v", got)
			}
			recorded(t, m, func(c policy.Connection) bool { return c.Error == "connection refused" })
			if n := gateways(t, dir); n != 1 {
				t.Errorf("%d gateways after a restart", n)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := gateways(t, dir); n != 0 {
				t.Errorf("%d gateways after the machine is gone", n)
			}
			if _, err := m.(machine.Networked).DialGateway(t.Context()); err == nil {
				t.Error("the gateway of a machine that is gone was reached")
			}
		})
	}
}

// killGateway kills the egress process of a machine and waits until it is dead.
func killGateway(t *testing.T, m machine.Machine) {
	t.Helper()
	fd, err := process.Open(m.(*Machine).path(filepath.Join("link", gatewayProcess)))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(t.Context(), fd); err != nil {
		t.Fatal(err)
	}
}

// TestGatewayIsReborn kills egress processes of running machines. The server
// that started them must restart them, and so must a later server.
func TestGatewayIsReborn(t *testing.T) {
	reached := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			w.(http.Flusher).Flush()
			select {
			case reached <- struct{}{}:
			case <-r.Context().Done():
			}
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	url := "http://host.aloft.internal:" + port
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newRuntime(t, dir, path)
			m := create(t, r, machine.Spec{Image: "host", Network: opened(policy.AllowAll), ConnectionLog: "log"})
			get := func(url string) string {
				t.Helper()
				// curl retries until the new process accepts connections. It
				// does not retry a connection that was cut.
				return ask(t, m, "curl", "-sS", "-m", "20", "--retry", "20", "--retry-all-errors", "--retry-delay", "1", url).Output
			}
			if got := get(url); got != "hello" {
				t.Fatalf("before: %q", got)
			}
			ask(t, m, "sh", "-c", "curl -sS "+url+"/long >/dev/null 2>/run/cut &")
			<-reached
			killed := time.Now()
			killGateway(t, m)
			awaitGatewayOf(t, m)
			t.Logf("reborn after %v", time.Since(killed))
			if got := get(url); got != "hello" {
				t.Errorf("after the first death: %q", got)
			}
			recorded(t, m, func(c policy.Connection) bool { return strings.HasPrefix(c.Error, "cut") })
			// A later server also restarts the egress process, and applies the
			// current policy.
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			r = newRuntime(t, dir, path)
			m, err := r.Open(t.Context(), "m-1")
			if err != nil {
				t.Fatal(err)
			}
			if err := m.(machine.Networked).SetPolicy(t.Context(), policy.Network{Mode: policy.None}); err != nil {
				t.Fatal(err)
			}
			killGateway(t, m)
			awaitGatewayOf(t, m)
			if got := ask(t, m, "sh", "-c", "curl -sS -m 20 "+url+" 2>&1 | grep -c -i resolve"); got.Output != "1\n" {
				t.Errorf("with the policy of today: %q", got.Output)
			}
			if n := gateways(t, dir); n != 1 {
				t.Errorf("%d gateways", n)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkClean(t, r)
			kept, err := r.conf.ConnectionLogs.Read(t.Context(), "log")
			if err != nil || len(kept) < 3 || kept[len(kept)-1].Rule != "mode none" {
				t.Errorf("the log is %+v, %v", kept, err)
			}
		})
	}
}

// awaitGatewayOf waits until a machine's egress process answers.
func awaitGatewayOf(t *testing.T, m machine.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for wait := poll.New(10 * time.Millisecond); ; {
		_, err := client(t, m).Connections(ctx, 0, 1, 0)
		if err == nil {
			return
		}
		if wait.Pause(ctx) != nil {
			t.Fatal(err)
		}
	}
}

// TestGatewayEndsWithTheFolder moves a machine's folder away without the
// runtime's knowledge. The egress process must end.
func TestGatewayEndsWithTheFolder(t *testing.T) {
	dir := t.TempDir()
	r := newRuntime(t, dir, engines(t)["runc"])
	m := create(t, r, machine.Spec{Image: "host", Network: opened(policy.AllowAll)})
	fd, err := process.Open(m.(*Machine).path(filepath.Join("link", gatewayProcess)))
	if err != nil {
		t.Fatal(err)
	}
	kill, err := m.(*Machine).openInit()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(kill) }()
	aside := filepath.Join(t.TempDir(), "aside") // the test must clean up its mount and processes
	if err := os.Rename(m.(*Machine).dir, aside); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(aside, "link")); err != nil {
		t.Fatal(err)
	}
	if err := process.Wait(t.Context(), fd); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil { // no process is being started any more
		t.Fatal(err)
	}
	if n := gateways(t, dir); n != 0 {
		t.Errorf("%d gateways", n)
	}
	if err := unix.PidfdSendSignal(kill, unix.SIGKILL, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(aside, m.(*Machine).dir); err != nil {
		t.Fatal(err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestMachinesAreApart has a machine try to reach the host and other machines.
func TestMachinesAreApart(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret of the host") }))
	t.Cleanup(srv.Close)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	var hosts []string
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, _, err := net.ParseCIDR(a.String()); err == nil && !ip.IsLoopback() && ip.To4() != nil {
			hosts = append(hosts, ip.String())
		}
	}
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			m := create(t, r, machine.Spec{Image: "host", Network: policy.Network{Mode: policy.AllowAll}})
			other, err := r.Create(t.Context(), machine.Spec{ID: "m-2", Image: "host", Network: policy.Network{Mode: policy.AllowAll}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := other.Destroy(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			for _, to := range append([]string{"172.30.0.1", "172.30.0.3", "127.0.0.1", "host.aloft.internal", "169.254.169.254", "[fd00:a10f::1]", "[::ffff:7f00:1]"}, hosts...) {
				got := ask(t, m, "sh", "-c", "curl -sS -g -m 5 http://"+to+":"+port+"/ 2>&1")
				if strings.Contains(got.Output, "secret") || got.Output == "" {
					t.Errorf("%s is answered: %q", to, got.Output)
				}
			}
			for what, c := range map[string]struct{ command, want string }{
				"no gateway to see":   {"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'gateway-o[f]'", "0\n"},
				"no socket to find":   {"find / -xdev -name gateway.sock 2>/dev/null | wc -l", "0\n"},
				"no packet forged":    {"timeout 3 bash -c 'echo x > /dev/udp/10.1.2.3/9; echo y > /dev/tcp/10.1.2.3/9' 2>&1 | grep -q -E 'refused|unreachable' && echo 1", "1\n"},
				"no device of others": {"ls /sys/class/net 2>/dev/null | grep -v -E '^(lo|eth0)$' | wc -l", "0\n"},
			} {
				if got := ask(t, m, "sh", "-c", c.command); got.Output != c.want {
					t.Errorf("%s: %q is %q, want %q", what, c.command, got.Output, c.want)
				}
			}
		})
	}
}
