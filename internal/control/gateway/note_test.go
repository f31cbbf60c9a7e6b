package gateway_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/control/gateway/gittest"
)

func withNotes(w *world) { w.cfg.Notes = true }

// note returns the note of a commit at the upstream, or "".
func note(t *testing.T, w *world, commit string) string {
	t.Helper()
	out, err := gittest.Command(t, w.Path("r"), "notes", "--ref=aloft", "show", commit).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// blamed returns the result of Blame as one line for each range.
func blamed(t *testing.T, w *world, url, base, branch string, paths ...string) (all []string) {
	t.Helper()
	got, err := w.gw.Blame(t.Context(), url, base, "refs/heads/"+branch, paths)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		for _, l := range got.Files[name] {
			all = append(all, strings.Join([]string{name, strings.Repeat("x", l.First) + "-" + strings.Repeat("x", l.Last), l.Author.Agent, l.Author.Run}, " "))
		}
	}
	return all
}

// TestNotes checks that each commit has a note of the run that has pushed it
// first, and that Blame tells the runs of lines.
func TestNotes(t *testing.T) {
	w := newWorld(t, withNotes)
	m, url := checkedOut(t, w)
	base := w.Branch("r", "main")
	first := m.commit("r", "more", map[string]string{"a.txt": "one\ntwo\n", "b.txt": "b\n"})
	m.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	if got := note(t, w, first); got != "Agent: bc-1\nRun: run-1" {
		t.Errorf("the first commit has the note %q", got)
	}
	if got := note(t, w, base); got != "" {
		t.Errorf("a commit that was there has the note %q", got)
	}

	// A person writes a note and a commit on the default branch. The next run
	// merges it.
	gittest.Git(t, w.Path("r"), "-c", "user.name=p", "-c", "user.email=p@x", "notes", "--ref=aloft", "add", "-m", "mine", base)
	others := w.Commit("r", "main", "others'", map[string]string{"c.txt": "c\n"})
	grant := oneRepo(url, branch)
	grant.AgentID, grant.RunID, grant.Pushed = "bc-1", "run-2", []string{url}
	next := w.machine(t, grant)
	next.git("", "clone", "--quiet", "--branch", branch, url, "r")
	next.git("r", "-c", "user.name=x", "-c", "user.email=x@x", "merge", "--quiet", "origin/main")
	second := next.commit("r", "still more", map[string]string{"a.txt": "one\ntwo\nthree\n"})
	next.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	want := map[string]string{base: "mine", others: "", first: "Agent: bc-1\nRun: run-1", second: "Agent: bc-1\nRun: run-2"}
	for commit, words := range want {
		if got := note(t, w, commit); got != words {
			t.Errorf("%s has the note %q, want %q", commit, got, words)
		}
	}
	if diff := cmp.Diff([]string{"a.txt xx-xx bc-1 run-1", "a.txt xxx-xxx bc-1 run-2", "b.txt x-x bc-1 run-1"}, blamed(t, w, url, base, branch, "a.txt", "b.txt", "missing.txt")); diff != "" {
		t.Errorf("since the base: %s", diff)
	}
	if diff := cmp.Diff([]string{"a.txt xx-xx bc-1 run-1", "a.txt xxx-xxx bc-1 run-2", "b.txt x-x bc-1 run-1"}, blamed(t, w, url, "main", branch)); diff != "" {
		t.Errorf("of the changed files: %s", diff)
	}
	if diff := cmp.Diff([]string{"a.txt x-x  ", "a.txt xx-xx bc-1 run-1", "a.txt xxx-xxx bc-1 run-2", "c.txt x-x  "}, blamed(t, w, url, "", branch, "a.txt", "c.txt")); diff != "" {
		t.Errorf("of all lines: %s", diff)
	}
	if _, err := w.gw.Blame(t.Context(), url, "", "refs/heads/"+branch, nil); err == nil {
		t.Error("Blame of no files succeeds")
	}

	// Another agent pushes the same commits, which are on no branch any more.
	gittest.Git(t, w.Path("r"), "update-ref", "-d", "refs/heads/"+branch)
	grant = oneRepo(url, "aloft/y")
	grant.AgentID, grant.RunID = "bc-2", "run-3"
	last := w.machine(t, grant)
	last.git("", "clone", "--quiet", next.dir+"/r", "r")
	last.git("r", "remote", "set-url", "origin", url)
	third := last.commit("r", "once more", map[string]string{"b.txt": "b\nb\n"})
	last.git("r", "push", "origin", "HEAD:aloft/y")
	w.gw.AwaitNotes()
	if one, two := note(t, w, first), note(t, w, third); one != want[first] || two != "Agent: bc-2\nRun: run-3" {
		t.Errorf("after the push of another agent, the notes are %q and %q", one, two)
	}
}

// TestNotesRefused checks that a push succeeds where notes are refused, and that
// this server still knows who wrote the lines.
func TestNotesRefused(t *testing.T) {
	w := newWorld(t, withNotes)
	m, url := checkedOut(t, w)
	w.Hook("r", "update", "case $1 in refs/notes/*) echo no notes here >&2; exit 1;; esac")
	m.commit("r", "more", map[string]string{"a.txt": "one\ntwo\n"})
	m.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	if !strings.Contains(w.log.String(), "the notes were refused: hook declined") {
		t.Errorf("the log does not say that the notes were refused")
	}
	if diff := cmp.Diff([]string{"a.txt xx-xx bc-1 run-1"}, blamed(t, w, url, "main", branch)); diff != "" {
		t.Error(diff)
	}
}

// TestNotesRace checks that notes that somebody else pushes at the same time are
// kept.
func TestNotesRace(t *testing.T) {
	w := newWorld(t, withNotes)
	m, _ := checkedOut(t, w)
	base := w.Branch("r", "main")
	w.Hook("r", "update", `case $1 in refs/notes/*) [ -e raced ] && exit 0; touch raced
unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
git -c user.name=p -c user.email=p@x notes --ref=aloft add -m theirs `+base+`;; esac`)
	first := m.commit("r", "more", map[string]string{"a.txt": "one\ntwo\n"})
	m.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	if got, theirs := note(t, w, first), note(t, w, base); got != "Agent: bc-1\nRun: run-1" || theirs != "theirs" {
		t.Errorf("the notes are %q and %q; the log is\n%s", got, theirs, w.log)
	}
}

// TestNotesAreOff checks that nothing but the branch is pushed by default.
func TestNotesAreOff(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w)
	m.commit("r", "more", map[string]string{"a.txt": "one\ntwo\n"})
	m.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	if refs := gittest.Git(t, w.Path("r"), "for-each-ref", "--format=%(refname)"); refs != "refs/heads/"+branch+"\nrefs/heads/main" {
		t.Errorf("the upstream has %q", refs)
	}
}

// TestHostileNotes checks that a note which somebody forged names no agent that
// has an impossible id.
func TestHostileNotes(t *testing.T) {
	w := newWorld(t, withNotes)
	m, url := checkedOut(t, w)
	commit := m.commit("r", "more", map[string]string{"a.txt": "one\ntwo\n"})
	m.git("r", "push", "origin", branch)
	w.gw.AwaitNotes()
	gittest.Git(t, w.Path("r"), "-c", "user.name=p", "-c", "user.email=p@x", "notes", "--ref=aloft", "add", "-f", "-m", "Agent: bc-1\x1b[2J\nRun: <script>\n", commit)
	m.commit("r", "again", map[string]string{"b.txt": "b\n"})
	m.git("r", "push", "origin", branch) // reads the notes again
	w.gw.AwaitNotes()
	if diff := cmp.Diff([]string{"a.txt xx-xx  ", "b.txt x-x bc-1 run-1"}, blamed(t, w, url, "main", branch)); diff != "" {
		t.Error(diff)
	}
}
