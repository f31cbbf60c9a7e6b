package tcpmem

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/machine"
	"aloft/internal/fault"
	"aloft/internal/need"
)

// holder is a machine whose connections use a number of bytes.
type holder struct {
	machine.Machine
	id      string
	bytes   int64
	stopped bool
	fails   error
}

func (h *holder) ID() string                                 { return h.id }
func (h *holder) Running() bool                              { return !h.stopped }
func (h *holder) SocketBytes(context.Context) (int64, error) { return h.bytes, h.fails }

// TestGreediestIsStopped checks which machine the guard stops, and when.
func TestGreediestIsStopped(t *testing.T) {
	host := func(used int64) Host { return Host{Used: used << 20, Low: 900 << 20, Pressure: 1200 << 20} }
	tooMany := fmt.Errorf("measure: %w", machine.ErrTooManyFiles)
	for name, c := range map[string]struct {
		host     Host
		machines []*holder
		want     string
	}{
		"memory is left":           {host(899), []*holder{{id: "a", bytes: 800 << 20}}, ""},
		"the greediest":            {host(900), []*holder{{id: "a", bytes: 300 << 20}, {id: "b", bytes: 400 << 20}}, "b"},
		"a fair share":             {host(1000), []*holder{{id: "a", bytes: 149 << 20}, {id: "b", bytes: 10}}, ""},
		"stopped machines":         {host(1000), []*holder{{id: "a", bytes: 400 << 20, stopped: true}, {id: "b", bytes: 300 << 20}}, "b"},
		"too many descriptors":     {host(1000), []*holder{{id: "a", bytes: 400 << 20}, {id: "b", fails: tooMany}}, "b"},
		"one cannot be measured":   {host(1000), []*holder{{id: "a", bytes: 400 << 20}, {id: "b", fails: errors.New("gone")}}, "a"},
		"none can be measured":     {host(1000), []*holder{{id: "b", fails: errors.New("gone")}}, ""},
		"nobody, on a crowded one": {host(1200), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			stopped := ""
			g := New(Config{
				Machines: func(context.Context) (all []machine.SocketMeasured, _ error) {
					for _, m := range c.machines {
						all = append(all, m)
					}
					return all, nil
				},
				Stop: func(_ context.Context, id string, why error) error {
					stopped += id
					if f := fault.Of(why); f.Code != "socket_limit" || f.Advice == "" {
						t.Errorf("stopped because of %+v", f)
					}
					return nil
				},
				Logger: slog.New(slog.DiscardHandler),
			})
			g.Host = func() (Host, error) { return c.host, nil }
			now := time.Unix(1, 0)
			g.look(t.Context(), now)
			if stopped != c.want {
				t.Errorf("stopped %q; want %q", stopped, c.want)
			}
			// The kernel has not freed the memory yet.
			g.look(t.Context(), now.Add(settleTime/2))
			if stopped != c.want {
				t.Errorf("soon afterwards: stopped %q; want %q", stopped, c.want)
			}
		})
	}
}

// TestReadHost reads the kernel's numbers.
func TestReadHost(t *testing.T) {
	h, err := ReadHost()
	if err != nil || h.Low <= 0 || h.Pressure < h.Low || h.Used < 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

// holdConnections fills the buffers of connections in three network namespaces. In the
// first, nobody accepts the connections. No process is in the others: they are held by
// the sockets alone. Those of the third are descriptors of a thread, which the process
// does not have.
const holdConnections = `
import ctypes, socket, sys, threading
libc = ctypes.CDLL(None)
def unshare(flags): assert libc.unshare(flags) == 0
def fill(accept):
    import fcntl, struct
    s = socket.socket()
    fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 0x41)) # bring loopback up
    s.close()
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    held = [listener]
    for n in range(20):
        c = socket.create_connection(listener.getsockname())
        held.append(c)
        if accept: held.append(listener.accept()[0])
        c.setblocking(False)
        try:
            while True: c.send(bytes(65536))
        except BlockingIOError: pass
    return held
NEWNET, FILES = 0x40000000, 0x400
wanted = sys.argv[1]
done = threading.Event()
def apart():
    unshare(FILES)
    unshare(NEWNET)
    global held
    held = fill(True)
    unshare(NEWNET)
    done.set()
    threading.Event().wait()
if wanted == "thread":
    threading.Thread(target=apart, daemon=True).start()
    done.wait()
else:
    unshare(NEWNET)
    held = fill(wanted == "held")
    if wanted == "held": unshare(NEWNET)
print("full", flush=True)
sys.stdin.read()
`

// TestConnectionsAreFound measures real connections that a process hides in different
// ways.
func TestConnectionsAreFound(t *testing.T) {
	need.Root(t)
	for _, how := range []string{"unaccepted", "held", "thread"} {
		t.Run(how, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "python3", "-c", holdConnections, how)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var words strings.Builder
			cmd.Stderr = &words
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() {
				_ = in.Close()
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
			}()
			if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatalf("%q, %v: %s", line, err, words.String())
			}
			n, err := ofProcesses(t.Context(), []int{cmd.Process.Pid}, maxInspected)
			if err != nil || n < 20<<20 {
				t.Errorf("%d MiB, %v; want at least 20", n>>20, err)
			}
			if _, err := ofProcesses(t.Context(), []int{cmd.Process.Pid}, 2); !errors.Is(err, machine.ErrTooManyFiles) {
				t.Errorf("with at most 2 descriptors: %v", err)
			}
		})
	}
}
