package main

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"aloft/internal/guest/sandbox"
	"aloft/internal/guest/sandbox/front"
	"aloft/internal/need"
)

// TestMain lets the test binary act as the sandbox, as the probe that the
// sandbox runs, and as the victim of attacks on other processes.
func TestMain(m *testing.M) {
	switch os.Getenv("SANDBOX_TEST_AS") {
	case "sandbox":
		os.Unsetenv("SANDBOX_TEST_AS")
		if err := as(os.Getenv("SANDBOX_TEST_ON")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(sandbox.ExitFailed)
		}
		main()
	case "victim":
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == front.KeepWord {
		main()
	}
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		if err := probe(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// escape is one line of testdata/escapes.txt.
type escape struct {
	name, policy, who, setup, attempt string
	allowed                           bool // not an escape: the operation must also work in the sandbox
	files                             bool // concerns files, not the network or system calls
}

// keptByLandlock lists the attempts that only Landlock prevents. If Landlock is
// unavailable, the probe reports them.
var keptByLandlock = []string{"signal another", "stop and go another"}

// table is in the program, which is also run inside a machine.
//
//go:embed testdata/escapes.txt
var table string

// inMachine is set in a machine of Aloft. Attempts that also fail there without
// the sandbox are skipped.
var inMachine = os.Getenv("ALOFT_TEST_IN_MACHINE") // runc or gvisor

// escapes parses the table: first the policies, then the attempts.
func escapes(t testing.TB) ([]escape, map[string]string) {
	policies := map[string]string{}
	var all []escape
	files := true
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			files = files && !strings.Contains(line, "The network") || strings.Contains(line, "has to work")
			continue
		}
		if rest, ok := strings.CutPrefix(line, "policy "); ok {
			name, json, _ := strings.Cut(rest, " ")
			policies[name] = json
			continue
		}
		f := strings.SplitN(line, " | ", 4)
		if len(f) != 4 {
			t.Fatalf("line %q has not four fields", line)
		}
		e := escape{files: files, name: f[0], policy: f[1], who: f[2], attempt: f[3]}
		e.who, e.allowed = strings.CutPrefix(e.who, "ok ")
		if !e.allowed {
			e.who = f[2]
		}
		if setup, attempt, ok := strings.Cut(e.attempt, " ;; "); ok {
			e.setup, e.attempt = setup, attempt
		}
		all = append(all, e)
	}
	return all, policies
}

// site contains the files that the attempts attack.
type site struct {
	dir, workspace, outside string
	uid                     int
}

// base returns a folder outside of the folders for temporary files.
func base(t testing.TB) string {
	for _, dir := range []string{os.Getenv("ALOFT_TEST_ESCAPE_DIR"), "/srv", os.Getenv("HOME")} {
		if dir == "" {
			continue
		}
		if made, err := os.MkdirTemp(dir, "aloft-escape-"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(made) })
			if err := os.Chmod(made, 0o755); err != nil {
				t.Fatal(err)
			}
			return made
		}
	}
	t.Fatal("no folder outside of /tmp can be made")
	return ""
}

var siteFiles = map[string]string{
	"w/.git/HEAD": "ref: refs/heads/main\n", "w/.git/config": "[core]\n\trepositoryformatversion = 0\n", "w/.git/hooks/pre-commit": "#!/bin/sh\n",
	"w/.git/objects/info/packs": "", "w/.git/refs/heads/.keep": "", "w/.git/info/exclude": "",
	"w/.git/modules/sub/config": "[core]\n", "w/.git/modules/sub/hooks/x": "",
	"w/pkg/nested/.git/HEAD": "ref: refs/heads/main\n", "w/pkg/nested/.git/config": "[core]\n\trepositoryformatversion = 0\n", "w/pkg/nested/.git/hooks/x": "",
	"w/pkg/nested/.git/objects/info/packs": "", "w/pkg/nested/.git/refs/heads/.keep": "",
	"w/.cursor/sandbox.json": "{}\n", "w/.cursor/rules/a.mdc": "a\n", "w/.cursor/deep/x.json": "{}\n", "w/.claude/settings.json": "{}\n",
	"w/team.code-workspace": "{}\n", "w/src/main.go": "package main\n", "w/secret.txt": "secret\n", "w/hidden/key": "secret\n", "w/sub/deep.key": "secret\n",
	"w/sub/ok.key": "open\n", "w/sub/.cursorignore": "*.key\n!ok.key\n", "w/.cursorignore": "# secrets\nsecret.txt\nhidden/\n",
	"w/build/x": "x\n", "w/vendor/x": "x\n",
	"o/file": "outside\n", "o/dir/x": "x\n", "o/program": "#!/bin/sh\nexit 0\n",
}

func newSite(t testing.TB, under string, uid int) site {
	dir, err := os.MkdirTemp(under, "s")
	if err != nil {
		t.Fatal(err)
	}
	s := site{dir: dir, workspace: dir + "/w", outside: dir + "/o", uid: uid}
	for name, text := range siteFiles {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.outside+"/program", 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(name, uid, uid)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// state describes everything that no attempt may change: files outside of the
// sandbox, and protected files.
func (s site) state(t testing.TB) string {
	var b strings.Builder
	for _, root := range []string{
		"o", "w/.git/config", "w/.git/hooks", "w/.git/info/attributes", "w/.git/modules", "w/.cursor/sandbox.json", "w/.cursor/deep", "w/.claude", "w/.aloft", "w/.vscode",
		"w/.cursorignore", "w/team.code-workspace", "w/evil.code-workspace", "w/EVIL.Code-Workspace", "w/.git/commondir",
		"w/pkg/nested/.git/config", "w/pkg/nested/.git/hooks", "w/pkg/nested/.git/info/attributes", "w/.git/worktrees",
	} {
		err := filepath.WalkDir(filepath.Join(s.dir, root), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it is not there, which is a state too
			}
			st, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) { // removed since the folder was read
				return nil
			}
			if err != nil {
				return err
			}
			sum := ""
			if st.Mode().IsRegular() {
				text, err := os.ReadFile(name)
				if err != nil {
					return err
				}
				h := sha256.Sum256(text)
				sum = hex.EncodeToString(h[:8])
			}
			fmt.Fprintln(&b, strings.TrimPrefix(name, s.dir), st.Mode(), sum)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// scene contains the targets of attempts other than files: sockets and a
// process.
type scene struct {
	program string // the test binary, in a folder where every user may run it
	env     []string
	base    string
	without *atomic.Int32 // attempts that the machine itself stops
	old     bool          // mounts are created one by one
}

func newScene(t testing.TB, uid int) scene {
	s := scene{base: base(t), without: new(atomic.Int32)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.program = s.base + "/sandbox.test"
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	serve := func(network, at string) net.Listener {
		l, err := net.Listen(network, at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				_ = c.Close()
			}
		}()
		return l
	}
	tcp := serve("tcp", "127.0.0.1:0")
	abstract := fmt.Sprintf("aloft-escape-%d-%d", os.Getpid(), uid)
	serve("unix", "@"+abstract)
	socket := s.base + "/socket"
	serve("unix", socket)
	tmpSocket := filepath.Join(os.TempDir(), abstract)
	serve("unix", tmpSocket)
	for _, name := range []string{socket, tmpSocket} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	victim := s.command(t.Context(), uid, "victim", s.program)
	hold := filepath.Join(s.base, "held")
	if err := os.WriteFile(hold, []byte("outside\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(hold, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(hold, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	victim.ExtraFiles = []*os.File{f}
	victim.Env = append(victim.Env, "SECRET=hunter2")
	in, err := victim.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = victim.Wait() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	s.env = []string{
		"P=" + s.program + " probe", "VICTIM=" + strconv.Itoa(victim.Process.Pid), "PORT=" + strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port),
		"ABSTRACT=" + abstract, "SOCKET=" + socket, "TMPSOCKET=" + tmpSocket, "SECRET_AT=" + secretAt(victim.Process.Pid),
	}
	return s
}

// secretAt returns the address of a secret in the process's memory.
func secretAt(pid int) string {
	maps, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/maps")
	if err != nil {
		return "0"
	}
	first, _, _ := strings.Cut(string(maps), "-")
	n, _ := strconv.ParseUint(first, 16, 64)
	return strconv.FormatUint(n, 10)
}

func (s scene) command(ctx interface {
	Done() <-chan struct{}
}, uid int, as string, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=" + s.base, "LANG=C"}, s.env...)
	if as != "" {
		cmd.Env = append(cmd.Env, "SANDBOX_TEST_AS="+as)
	}
	if s.old {
		cmd.Env = append(cmd.Env, "SANDBOX_TEST_ON=old")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 && uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return cmd
}

// try makes an attempt, inside or outside of the sandbox, and returns its exit
// code and output.
func (s scene) try(t testing.TB, at site, e escape, policy string, inside bool) (int, string) {
	dir := at.workspace
	shell := []string{"sh", "-c", e.attempt}
	as := ""
	if inside {
		file := filepath.Join(at.dir, "policy.json")
		if err := os.WriteFile(file, []byte(policy), 0o644); err != nil {
			t.Fatal(err)
		}
		shell = append([]string{s.program, "--policy", file, "--workspace", dir, "--"}, shell...)
		as = "sandbox"
	}
	if e.setup != "" {
		setup := s.command(t.Context(), at.uid, "", "sh", "-c", e.setup)
		setup.Dir = dir
		setup.Env = append(setup.Env, "W="+at.workspace, "O="+at.outside)
		if out, err := setup.CombinedOutput(); err != nil {
			t.Fatalf("%s: set-up: %v: %s", e.name, err, out)
		}
	}
	cmd := s.command(t.Context(), at.uid, as, shell...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "W="+at.workspace, "O="+at.outside)
	// File descriptors that were left open by mistake: one of a folder outside,
	// and one of a file.
	folder, err := os.Open(at.outside)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	file, err := os.OpenFile(at.outside+"/file", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.ExtraFiles = []*os.File{folder, file}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	_ = cmd.Run() // the exit code is checked
	return cmd.ProcessState.ExitCode(), said.String()
}

// TestEscapes makes every attempt in the table twice. Without the sandbox it
// must succeed. In the sandbox it must fail and change nothing.
func TestEscapes(t *testing.T) {
	all, policies := escapes(t)
	if len(all) < 150 {
		t.Errorf("the table has %d lines", len(all))
	}
	users := map[string]int{"user": os.Geteuid()}
	if os.Geteuid() == 0 {
		users = map[string]int{"root": 0, "user": 1000}
		if inMachine == "" {
			users["user, mounts one by one"] = 1000
		}
		if os.Getenv("ALOFT_TEST_SOAK") != "" {
			users["root, mounts one by one"] = 0
		}
	}
	requireAll(t)
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			who, old := strings.CutSuffix(name, ", mounts one by one")
			s := newScene(t, uid)
			s.old = old
			noLandlock := old || inMachine == "gvisor"
			work := make(chan escape, len(all)) // space for every attempt: a failed attempt queues no more
			queued := 0
			var workers sync.WaitGroup
			for range min(4, runtime.NumCPU()*2) {
				workers.Go(func() {
					for e := range work {
						s.hold(t, e, policies[e.policy], uid)
					}
				})
			}
			for _, e := range all {
				if e.who != "any" && e.who != who && e.who != "" || noLandlock && slices.Contains(keptByLandlock, e.name) {
					continue
				}
				if old && !e.files && os.Getenv("ALOFT_TEST_SOAK") == "" {
					continue
				}
				queued++
				work <- e
			}
			close(work)
			workers.Wait()
			least := 150
			if old && os.Getenv("ALOFT_TEST_SOAK") == "" {
				least = 100 // the attempts on files alone
			}
			if tried := queued - int(s.without.Load()); tried < least {
				t.Errorf("only %d of %d attempts would have worked without the sandbox, want %d", tried, queued, least)
			}
		})
	}
}

// requireAll skips the test if the kernel lacks a required feature. If the
// environment promises all features, it fails instead.
func requireAll(t testing.TB) {
	if k := sandbox.Probe(); k.Landlock < 6 && inMachine != "gvisor" || !k.Namespaces {
		need.Missing(t, "sandbox", fmt.Errorf("landlock ABI %d, namespaces %v: %s", k.Landlock, k.Namespaces, k.Why))
	}
}

func (s scene) hold(t *testing.T, e escape, policy string, uid int) {
	bare := newSite(t, s.base, uid)
	if code, said := s.try(t, bare, e, "", false); code != 0 {
		if inMachine != "" {
			s.without.Add(1)
			return
		}
		t.Errorf("%s: would not have worked without the sandbox: %d: %s", e.name, code, said)
		return
	}
	at := newSite(t, s.base, uid)
	var before string
	if e.setup != "" { // it runs twice; the second run changes nothing
		cmd := s.command(t.Context(), uid, "", "sh", "-c", e.setup)
		cmd.Dir, cmd.Env = at.workspace, append(cmd.Env, "W="+at.workspace, "O="+at.outside)
		_ = cmd.Run()
		e.setup = ""
	}
	before = at.state(t)
	code, said := s.try(t, at, e, policy, true)
	switch {
	case slices.Contains([]int{sandbox.ExitUnenforceable, sandbox.ExitFailed, sandbox.ExitNotFound}, code) && strings.Contains(said, "sandbox: "):
		t.Errorf("%s: the sandbox did not start: %d: %s", e.name, code, said)
	case e.allowed && code != 0:
		t.Errorf("%s: does not work in the sandbox: %d: %s", e.name, code, said)
	case !e.allowed && code == 0:
		t.Errorf("%s: ESCAPED: %s", e.name, said)
	}
	if after := at.state(t); after != before {
		t.Errorf("%s: CHANGED:\n%swas:\n%s", e.name, after, before)
	}
	_ = os.RemoveAll(at.dir)
	_ = os.RemoveAll(bare.dir)
}
