package sshd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/pkg/sftp"

	"aloft/internal/need"
	"aloft/internal/redact"
)

// TestMain lets the test binary act as the sftp server that a session starts.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "sftp" {
		err := ServeSFTP(struct {
			io.Reader
			io.WriteCloser
		}{os.Stdin, os.Stdout})
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve starts a server and returns its state folder.
func serve(t *testing.T) string { return serveWith(t, nil) }

func serveWith(t *testing.T, secrets func() *redact.Redactor) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sshd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	home := t.TempDir()
	s, err := New(Config{
		StateDir: dir, Workspace: t.TempDir(), Home: home, SFTP: []string{os.Args[0], "sftp"}, Secrets: secrets,
		Environ: func() []string { return []string{"PATH=" + os.Getenv("PATH"), "FROM=server", "HOME=" + home} },
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return dir
}

func connect(t *testing.T, dir string) *ssh.Client {
	t.Helper()
	raw, err := net.Dial("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, "machine", &ssh.ClientConfig{User: "ubuntu", HostKeyCallback: ssh.InsecureIgnoreHostKey()}) //nolint:gosec // its own server
	if err != nil {
		t.Fatal(err)
	}
	c := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func session(t *testing.T, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestExec(t *testing.T) {
	c := connect(t, serve(t))
	for command, want := range map[string]struct {
		out, signal string
		code        int
	}{
		"echo $FROM":             {out: "server\n"},
		"exit 7":                 {code: 7},
		"kill -KILL $$":          {signal: "KILL", code: 137},
		"sleep 5 & echo started": {out: "started\n"}, // the background process keeps the output open
		"printf 'a\\0\\xff\\n'":  {out: "a\x00\xff\n"},
	} {
		s := session(t, c)
		out, err := s.Output(command)
		var code int
		var signal string
		if exit, ok := errors.AsType[*ssh.ExitError](err); ok {
			code, signal = exit.ExitStatus(), exit.Signal()
		} else if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		if string(out) != want.out || code != want.code || signal != want.signal {
			t.Errorf("%s: %q, code %d, signal %q", command, out, code, signal)
		}
	}
}

func TestEnvAndSignal(t *testing.T) {
	c := connect(t, serve(t))
	s := session(t, c)
	if err := s.Setenv("MARK", "one two"); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(`trap 'echo "got $MARK"; exit 3' INT; echo ready; while :; do sleep 0.01; done`); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 6)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := s.Signal(ssh.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(out)
	exit, ok := errors.AsType[*ssh.ExitError](s.Wait())
	if !strings.Contains(string(rest), "got one two") || !ok || exit.ExitStatus() != 3 {
		t.Errorf("%q %v", rest, exit)
	}
}

func TestNoSecretIsShown(t *testing.T) {
	r := redact.New(map[string]string{"k": "glpat-a-very-secret-token"})
	client := connect(t, serveWith(t, func() *redact.Redactor { return r }))
	const command = `A=glpat-a-very-; B=secret-token; printf $A; printf $B; echo; read line; echo "got $line"`
	for _, tty := range []bool{true, false} {
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		if tty {
			if err := session.RequestPty("xterm", 24, 80, nil); err != nil {
				t.Fatal(err)
			}
		}
		in, err := session.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		pipe, err := session.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := session.Start(command); err != nil {
			t.Fatal(err)
		}
		out := bufio.NewReader(pipe)
		line, err := out.ReadString('\n') // the output is complete before the terminal echoes the input
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, "x\n"); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(out)
		if err = errors.Join(err, session.Wait()); err != nil || !strings.Contains(string(rest), "got x") {
			t.Errorf("with a terminal: %t: %q, %v", tty, rest, err)
		}
		// If the two halves of a secret arrive far apart, the first is output if it is too short to
		// count as a secret.
		want := map[bool]string{true: "[REDACTED]\r\n", false: "[REDACTED]\n"}[tty]
		if early, ok := strings.CutSuffix(line, want); !ok || len(early) >= redact.MinLength {
			t.Errorf("with a terminal: %t: %q, want %q", tty, line, want)
		}
	}
}

// TestFilesAreExact checks that files are transferred unchanged, even if they
// contain secrets, while secrets in terminal output are redacted.
func TestFilesAreExact(t *testing.T) {
	need.Command(t, "scp")
	const value = "glpat-a-very-secret-token"
	r := redact.New(map[string]string{"k": value})
	client := connect(t, serveWith(t, func() *redact.Redactor { return r }))
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte("K="+value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{
		"cat " + path: "K=[REDACTED]\n",
		"cat " + path + " >&2; printf 'A=1\\0K=" + value + "\\0B=2\\0'": "A=1\x00K=[REDACTED]\x00B=2\x00",
		"printf '\\0\\0\\0\\031'; cat " + path:                          "\x00\x00\x00\x19K=" + value + "\n", // the output begins like a protocol
		"printf '\\0'; sleep 0.1; printf '\\0'; cat " + path:            "\x00\x00K=" + value + "\n",
		"scp -f " + path: "C0600 28 env\nK=" + value + "\n\x00",
	} {
		s := session(t, client)
		s.Stdin = strings.NewReader("\x00\x00\x00") // scp asks before each step; other programs do not read the input
		out, errs := new(bytes.Buffer), new(bytes.Buffer)
		s.Stdout, s.Stderr = out, errs
		if err := s.Run(command); err != nil || out.String() != want || strings.Contains(errs.String(), value) {
			t.Errorf("%s: %q, %q, %v; want %q", command, out, errs, err, want)
		}
	}
	archive := filepath.Join(t.TempDir(), "a.tar")
	out, err := session(t, client).Output("tar c -C " + filepath.Dir(path) + " env")
	if err == nil {
		err = os.WriteFile(archive, out, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, err := exec.CommandContext(t.Context(), "tar", "xOf", archive).Output(); err != nil || string(got) != "K="+value+"\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCarries(t *testing.T) {
	for line, want := range map[string]bool{
		"scp -t /tmp/x": true, "/usr/bin/rsync --server -e.LsfxCIvu . /tmp": true, "git-upload-pack '/workspace'": true, "git upload-pack '/workspace'": true,
		"": false, "env": false, "git log": false, "git": false, "echo scp": false,
	} {
		if carries(line) != want {
			t.Errorf("%q: %t", line, !want)
		}
	}
}

func TestTerminalChangesItsSize(t *testing.T) {
	c := connect(t, serve(t))
	s := session(t, c)
	if err := s.RequestPty("xterm", 24, 80, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(`trap 'stty size; exit' WINCH; echo "$TERM $(stty size)"; while :; do sleep 0.01; done`); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("xterm 24 80\r\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "xterm 24 80\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := s.WindowChange(50, 1<<30); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(out); string(rest) != "50 4096\r\n" {
		t.Errorf("%q", rest)
	}
}

func TestAClientThatGoesEndsItsCommand(t *testing.T) {
	dir := serve(t)
	c := connect(t, dir)
	s := session(t, c)
	file := filepath.Join(t.TempDir(), "pid")
	if err := s.Start("echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 600"); err != nil {
		t.Fatal(err)
	}
	var pid string
	within(t, "the command runs", func() bool {
		data, err := os.ReadFile(file)
		pid = strings.TrimSpace(string(data))
		return err == nil
	})
	_ = c.Close()
	within(t, "the command has ended", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return err != nil
	})
}

func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

func TestSFTP(t *testing.T) {
	c := connect(t, serve(t))
	files, err := sftp.NewClient(c)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	f, err := files.Create("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("hello")); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if out, err := session(t, c).Output("cat x"); err != nil || string(out) != "hello" {
		t.Errorf("%q %v", out, err)
	}
}

func TestForwardKeepsHalfClosedConnections(t *testing.T) {
	c := connect(t, serve(t))
	for _, network := range []string{"tcp", "unix"} {
		addr := "127.0.0.1:0"
		if network == "unix" {
			addr = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all, _ := io.ReadAll(conn) // returns when the other end has closed its output
			_, _ = conn.Write([]byte("heard " + string(all)))
			_ = conn.Close()
		}()
		conn, err := c.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte("this"))
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "heard this" {
			t.Errorf("%s: %q %v", network, got, err)
		}
		_ = l.Close()
	}
}

func TestTheHostKeyStays(t *testing.T) {
	dir := t.TempDir()
	first, err := hostKey(dir)
	if err != nil {
		t.Fatal(err)
	}
	again, err := hostKey(dir)
	if err != nil || string(first.PublicKey().Marshal()) != string(again.PublicKey().Marshal()) {
		t.Errorf("another key, %v", err)
	}
	if info, err := os.Stat(filepath.Join(dir, "ssh_host_ed25519_key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// FuzzRequests sends requests to a session that no normal client sends.
func FuzzRequests(f *testing.F) {
	f.Add("pty-req", ssh.Marshal(ptyRequest{Term: "xterm", Columns: 80, Rows: 24}))
	f.Add("env", ssh.Marshal(struct{ Name, Value string }{"A", "b"}))
	f.Add("exec", ssh.Marshal(struct{ Value string }{"true"}))
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		s := &visit{c: &client{s: &Server{cfg: Config{Environ: func() []string { return nil }}}}}
		s.wantTerminal(payload)
		s.addEnv(payload)
		s.resize(payload)
		s.signal(payload)
		if cmd, ok := s.command(kind, payload); ok {
			for _, arg := range append(cmd.Args, cmd.Env...) {
				if strings.ContainsRune(arg, 0) {
					t.Errorf("%q would not start", arg)
				}
			}
		}
	})
}
