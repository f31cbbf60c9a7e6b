package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"aloft/internal/control/repourl"
)

// NotesRef is the ref of the notes that say which run made a commit. Its own
// name keeps the notes of other programs untouched.
const NotesRef = "refs/notes/aloft"

const (
	maxNoted  = 1000     // commits of one push that get a note
	maxBlame  = 4 << 20  // bytes of git blame's output for one file
	maxNotes  = 16 << 20 // bytes of the list of notes
	noteTries = 3        // how often to try while others push notes
)

// An Author is the run that made a commit.
type Author struct{ Agent, Run string }

// text returns the author's note.
func (a Author) text() string { return "Agent: " + a.Agent + "\nRun: " + a.Run + "\n" }

var (
	noteAgent = regexp.MustCompile(`(?m)^Agent: (bc-[0-9a-f-]{1,64})$`)
	noteRun   = regexp.MustCompile(`(?m)^Run: (run-[0-9a-f-]{1,64})$`)
)

// authorIn returns the author that a note names. Anybody who can push to the
// repository can write notes, so they are not proof.
func authorIn(note string) Author {
	var a Author
	if m := noteAgent.FindStringSubmatch(note); m != nil {
		a.Agent = m[1]
	}
	if m := noteRun.FindStringSubmatch(note); m != nil {
		a.Run = m[1]
	}
	return a
}

// A Pushed is what a push has changed.
type Pushed struct {
	Branch   string
	Old, New string // commits; Old is all zeros for a new branch
}

// Note writes a note for each commit that a push has brought, unless the commit
// is on another branch or has a note, and pushes the notes. The error says why
// the upstream did not accept them; the mirror keeps them then, until the
// upstream has notes of its own.
func (m *Mirror) Note(ctx context.Context, r repourl.Repo, p Pushed, a Author) error {
	if err := m.lockWrite(ctx); err != nil {
		return err
	}
	defer m.unlockWrite()
	for range noteTries {
		if err := m.fetchNotes(ctx, r); err != nil {
			return err
		}
		if added, err := m.addNotes(ctx, p, a); err != nil || !added {
			return err
		}
		if retry, err := m.pushNotes(ctx, r); !retry {
			return err
		}
	}
	return errors.New("others pushed notes at the same time")
}

func (m *Mirror) fetchNotes(ctx context.Context, r repourl.Repo) error {
	err := m.bounded(ctx, r, []string{
		"fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance", "--",
		r.String(), "+" + NotesRef + ":" + NotesRef,
	})
	if err != nil && strings.Contains(err.Error(), "couldn't find remote ref") {
		return nil
	}
	return err
}

// addNotes adds notes to the mirror. added is false if no commit needs one.
func (m *Mirror) addNotes(ctx context.Context, p Pushed, a Author) (added bool, err error) {
	args := []string{"rev-list", "--max-count=" + strconv.Itoa(maxNoted), p.New, "--not", "--exclude=" + p.Branch, "--branches", "--tags"}
	if !isZero(p.Old) {
		args = append(args, p.Old)
	}
	brought, _, err := m.git(ctx, invocation{args: args})
	if err != nil {
		return false, err
	}
	var list bytes.Buffer
	_, _, err = m.git(ctx, invocation{args: []string{"notes", "--ref=" + NotesRef, "list"}, stdout: &limitWriter{w: &list, left: maxNotes}})
	if err != nil {
		return false, err
	}
	noted := map[string]bool{}
	for line := range strings.Lines(list.String()) {
		_, commit, _ := strings.Cut(strings.TrimSpace(line), " ")
		noted[commit] = true
	}
	var in bytes.Buffer
	data := func(text string) { fmt.Fprintf(&in, "data %d\n%s\n", len(text), text) }
	fmt.Fprintf(&in, "commit %s\ncommitter Aloft <aloft@localhost> now\n", NotesRef)
	data("notes of " + a.Run + "\n")
	if list.Len() > 0 {
		fmt.Fprintf(&in, "from %s^0\n", NotesRef)
	}
	for commit := range strings.FieldsSeq(string(brought)) {
		if !noted[commit] {
			added = true
			fmt.Fprintf(&in, "N inline %s\n", commit)
			data(a.text())
		}
	}
	if !added {
		return false, nil
	}
	_, _, err = m.git(ctx, invocation{args: []string{"fast-import", "--quiet", "--date-format=now"}, stdin: &in, changes: true})
	return true, err
}

// saysMoved are what git servers say when a ref has changed during a push.
var saysMoved = []string{"failed to update ref", "cannot lock ref", "incorrect old value", "failed to lock"}

// pushNotes pushes the notes of the mirror. retry is true if the upstream has
// got other notes meanwhile.
func (m *Mirror) pushNotes(ctx context.Context, r repourl.Repo) (retry bool, err error) {
	stdout, _, err := m.upstream(ctx, r, invocation{args: []string{
		"push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", "--",
		r.String(), NotesRef + ":" + NotesRef,
	}})
	flag, status := porcelain(string(stdout), NotesRef)
	switch {
	case flag != "!":
		return false, err
	case strings.HasPrefix(status, "[rejected]"), hasAny(status, saysMoved):
		return true, nil
	}
	return false, fmt.Errorf("the notes were refused: %s", reason(status))
}

// Lines is a range of lines of a file that were last changed by one commit.
type Lines struct {
	First, Last int // counted from 1
	Commit      string
	Author      Author // empty if no run is known to have made the commit
}

// Blame returns the ranges of lines of a file at the commit tip, in order. If
// base is not empty, it is a commit, and only lines that were changed since it
// are returned.
func (m *Mirror) Blame(ctx context.Context, base, tip, name string) ([]Lines, error) {
	at := tip
	if base != "" {
		at = base + ".." + tip
	}
	for _, id := range []string{base, tip} {
		if id != "" && !wholeID.MatchString(id) {
			return nil, fmt.Errorf("blame: %q is not a commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	var out bytes.Buffer
	args := []string{"blame", "--incremental", "--root", "--no-textconv", at, "--", name}
	if _, _, err := m.git(ctx, invocation{args: args, stdout: &limitWriter{w: &out, left: maxBlame}}); err != nil {
		return nil, fmt.Errorf("blame: %w", err)
	}
	all := parseBlame(out.String(), base != "")
	authors, err := m.authors(ctx, all)
	for i := range all {
		all[i].Author = authors[all[i].Commit]
	}
	return all, err
}

// authors returns the authors of the commits of lines.
func (m *Mirror) authors(ctx context.Context, of []Lines) (map[string]Author, error) {
	if len(of) == 0 {
		return nil, nil
	}
	seen := map[string]bool{}
	var in strings.Builder
	for _, l := range of {
		if !seen[l.Commit] {
			seen[l.Commit] = true
			in.WriteString(l.Commit + "\n")
		}
	}
	var out bytes.Buffer
	args := []string{"log", "-z", "--no-walk=unsorted", "--stdin", "--no-color", "--notes=" + NotesRef, "--format=%H %N"}
	if _, _, err := m.git(ctx, invocation{args: args, stdin: strings.NewReader(in.String()), stdout: &limitWriter{w: &out, left: maxBlame}}); err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	authors := map[string]Author{}
	for record := range strings.SplitSeq(out.String(), "\x00") {
		commit, note, _ := strings.Cut(record, " ")
		authors[commit] = authorIn(note)
	}
	return authors, nil
}
