package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"aloft/internal/cli"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"aloft": main})
}

// TestScript runs the commands as a shell would, against a server that
// implements the API but has no agents.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			s := newFakeServer()
			env.Defer(s.Close)
			env.Setenv("SERVER", s.URL)
			env.Setenv("ALOFT_URL", s.URL)
			env.Setenv("ALOFT_API_KEY", fakeKey)
			env.Setenv("ALOFT_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("AGENT", fakeAgent)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// exits runs aloft and checks its exit code against the code with the given
// name: exits NAME ARGS….
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits NAME ARGS…")
	}
	want, ok := map[string]int{
		"ok": cli.OK, "failure": cli.Failure, "usage": cli.Usage, "run-failed": cli.RunFailed, "not-found": cli.NotFound,
		"denied": cli.Denied, "unreachable": cli.Unreachable,
	}[args[0]]
	if !ok {
		ts.Fatalf("there is no exit called %s", args[0])
	}
	err := ts.Exec("aloft", args[1:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != want {
		ts.Fatalf("exit code is %d; want %d (%s)", code, want, args[0])
	}
}

// TestHelp compares the help of every command with a golden file.
func TestHelp(t *testing.T) {
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		name := strings.Join(append([]string{"aloft"}, path...), "-")
		seen[name+".golden"] = true
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if code := run(t.Context(), append(path, "--help"), noEnv, nil, &out, &out); code != cli.OK {
				t.Fatalf("exit code is %d: %s", code, out.String())
			}
			golden(t, filepath.Join("testdata/help", name+".golden"), out.String())
		})
		for _, sub := range cmd.Commands() {
			if !sub.Hidden && sub.Name() != "help" {
				walk(sub, append(path[:len(path):len(path)], sub.Name()))
			}
		}
	}
	a := newApp(noEnv)
	walk(newRootCommand(a), nil)
	files, err := os.ReadDir("testdata/help")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("testdata/help/%s is of no command", f.Name())
		}
	}
}

// noEnv is an environment with only a home and a data folder.
func noEnv(name string) string {
	return map[string]string{"HOME": "/nowhere", "ALOFT_DATA": "/var/lib/aloft"}[name]
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); rewrite it with -update:\n%s", file, diff)
	}
}

// TestInterruptLeavesTheAgent sends Ctrl-C while a run is watched. The agent
// must continue.
func TestInterruptLeavesTheAgent(t *testing.T) {
	s := newFakeServer()
	defer s.Close()
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	var stdout, stderr bytes.Buffer
	press := &onText{Writer: &stdout, text: "Working on it", do: func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}}
	getenv := func(name string) string {
		return map[string]string{"ALOFT_URL": s.URL, "ALOFT_API_KEY": fakeKey, "HOME": t.TempDir(), "ALOFT_DATA": t.TempDir()}[name]
	}
	code := run(ctx, []string{"run", "--repo", "https://git.example.com/a/b", "slow"}, getenv, nil, press, &stderr)
	if code != cli.Interrupted {
		t.Errorf("exit code is %d; want %d", code, cli.Interrupted)
	}
	for _, want := range []string{"aloft agent logs --follow " + fakeAgent, "aloft agent stop " + fakeAgent} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("nothing says %q:\n%s", want, stdout.String())
		}
	}
	if !strings.Contains(stderr.String(), "The agent keeps running") || s.cancelled() {
		t.Errorf("stderr is %q; was the run stopped: %v", stderr.String(), s.cancelled())
	}
}

// onText is a writer that calls a function when it receives a certain text.
type onText struct {
	Writer *bytes.Buffer
	text   string
	do     func()
}

func (w *onText) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if w.do != nil && strings.Contains(w.Writer.String(), w.text) {
		w.do()
		w.do = nil
	}
	return n, err
}
