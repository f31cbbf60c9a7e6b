package hostd

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/control/confine"
	"aloft/internal/control/dockerfile"
	"aloft/internal/control/image"
	"aloft/internal/control/layer"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/fake"
	"aloft/internal/control/mirror"
	"aloft/internal/fault"
	"aloft/internal/need"
	"aloft/internal/policy"
)

// parts is a host whose parts record their calls.
type parts struct {
	layers map[string]layer.Layer
	built  atomic.Pointer[buildFunc]
	logs   map[string][]policy.Connection
	pulled []string
}

func (p *parts) Layer(id string) (layer.Layer, error) {
	l, ok := p.layers[id]
	if !ok {
		return l, fault.NotFound("no layer %s", id).Named("no_layer").At("layer").Hint("name another one").Because(os.ErrNotExist)
	}
	return l, nil
}
func (p *parts) List() (all []layer.Layer, err error) {
	for _, l := range p.layers {
		all = append(all, l)
	}
	return all, nil
}
func (p *parts) Needs() ([]layer.Need, error) {
	return []layer.Need{{Layer: p.layers["l"], Machines: []string{"m"}}}, nil
}
func (p *parts) DiskUsage(context.Context, string) (bytes, inodes int64, err error) { return 5, 6, nil }
func (p *parts) Entries(context.Context) ([]string, error)                          { return []string{"a"}, nil }
func (p *parts) Usage(_ context.Context, name string) (bytes, inodes int64, err error) {
	return int64(len(name)), 2, nil
}
func (p *parts) Delete(id string) error                           { delete(p.layers, id); return nil }
func (p *parts) Size(_ context.Context, id string) (int64, error) { return int64(len(id)), nil }
func (p *parts) Prepare(_ context.Context, name string) error {
	p.pulled = append(p.pulled, name)
	return nil
}
func (p *parts) Prune(_ context.Context, o image.PruneOptions) (image.Pruned, error) {
	return image.Pruned{Images: o.Keep, Bytes: int64(o.Unused)}, nil
}

// buildFunc builds a Dockerfile, as [Dockerfiles] does.
type buildFunc func(ctx context.Context, spec dockerfile.Spec, out func(string)) (string, error)

// buildBy sets what the following builds do.
func (p *parts) buildBy(build buildFunc) { p.built.Store(&build) }

// builds implements [Dockerfiles].
type builds struct{ p *parts }

func (b builds) Ready() error { return nil }
func (b builds) Build(ctx context.Context, spec dockerfile.Spec, out func(string)) (string, error) {
	return (*b.p.built.Load())(ctx, spec, out)
}
func (b builds) Has(image string) bool                            { return image == "local:built" }
func (b builds) Running() []string                                { return []string{"b-1"} }
func (b builds) DiskBytes(context.Context, string) (int64, error) { return 7, nil }
func (b builds) Stop(id string, why error) bool {
	return id == "b-1" && errors.As(why, &machine.DiskLimitError{})
}
func (b builds) Prune(context.Context) error { return nil }

// names implements [Logs].
type names struct{ p *parts }

func (n names) Read(_ context.Context, name string) ([]policy.Connection, error) {
	return n.p.logs[name], nil
}
func (n names) Remove(_ context.Context, name string) error { delete(n.p.logs, name); return nil }
func (n names) List(context.Context) (all []string, err error) {
	for name := range n.p.logs {
		all = append(all, name)
	}
	return all, nil
}

// server is a host-daemon under test.
type server struct {
	c       *Client
	address string
	parts   *parts
	opened  atomic.Int32
	text    atomic.Value // the configuration's text
	stop    func()
	daemon  *Daemon
}

// serve starts a host-daemon at the address, or at any address if it is "".
func serve(t *testing.T, address string, user int) *server {
	t.Helper()
	if address == "" {
		address = fmt.Sprintf("@aloft-hostd-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	git, err := mirror.NewLocal(mirror.LocalConfig{Dir: t.TempDir(), Server: user})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{c: NewClient(address), address: address, parts: &parts{layers: map[string]layer.Layer{}, logs: map[string][]policy.Connection{}}}
	s.text.Store("one")
	machines := fake.New(t.TempDir(), nil)
	s.daemon = New(Config{
		User: user, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Load: func() ([]byte, map[string][]byte, error) {
			return []byte(s.text.Load().(string)), map[string][]byte{"/f": []byte("file")}, nil
		},
		Open: func(_ context.Context, text []byte) (*Opened, error) {
			if string(text) == "broken" {
				return nil, fault.Invalid("the configuration is broken")
			}
			s.opened.Add(1)
			return &Opened{
				Host: Host{
					Machines: machines, Layers: s.parts, Images: s.parts, Dockerfiles: builds{s.parts}, Logs: names{s.parts}, Git: git, Folders: map[string]Folder{"build": s.parts},
					Close: func() error { s.opened.Add(-1); return nil },
				},
				Allow: func(spec machine.Spec) error {
					if spec.Image == "rootfs:/" {
						return fault.Denied("no such image")
					}
					return nil
				},
				AllowImage: func(name string) error {
					if name == "rootfs:/" {
						return fault.Denied("no such image")
					}
					return nil
				},
			}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.daemon.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	s.stop = func() { cancel(); serving.Wait() }
	t.Cleanup(s.stop)
	return s
}

// open opens the daemon's host.
func (s *server) open(t *testing.T) *Host {
	t.Helper()
	loaded, err := s.c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.c.Open(t.Context(), loaded)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestConfigurations checks that the daemon opens only configurations that it
// has loaded itself, one at a time, and that it keeps earlier ones.
func TestConfigurations(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	if _, err := s.c.Open(t.Context(), Configuration{Text: []byte("mine"), Digest: "d"}); !fault.Is(err, fault.KindConflict) {
		t.Errorf("opened another configuration: %v", err)
	}
	first, err := s.c.Load(t.Context())
	if err != nil || string(first.Text) != "one" || string(first.Files["/f"]) != "file" {
		t.Fatalf("loaded %q, %v", first.Text, err)
	}
	s.open(t)
	s.text.Store("broken")
	broken, err := s.c.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Open(t.Context(), broken); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("opened a broken configuration: %v", err)
	}
	if _, err := s.c.Open(t.Context(), first); err != nil {
		t.Error(err)
	}
	if n := s.opened.Load(); n != 1 {
		t.Errorf("%d hosts are open", n)
	}
	s.stop()
	if n := s.opened.Load(); n != 0 {
		t.Errorf("%d hosts are open after the end", n)
	}
}

// TestRestart checks that a client continues with the next daemon at the same
// address.
func TestRestart(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	h := s.open(t)
	s.stop()
	if _, err := h.Machines.List(t.Context()); !fault.Is(err, fault.KindUnavailable) {
		t.Errorf("without a daemon: %v", err)
	}
	next := serve(t, s.address, os.Geteuid())
	next.parts.layers["l"] = layer.Layer{ID: "l"}
	if got, err := h.Layers.Layer("l"); err != nil || got.ID != "l" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestOtherUsers checks that the daemon replies only to the server's user.
func TestOtherUsers(t *testing.T) {
	s := serve(t, "", os.Geteuid()+1)
	if _, err := s.c.Load(t.Context()); err == nil {
		t.Error("another user was answered")
	}
}

// TestParts checks that arguments, values and errors arrive unchanged.
func TestParts(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	h := s.open(t)
	made := layer.Layer{ID: "l", Image: "host", Created: time.Unix(5, 0).UTC(), Packed: &layer.Packed{Size: 3}}
	s.parts.layers["l"] = made
	got, err := h.Layers.Layer("l")
	if a, b := asJSON(t, got), asJSON(t, made); err != nil || a != b {
		t.Errorf("got %s, %v; want %s", a, err, b)
	}
	if n, err := h.Layers.Size(t.Context(), "four"); err != nil || n != 4 {
		t.Errorf("size %d, %v", n, err)
	}
	if needs, err := h.Layers.Needs(); err != nil || len(needs) != 1 || needs[0].ID != "l" || len(needs[0].Machines) != 1 {
		t.Errorf("needs %v, %v", needs, err)
	}
	if bytes, inodes, err := h.Layers.DiskUsage(t.Context(), "l"); err != nil || bytes != 5 || inodes != 6 {
		t.Errorf("usage %d, %d, %v", bytes, inodes, err)
	}
	if names, err := h.Folders["build"].Entries(t.Context()); err != nil || len(names) != 1 {
		t.Errorf("entries %v, %v", names, err)
	}
	if bytes, inodes, err := h.Folders["build"].Usage(t.Context(), "abc"); err != nil || bytes != 3 || inodes != 2 {
		t.Errorf("usage %d, %d, %v", bytes, inodes, err)
	}
	if len(h.Folders) != 1 {
		t.Errorf("folders %v", h.Folders)
	}
	if err := h.Layers.Delete("l"); err != nil {
		t.Error(err)
	}
	_, err = h.Layers.Layer("l")
	f := fault.Of(err)
	if f.Kind != fault.KindNotFound || f.Code != "no_layer" || f.Field != "layer" || f.Message != "no layer l" || f.Advice != "name another one" || f.Cause == nil {
		t.Errorf("got %#v", f)
	}
	pruned, err := h.Images.Prune(t.Context(), image.PruneOptions{Unused: 9, Keep: []string{"a"}})
	if err != nil || pruned.Bytes != 9 || len(pruned.Images) != 1 {
		t.Errorf("pruned %v, %v", pruned, err)
	}
	if err := h.Images.Prepare(t.Context(), "rootfs:/"); !fault.Is(err, fault.KindDenied) || len(s.parts.pulled) != 0 {
		t.Errorf("prepared the host's root: %v", err)
	}
	if _, err := h.Machines.Create(t.Context(), machine.Spec{ID: "m", Image: "rootfs:/"}); !fault.Is(err, fault.KindDenied) {
		t.Errorf("created a machine of the host's root: %v", err)
	}
	if _, err := h.Machines.Open(t.Context(), "none"); !errors.Is(err, machine.ErrNotFound) {
		t.Errorf("opened nothing: %v", err)
	}
	if !h.Dockerfiles.Stop("b-1", machine.DiskLimitError{Used: 2, Limit: 1}) || h.Dockerfiles.Stop("b-2", machine.DiskLimitError{}) {
		t.Error("builds are not stopped by id and reason")
	}
}

// TestBuild checks that a build gets the server's folder, streams its output, and ends
// when its call ends.
func TestBuild(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	h := s.open(t)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "Dockerfile"), []byte("FROM x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.parts.buildBy(func(ctx context.Context, spec dockerfile.Spec, out func(string)) (string, error) {
		if spec.Source.User != os.Geteuid() || spec.Source.Group != os.Getegid() {
			return "", fmt.Errorf("reads the checkout as user %d and group %d", spec.Source.User, spec.Source.Group)
		}
		copied := filepath.Join(t.TempDir(), "copy")
		if err := spec.Source.Copy(ctx, copied); err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(copied, "Dockerfile"))
		out("first")
		out(string(text))
		if err != nil || spec.Args["A"] != "1" {
			return "", fmt.Errorf("%v: %w", spec, err)
		}
		return "local:built", nil
	})
	var lines []string
	name, err := h.Dockerfiles.Build(t.Context(), dockerfile.Spec{Root: root, Args: map[string]string{"A": "1"}}, func(l string) { lines = append(lines, l) })
	if err != nil || name != "local:built" || strings.Join(lines, " ") != "first FROM x" {
		t.Errorf("got %q, %v, %q", name, err, lines)
	}
	s.parts.buildBy(func(context.Context, dockerfile.Spec, func(string)) (string, error) {
		return "", fmt.Errorf("build: %w", &dockerfile.Failure{Line: 3, Output: []string{"a"}})
	})
	_, err = h.Dockerfiles.Build(t.Context(), dockerfile.Spec{Root: root}, nil)
	if failure, ok := errors.AsType[*dockerfile.Failure](err); !ok || failure.Line != 3 || failure.Output[0] != "a" {
		t.Errorf("got %v", err)
	}
	if _, err := h.Dockerfiles.Build(t.Context(), dockerfile.Spec{Root: filepath.Join(root, "Dockerfile")}, nil); err == nil {
		t.Error("built a file")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	because := errors.New("enough")
	s.parts.buildBy(func(ctx context.Context, _ dockerfile.Spec, _ func(string)) (string, error) {
		cancel(because)
		<-ctx.Done() // the daemon ends the build
		return "", ctx.Err()
	})
	if _, err := h.Dockerfiles.Build(ctx, dockerfile.Spec{Root: root}, nil); !errors.Is(err, because) {
		t.Errorf("got %v", err)
	}
}

// command returns a shell command in a jail that sees dir.
func command(ctx context.Context, dir, script string) confine.Command {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script)
	cmd.Dir, cmd.Env, cmd.WaitDelay = "/", []string{"PATH=/usr/bin:/bin", "A=1"}, 10*time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return confine.Command{
		Cmd: cmd, Jail: confine.Jail{User: confine.FirstUser + 3, Write: []string{dir}},
		Started: func() {}, Stop: func() unix.Signal { return unix.SIGTERM },
	}
}

// TestRun checks that a command runs as its user and in its jail, with its streams,
// files and environment, and that its exit status is returned unchanged.
func TestRun(t *testing.T) {
	need.Root(t)
	s := serve(t, "", os.Geteuid())
	git := s.open(t).Git
	if err := git.Confined(); err != nil {
		need.Missing(t, "confinement", err)
	}
	dir := t.TempDir()
	if err := git.Share(dir, confine.FirstUser+3); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := command(t.Context(), dir, "cat; id -u; echo $A >&2; echo made >"+dir+"/file; ls /root /home; echo inherited >&3; exit 5")
	var out, errs bytes.Buffer
	started := 0
	c.Cmd.Stdin, c.Cmd.Stdout, c.Cmd.Stderr, c.Cmd.ExtraFiles = strings.NewReader("text\n"), &out, &errs, []*os.File{w}
	c.Started = func() { started++; _ = w.Close() }
	err = git.Run(t.Context(), c)
	if exit, ok := errors.AsType[*confine.ExitError](err); !ok || exit.Status.ExitStatus() != 5 {
		t.Errorf("the error is %v", err)
	}
	if want := fmt.Sprintf("text\n%d\n", confine.FirstUser+3); out.String() != want || !strings.HasPrefix(errs.String(), "1\n") || strings.Count(errs.String(), "cannot access") != 2 {
		t.Errorf("it printed %q and %q", out.String(), errs.String())
	}
	if text, err := io.ReadAll(r); err != nil || string(text) != "inherited\n" || started != 1 {
		t.Errorf("the file that it inherits has %q, %v; started %d times", text, err, started)
	}
	if err := git.TakeBack(dir); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(text) != "made\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if err := git.Empty(dir); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left %v, %v", entries, err)
	}
}

// TestRunIsStopped checks that when the context ends, the command gets the signal, and
// that a command that ignores the signal is killed.
func TestRunIsStopped(t *testing.T) {
	need.Root(t)
	s := serve(t, "", os.Geteuid())
	git := s.open(t).Git
	for name, script := range map[string]string{
		"Signal": "trap 'echo stopped; exit 3' TERM; echo ready; while :; do sleep 0.01; done",
		"Kill":   "trap '' TERM; echo ready; while :; do sleep 0.01; done",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := command(ctx, t.TempDir(), script)
			if name == "Kill" {
				c.Cmd.WaitDelay = 50 * time.Millisecond
			}
			var out bytes.Buffer
			c.Cmd.Stdout = writer(func(p []byte) (int, error) {
				cancel() // the command is ready
				return out.Write(p)
			})
			err := git.Run(ctx, c)
			exit, ok := errors.AsType[*confine.ExitError](err)
			switch {
			case name == "Signal" && (!ok || exit.Status.ExitStatus() != 3 || !strings.Contains(out.String(), "stopped")):
				t.Errorf("it ended with %v, and printed %q", err, out.String())
			case name == "Kill" && err == nil:
				t.Error("no error for a command that was killed")
			}
		})
	}
}

// writer is a function that is an [io.Writer].
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestRefusedRuns checks which requests of a compromised server are refused.
func TestRefusedRuns(t *testing.T) {
	need.Root(t)
	s := serve(t, "", os.Geteuid())
	git := s.open(t).Git
	dir := t.TempDir()
	root := command(t.Context(), dir, "true")
	root.Jail.User = 0
	server := command(t.Context(), dir, "true")
	server.Jail.User = os.Geteuid()
	capable := command(t.Context(), dir, "true")
	capable.Jail.Capabilities = []uintptr{unix.CAP_SYS_ADMIN}
	for name, c := range map[string]confine.Command{"Root": root, "Server": server, "Capabilities": capable} {
		if err := git.Run(t.Context(), c); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
	for _, user := range []int{1, 1000, confine.FirstUser - 1, confine.FirstUser + confine.Users} {
		if err := git.Share(dir, user); !fault.Is(err, fault.KindDenied) {
			t.Errorf("shared with user %d: %v", user, err)
		}
	}
	// These are more paths than descriptors, so root would open the remaining
	// paths itself.
	args := asJSON(t, runArgs{Path: "/bin/true", User: confine.FirstUser, Read: []string{"/root"}})
	if _, err := s.c.try(t.Context(), "git.run", json.RawMessage(args), nil, options{files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}); !fault.Is(err, fault.KindInvalid) {
		t.Errorf("ran with a path of root: %v", err)
	}
	// The file descriptor of this path belongs to another file.
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	other, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := s.c.try(t.Context(), "git.run", json.RawMessage(args), nil, options{files: append(files, other)}); !fault.Is(err, fault.KindDenied) {
		t.Errorf("ran with a path of root and another folder: %v", err)
	}
	for _, c := range []struct{ method, args string }{
		{"git.ssh", `{"URL": "ssh://-oProxyCommand=id/a", "Service": "upload-pack"}`},
		{"git.ssh", `{"URL": "ssh://host.invalid/a", "Service": "upload-pack; id"}`},
		{"git.ssh", `{"URL": "ssh://host.invalid/a", "Service": "upload-pack", "Env": ["LD_PRELOAD=/x"]}`},
		{"git.serve", `{"URL": "file:///etc", "Service": "upload-pack"}`},
		{"git.serve", `{"URL": "ssh://host/a", "Service": "upload-pack"}`},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		far, near := os.NewFile(uintptr(pair[0]), "far"), os.NewFile(uintptr(pair[1]), "near")
		var said string
		_, err = s.c.try(t.Context(), c.method, json.RawMessage(c.args), &said, options{files: []*os.File{far}})
		if err == nil && said == "" {
			t.Errorf("%s %s: nothing was refused", c.method, c.args)
		}
		_, _ = far.Close(), near.Close()
	}
}

// TestSilentClients checks that a daemon can stop although clients send nothing, send
// half a request, or do not read their result.
func TestSilentClients(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	s.open(t)
	for _, text := range []string{"", "\x00", "\x00\x00\x00\x05q{", string([]byte{0, 0, 0, 25, frameRequest}) + `{"method":"list","args":{}`} {
		conn, err := net.Dial("unix", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.c.Load(t.Context()); err != nil { // the daemon has accepted the others
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { s.stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(endTime / 2):
		t.Fatal("the daemon does not stop")
	}
}

// TestLargeFrames checks that a daemon allocates no memory for a frame that is too large,
// and allocates it only for a few large requests at a time.
func TestLargeFrames(t *testing.T) {
	s := serve(t, "", os.Geteuid())
	s.open(t)
	size := func(n int, kind byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(n)), kind) }
	dial := func(data []byte) net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", s.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := conn.Write(data); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	refused := func(conn net.Conn) bool {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(requestTime / 2)); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, conn)
		return err == nil || errors.Is(err, syscall.ECONNRESET)
	}
	if !refused(dial(size(maxRequest+1, frameRequest))) {
		t.Error("waits for a request that is too large")
	}
	for range maxLarge {
		dial(size(largeFrame+1, frameRequest)) // the client never sends the rest
	}
	for len(s.daemon.large) < maxLarge {
		runtime.Gosched()
	}
	more := dial(size(largeFrame+1, frameRequest))
	if _, err := s.c.Load(t.Context()); err != nil { // the daemon still serves
		t.Error(err)
	}
	if n := len(s.daemon.large); n != maxLarge {
		t.Errorf("%d large requests", n)
	}
	_ = more.Close()
}

// FuzzServe sends arbitrary bytes to a daemon. The daemon must continue to
// serve.
func FuzzServe(f *testing.F) {
	frame := func(kind byte, content string) []byte {
		return append([]byte{0, 0, 0, byte(len(content)), kind}, content...)
	}
	f.Add(frame(frameRequest, `{"method":"load","args":{}}`))
	f.Add(frame(frameRequest, `{"method":"create","args":{"ID":"a"}}`))
	f.Add(frame(frameRequest, `{"method":"build","args":null}`))
	f.Add(append(frame(frameRequest, `{"method":"checkpoint","args":"a"}`), frame(frameAnswer, "null")...))
	f.Add([]byte{255, 255, 255, 255, frameRequest})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := serve(t, "", os.Geteuid())
		s.parts.buildBy(func(context.Context, dockerfile.Spec, func(string)) (string, error) { return "", nil })
		s.open(t)
		conn, err := net.Dial("unix", s.address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write(data) // the daemon may have hung up
		_ = conn.(*net.UnixConn).CloseWrite()
		_, _ = io.Copy(io.Discard, conn)
		_ = conn.Close()
		if _, err := s.c.Load(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
