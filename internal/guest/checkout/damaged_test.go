package checkout

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// system returns the path of a git configuration like the machine's.
func system(t *testing.T) string {
	t.Helper()
	text, err := Config{Gateway: gateway, AuthorName: "Aloft", AuthorEmail: "a@aloft.example"}.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gitconfig")
	write(t, file, text)
	return file
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

const workBranch = "aloft/work"

// site is a clone that contains an agent's work, and its remote.
type site struct {
	*Repository
	t        *testing.T
	upstream string
}

// newSite clones a repository of one commit and adds a commit of the agent's.
func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{t: t, upstream: filepath.Join(dir, "up.git")}
	s.Repository = &Repository{
		Path: filepath.Join(dir, "clone"), URL: s.upstream, Own: filepath.Join(dir, "own"), System: system(t),
		Record: filepath.Join(dir, "record.json"), Run: here, Claim: func(string) error { return nil },
	}
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("GIT_CONFIG_SYSTEM", s.System)
	s.at(dir, "init", "--quiet", "--bare", s.upstream)
	s.at(dir, "clone", "--quiet", s.upstream, "first")
	write(t, filepath.Join(dir, "first/a.txt"), "one\n")
	write(t, filepath.Join(dir, "first/.gitattributes"), "*.key filter=crypt\n")
	write(t, filepath.Join(dir, "first/.gitignore"), "*.log\n")
	write(t, filepath.Join(dir, "first/kept.log"), "tracked though it is ignored\n")
	s.at(filepath.Join(dir, "first"), "add", "--force", "--all")
	s.at(filepath.Join(dir, "first"), "commit", "--quiet", "-m", "first")
	s.at(filepath.Join(dir, "first"), "push", "--quiet", "origin", "HEAD:main")
	if _, err := s.Make(t.Context(), Spec{URL: s.upstream, Ref: "main", Branch: workBranch}, func(string) {}); err != nil {
		t.Fatal(err)
	}
	s.write("b.txt", "the agent's\n")
	s.git("add", "--all")
	s.git("commit", "--quiet", "-m", "the agent's")
	return s
}

// git runs git as the agent would.
func (s *site) git(args ...string) string { s.t.Helper(); return s.at(s.Path, args...) }

func (s *site) at(dir string, args ...string) string {
	s.t.Helper()
	var out strings.Builder
	exit, err := here(s.t.Context(), Command{Args: append([]string{"git"}, args...), Dir: dir, Stdout: &out, Stderr: &out})
	if err != nil || exit != 0 {
		s.t.Fatalf("git %s: %d, %v\n%s", strings.Join(args, " "), exit, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func (s *site) write(name, text string) { s.t.Helper(); write(s.t, filepath.Join(s.Path, name), text) }

func (s *site) remove(name string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.Path, name)); err != nil {
		s.t.Fatal(err)
	}
}

// TestDamagedCloneIsDelivered damages an agent's clone in many ways. The server
// must still commit, show and push the work, and must not run programs that the
// clone's configuration names.
func TestDamagedCloneIsDelivered(t *testing.T) {
	for name, damage := range map[string]func(s *site, program string){
		"Nothing":       func(*site, string) {},
		"RemovedRemote": func(s *site, _ string) { s.git("remote", "remove", "origin") },
		"OtherRemote":   func(s *site, _ string) { s.git("remote", "set-url", "origin", "/nowhere") },
		"WorktreeElsewhere": func(s *site, _ string) {
			s.git("config", "core.worktree", s.t.TempDir())
		},
		"Bare":      func(s *site, _ string) { s.git("config", "core.bare", "true") },
		"FSMonitor": func(s *site, program string) { s.git("config", "core.fsmonitor", program) },
		"Filter": func(s *site, program string) {
			s.git("config", "filter.x.clean", program)
			s.git("config", "filter.x.required", "true")
			s.write(".gitattributes", "* filter=x\n")
		},
		"InsteadOf": func(s *site, _ string) {
			s.git("config", "url./nowhere.insteadOf", s.upstream)
			s.git("config", "url./nowhere.pushInsteadOf", s.upstream)
		},
		"ReceivePack": func(s *site, program string) { s.git("config", "remote.origin.receivepack", program) },
		"HomeConfig": func(s *site, program string) {
			write(s.t, filepath.Join(os.Getenv("HOME"), ".gitconfig"), "[core]\n\tfsmonitor = "+program+"\n[url \"/nowhere\"]\n\tinsteadOf = "+s.upstream+"\n")
		},
		"Variables": func(s *site, program string) {
			s.t.Setenv("GIT_DIR", "/nowhere")
			s.t.Setenv("GIT_EXTERNAL_DIFF", program)
			s.t.Setenv("GIT_OBJECT_DIRECTORY", "/nowhere")
		},
		"IncludedConfig": func(s *site, program string) {
			s.write(".git/more", "[core]\n\tfsmonitor = "+program+"\n")
			s.git("config", "include.path", "more")
		},
		"GarbageConfig":  func(s *site, _ string) { s.write(".git/config", "\x00\xff[[[ not a configuration") },
		"NoConfig":       func(s *site, _ string) { s.remove(".git/config") },
		"MissingHead":    func(s *site, _ string) { s.remove(".git/HEAD") },
		"GarbageHead":    func(s *site, _ string) { s.write(".git/HEAD", "\x00\x01") },
		"CorruptedIndex": func(s *site, _ string) { s.write(".git/index", "DIRC garbage") },
		"NoIndex":        func(s *site, _ string) { s.remove(".git/index") },
		"IndexIsAFolder": func(s *site, _ string) { s.remove(".git/index"); s.write(".git/index/x", "") },
		"DetachedHead":   func(s *site, _ string) { s.git("checkout", "--quiet", "--detach") },
		"LostRefs":       func(s *site, _ string) { s.remove(".git/refs") },
		"LostRepository": func(s *site, _ string) { s.remove(".git") },
		"EverythingAtOnce": func(s *site, _ string) {
			s.write(".git/config", "[core")
			s.remove(".git/HEAD")
			s.write(".git/index", "x")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			ran := filepath.Join(t.TempDir(), "ran")
			program := filepath.Join(t.TempDir(), "program")
			write(t, program, "#!/bin/sh\necho \"$0 $@\" >> "+ran+"\necho spoiled\n")
			s.write("c.txt", "not committed\n")
			damage(s, program)
			if err := os.RemoveAll(ran); err != nil { // made by the agent's own git
				t.Fatal(err)
			}

			if _, found, err := s.Find(t.Context()); err != nil || !found && name != "LostRepository" {
				t.Errorf("found %v, %v", found, err)
			}
			diff, _, err := s.Diff(t.Context(), "", t.TempDir())
			if err != nil || !strings.Contains(diff, "+the agent's") || !strings.Contains(diff, "+not committed") || strings.Contains(diff, "kept.log") {
				t.Errorf("diff: %q, %v", diff, err)
			}
			done, err := s.Commit(t.Context(), "what is left", false)
			if err != nil || !done.Made {
				t.Fatalf("commit: %+v, %v", done, err)
			}
			if again, err := s.Commit(t.Context(), "again", false); err != nil || again.Made || again.Commit != done.Commit {
				t.Errorf("nothing is left: %+v, %v", again, err)
			}
			pushed, err := s.Push(t.Context(), workBranch, false)
			if err != nil || pushed.Commit != done.Commit {
				t.Fatalf("push: %+v, %v", pushed, err)
			}
			if _, err := os.Stat(ran); err == nil {
				text, _ := os.ReadFile(ran)
				t.Errorf("a program of the clone's configuration ran: %s", text)
			}
			for _, v := range os.Environ() { // the damage's variables must not affect the test's own git
				if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "GIT_") {
					t.Setenv(name, "")
					_ = os.Unsetenv(name)
				}
			}
			for file, want := range map[string]string{"a.txt": "one", "b.txt": "the agent's", "c.txt": "not committed", "kept.log": "tracked though it is ignored"} {
				if got := s.at(s.upstream, "show", workBranch+":"+file); got != want {
					t.Errorf("%s on the remote is %q", file, got)
				}
			}
			if log := s.at(s.upstream, "log", "--format=%s", workBranch); !strings.HasSuffix(log, "first") {
				t.Errorf("the history is %q", log)
			}
		})
	}
}

// TestForkOfADamagedClone checks that a fork of a damaged clone continues from
// the same commit.
func TestForkOfADamagedClone(t *testing.T) {
	s := newSite(t)
	head := s.git("rev-parse", "HEAD")
	s.write("c.txt", "not committed\n")
	s.write(".git/config", "[core")
	if state, err := s.BranchOff(t.Context(), Spec{URL: s.upstream, Branch: "aloft/fork", Owner: "bc-2"}); err != nil || state.Branch != "aloft/fork" {
		t.Fatalf("%+v, %v", state, err)
	}
	done, err := s.Commit(t.Context(), "what is left", false)
	if err != nil || !done.Made {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := s.Push(t.Context(), "aloft/fork", false); err != nil {
		t.Fatal(err)
	}
	if parent := s.at(s.upstream, "rev-parse", "aloft/fork^"); parent != head {
		t.Errorf("the fork follows %s, want %s", parent, head)
	}
}

// TestUnpushedWorkIsBundled checks that commits that cannot be pushed are kept
// in a bundle.
func TestUnpushedWorkIsBundled(t *testing.T) {
	s := newSite(t)
	s.URL = "/nowhere"
	if _, err := s.Push(t.Context(), workBranch, false); err == nil {
		t.Fatal("pushed to nowhere")
	}
	file := filepath.Join(t.TempDir(), "work.bundle")
	if kept, err := s.Bundle(t.Context(), file); err != nil || !kept {
		t.Fatalf("%v, %v", kept, err)
	}
	s.at(s.upstream, "fetch", "--quiet", file, "HEAD:rescued")
	if got, want := s.at(s.upstream, "rev-parse", "rescued"), s.git("rev-parse", "HEAD"); got != want {
		t.Errorf("the bundle has %s, want %s", got, want)
	}
	s.git("reset", "--quiet", "--hard", "origin/main")
	if kept, err := s.Bundle(t.Context(), file+"2"); err != nil || kept {
		t.Errorf("without a commit: %v, %v", kept, err)
	}
}

// TestMergeIsFinished commits in the middle of a merge. The commit must
// complete the merge.
func TestMergeIsFinished(t *testing.T) {
	s := newSite(t)
	s.git("checkout", "--quiet", "-b", "other", "origin/main")
	s.write("d.txt", "other\n")
	s.git("add", "--all")
	s.git("commit", "--quiet", "-m", "other")
	other := s.git("rev-parse", "HEAD")
	s.git("checkout", "--quiet", workBranch)
	s.git("merge", "--quiet", "--no-commit", "--no-ff", "other")
	head := s.git("rev-parse", "HEAD")
	if done, err := s.Commit(t.Context(), "merge", false); err != nil || !done.Made {
		t.Fatalf("%+v, %v", done, err)
	}
	if parents := strings.Fields(s.git("log", "-1", "--format=%P")); !slices.Equal(parents, []string{head, other}) {
		t.Errorf("parents %v", parents)
	}
	if status := s.git("status", "--porcelain=v2", "--branch"); strings.Contains(status, "\n1 ") || strings.Contains(s.git("status"), "merging") {
		t.Errorf("status: %s", status)
	}
}
