package tool_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/wire/agentv1"
)

// TestGuarded checks where guarded calls write: a call whose path was judged
// ordinary, or was approved in a review, cannot change any other protected
// path.
func TestGuarded(t *testing.T) {
	const before = "before\n"
	for _, c := range []struct {
		name, path string
		link       [2]string // the target and the path of a symbolic link
		hard       [2]string // the target and the path of a hard link
		file       string    // the file that the call should change; it begins with its old contents
		ok         bool
	}{
		{name: "ordinary", path: "w/a.txt", file: "w/a.txt", ok: true},
		{name: "new folders", path: "w/x/y/a.txt", ok: true},
		{name: "free folder", path: "free/a.txt", file: "free/a.txt", ok: true},
		{name: "link inside", path: "w/l", link: [2]string{"w/a.txt", "w/l"}, file: "w/a.txt", ok: true},
		{name: "link to a free folder", path: "w/l/a.txt", link: [2]string{"free", "w/l"}, file: "free/a.txt", ok: true},
		{name: "reviewed, protected", path: "w/.git/config", file: "w/.git/config", ok: true},
		{name: "reviewed, outside", path: "home/notes", file: "home/notes", ok: true},
		{name: "link to git's configuration", path: "w/l", link: [2]string{"w/.git/config", "w/l"}, file: "w/.git/config"},
		{name: "link to git's folder", path: "w/l/config", link: [2]string{"w/.git", "w/l"}, file: "w/.git/config"},
		{name: "relative link", path: "w/l/pre-commit", link: [2]string{".git/hooks", "w/l"}, file: "w/.git/hooks/pre-commit"},
		{name: "link outside", path: "w/l", link: [2]string{"home/.bashrc", "w/l"}, file: "home/.bashrc"},
		{name: "folder outside", path: "w/l/config", link: [2]string{"home/.ssh", "w/l"}, file: "home/.ssh/config"},
		{name: "new file outside", path: "w/l/x/new", link: [2]string{"home", "w/l"}},
		{name: "reviewed, but a link", path: "home/notes", link: [2]string{"home/.bashrc", "home/notes"}, file: "home/.bashrc"},
		{name: "link that dangles", path: "w/l", link: [2]string{"home/.profile", "w/l"}},
		{name: "hard link", path: "w/h", hard: [2]string{"w/.git/config", "w/h"}, file: "w/.git/config"},
		{name: "hard link to a hook", path: "w/h", hard: [2]string{"w/.git/hooks/pre-commit", "w/h"}, file: "w/.git/hooks/pre-commit"},
		{name: "hard link to a start-up file", path: "w/h", hard: [2]string{"home/.bashrc", "w/h"}, file: "home/.bashrc"},
		{name: "hard link to another", path: "w/h", hard: [2]string{"w/a.txt", "w/h"}, file: "w/a.txt", ok: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			at := func(name string) string { return filepath.Join(dir, name) }
			for _, f := range []string{"w/a.txt", "free/a.txt", "home/notes", "w/.git/config", "w/.git/hooks/pre-commit", "home/.bashrc", "home/.ssh/config"} {
				if f == c.link[1] {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(at(f)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at(f), []byte(before), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.link[0] != "" {
				to := c.link[0]
				if !strings.HasPrefix(to, ".") {
					to = at(to)
				}
				if err := os.Symlink(to, at(c.link[1])); err != nil {
					t.Fatal(err)
				}
			}
			if c.hard[0] != "" {
				if err := os.Link(at(c.hard[0]), at(c.hard[1])); err != nil {
					t.Fatal(err)
				}
			}
			ws := tool.Workspace{Dir: at("w"), Free: []string{at("free")}, Home: at("home")}
			run := func(hand tool.Tool, args map[string]any) tool.Outcome {
				args["path"], args["guarded"] = at(c.path), true
				text, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				out := hand.Run(context.Background(), tooltest.Call(t, hand.Name, string(text)), nil)
				tooltest.Check(t, hand.Name, out)
				return out
			}
			outs := []tool.Outcome{run(tool.Write(ws), map[string]any{"contents": "after\n"})}
			if c.file != "" {
				want := before
				if c.ok {
					want = "after\n"
				}
				if got, err := os.ReadFile(at(c.file)); err != nil || string(got) != want {
					t.Errorf("after Write %s is %q (%v)", c.file, got, err)
				}
				outs = append(outs, run(tool.StrReplace(ws), map[string]any{"old_string": strings.TrimSpace(want), "new_string": "again"}))
			}
			for _, out := range outs {
				if out.Error == c.ok {
					t.Errorf("error %v: %s", out.Error, out.Text)
				}
				if refused := out.Failure == agentv1.FailureKind_FAILURE_KIND_PERMISSION_DENIED; refused == c.ok {
					t.Errorf("the failure is %v: %s", out.Failure, out.Text)
				}
			}
			// Deleting a symbolic link removes the link itself.
			gone := run(tool.Delete(ws), map[string]any{})
			if _, err := os.Lstat(at(c.file)); c.file != "" && !c.ok && err != nil {
				t.Errorf("%s was deleted: %s", c.file, gone.Text)
			}
		})
	}
}

// TestGuardedFolderIsSwapped replaces a folder by a symbolic link to a
// protected folder while calls write to it. No call may write to the protected
// folder.
func TestGuardedFolderIsSwapped(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hooks, at, aside := filepath.Join(dir, ".git/hooks"), filepath.Join(dir, "d"), filepath.Join(dir, "aside")
	for _, d := range []string{hooks, at} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(hooks, link); err != nil {
		t.Fatal(err)
	}
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(at, aside) // if a step of the swap fails, the loop repeats it
			_ = os.Rename(link, at)
			_ = os.Rename(at, link)
			_ = os.Rename(aside, at)
		}
	}()
	hand := tool.Write(tool.Workspace{Dir: dir})
	written := 0
	for range 500 {
		out := hand.Run(context.Background(), tooltest.Call(t, "Write", `{"path":"d/pre-commit","contents":"x","guarded":true}`), nil)
		if !out.Error {
			written++
		}
	}
	close(stop)
	<-swapped
	if found, err := os.ReadDir(hooks); err != nil || len(found) > 0 {
		t.Errorf("in %s: %v (%v)", hooks, found, err)
	}
	if written == 0 {
		t.Error("no call wrote anything: the test shows nothing")
	}
}
