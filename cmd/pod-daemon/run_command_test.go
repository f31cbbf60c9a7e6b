package main

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/pod"
)

func TestRunCommand(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{})
	for _, tt := range []struct {
		name, command, output string
		code                  int
	}{
		{"PrintsInOrder", "echo one; echo two >&2; echo three", "one\ntwo\nthree\n", 0},
		{"RunsInTheWorkspaceAsTheUser", "pwd; id -un; echo $GIVEN", m.workspace() + "\nnobody\nby boot\n", 0},
		{"ManyLines", "a=1\nif [ $a = 1 ]; then\n  echo yes\nfi\nexit 3", "yes\n", 3},
		{"HasNothingToRead", "cat; echo end", "end\n", 0},
		{"KilledBySignal", "kill -9 $$", "", 137},
		{"LeavesWhatItStarted", "(sleep 600 >/dev/null 2>&1 &) ; echo left", "left\n", 0},
		{"WaitsForNobodyElse", "sleep 600 & echo left", "left\n", 0},
		{"BytesThatAreNoText", "printf '\\377\\000'", "\xff\x00", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			exit, err := c.RunCommand(t.Context(), tt.command, time.Minute, &out)
			if err != nil || exit.Code != tt.code || exit.TimedOut || out.String() != tt.output {
				t.Errorf("%+v, %v, %q; want %d, %q", exit, err, out.String(), tt.code, tt.output)
			}
		})
	}

	t.Run("TakesTooLong", func(t *testing.T) {
		var out bytes.Buffer
		exit, err := c.RunCommand(t.Context(), "echo begun; sleep 600", 300*time.Millisecond, &out)
		if err != nil || !exit.TimedOut || out.String() != "begun\n" {
			t.Errorf("%+v, %v, %q", exit, err, out.String())
		}
	})
	t.Run("EndsWithTheCaller", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		pid := &onWrite{do: cancel}
		if _, err := c.RunCommand(ctx, "echo $$; exec sleep 600", 0, pid); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
		var out bytes.Buffer
		if _, err := c.RunCommand(t.Context(), "while kill -0 "+strings.TrimSpace(pid.String())+" 2>/dev/null; do sleep 0.05; done; echo gone", time.Minute, &out); err != nil || out.String() != "gone\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	})
	t.Run("MuchOutput", func(t *testing.T) {
		n := &counted{}
		exit, err := c.RunCommand(t.Context(), "head -c 100000000 /dev/zero", time.Minute, n)
		if err != nil || exit.Code != 0 || n.bytes != 100_000_000 {
			t.Errorf("%+v, %v, %d bytes", exit, err, n.bytes)
		}
	})
	t.Run("NoCommand", func(t *testing.T) {
		if _, err := c.RunCommand(t.Context(), "", 0, &bytes.Buffer{}); err == nil {
			t.Error("no error")
		}
	})
}

// onWrite is a writer that calls a function on the first write.
type onWrite struct {
	bytes.Buffer
	do func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	defer w.do()
	return w.Buffer.Write(p)
}

type counted struct{ bytes int }

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// TestBootUser checks that everything after the boot runs as the user that the
// request names, and that an unknown user is reported.
func TestBootUser(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ user, is, detail string }{
		{"games", "games", "games"}, {"", "nobody", "nobody"}, {"no-such-user", "nobody", "nobody: the machine has no user no-such-user"},
	} {
		t.Run(tt.is+"For"+tt.user, func(t *testing.T) {
			m, f := newMachine(t), newForge(t)
			m.start()
			c := m.dial(f)
			detail := ""
			if _, err := c.Boot(t.Context(), pod.Boot{
				Checkout: pod.Checkout{RepoURL: repoURL, Path: m.workspace()}, ExecToken: token, GitCredential: "cred-of-the-run", User: tt.user,
			}, func(s pod.Step) {
				if s.Name == "user" {
					detail = s.Detail
				}
			}); err != nil {
				t.Fatal(err)
			}
			if detail != tt.detail {
				t.Errorf("the step says %q; want %q", detail, tt.detail)
			}
			if got := m.shell(c).run("id -un; stat -c %U .git one"); got != strings.Repeat(tt.is+"\n", 2)+tt.is {
				t.Errorf("it is %q", got)
			}
		})
	}
}

// TestBootAdoptsTheCloneOfABuild checks that a clone that a build has left on
// the disk becomes the agent's clone. It must be on the agent's branch, with
// the remote's new commits, and keep its untracked files.
func TestBootAdoptsTheCloneOfABuild(t *testing.T) {
	t.Parallel()
	m, f := newMachine(t), newForge(t)
	m.start()
	c := m.dial(f)
	m.mustBoot(c, pod.Checkout{Owner: "bld-1"})
	m.shell(c).run("mkdir node_modules && echo x > node_modules/x && echo changed >> one && echo in the way > three")
	m.kill()
	<-c.Done()

	work := t.TempDir()
	f.git("clone", "-q", f.repo("r"), work)
	f.git("-C", work, "checkout", "-q", "-b", "later")
	f.git("-C", work, "mv", "two", "three")
	f.git("-C", work, "commit", "-q", "-m", "three")
	f.git("-C", work, "push", "-q", "origin", "later", "later:main")

	for i, tt := range []struct {
		owner    string
		checkout pod.Checkout
		branch   string
	}{
		{"bc-1", pod.Checkout{Ref: "later", Branch: "aloft/x-1"}, "aloft/x-1"},
		{"bc-2", pod.Checkout{Branch: "aloft/x-2"}, "aloft/x-2"},
		{"bc-3", pod.Checkout{Ref: "main", Branch: "main"}, "main"},
	} {
		m.start()
		c = m.dial(f)
		tt.checkout.Owner = tt.owner
		ready, steps, err := m.boot(c, tt.checkout)
		if err != nil {
			t.Fatal(err)
		}
		if ready.Branch != tt.branch || ready.BaseCommit != f.tip("later") || !strings.HasPrefix(steps["checkout"].Detail, "updated the checkout") {
			t.Errorf("%s: ready %+v, checkout %+v", tt.owner, ready, steps["checkout"])
		}
		sh := m.shell(c)
		if got := sh.run("git status --porcelain; cat one three node_modules/x; git branch --show-current"); got != "?? node_modules/\none\ntwo\nx\n"+tt.branch {
			t.Errorf("%s: the tree is %q", tt.owner, got)
		}
		// Unchanged files keep their times, because make compares them.
		if got := sh.run("stat -c %Y one; touch -d @978307200 one"); i > 0 && got != "978307200" {
			t.Errorf("%s: the file that stays is written again, at %s", tt.owner, got)
		}
		if again, steps, err := m.boot(c, tt.checkout); err != nil || !reflect.DeepEqual(again, ready) || steps["checkout"].Detail != "already checked out" {
			t.Errorf("%s: again: %+v, %+v, %v", tt.owner, again, steps["checkout"], err)
		}
		m.kill()
		<-c.Done()
	}
	if m.start(); m.mustBoot(m.dial(f), pod.Checkout{Owner: "bc-3", Ref: "main", Branch: "main"}).Branch != "main" {
		t.Error("the branch is another after a restart")
	}
}
