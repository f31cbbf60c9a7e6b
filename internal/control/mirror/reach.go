package mirror

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	reachLimit = 5 * time.Minute  // timeout of a walk over all objects of a mirror
	retiredFor = 10 * time.Minute // how long former tips are still served to clients that have received them
)

var errAllFound = errors.New("all were found")

// ids is a set of object ids.
type ids map[string]bool

// lines returns the ids, one per line.
func (s ids) lines() io.Reader {
	return strings.NewReader(strings.Join(slices.Sorted(maps.Keys(s)), "\n") + "\n")
}

// Unserved returns the objects that are not reachable from any ref of the
// mirror. Recent former tips count as reachable, because clients may have
// received them in an advertisement.
func (m *Mirror) Unserved(ctx context.Context, wants []string) ([]string, error) {
	left := ids{}
	m.mu.Lock()
	tips := ids{}
	for _, r := range m.snapshot.Refs {
		tips[r.ID] = true
	}
	for _, id := range wants {
		if !tips[id] && time.Since(m.retired[id]) > retiredFor {
			left[id] = true
		}
	}
	m.mu.Unlock()
	if err := m.dropReachable(ctx, left); err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(left)), nil
}

// dropReachable removes from the set all objects that are reachable from the
// mirror's refs.
func (m *Mirror) dropReachable(ctx context.Context, left ids) error {
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachLimit, errTooSlow)
	defer cancel()
	kinds, _, err := m.git(ctx, invocation{args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, stdin: left.lines()})
	if err != nil {
		return err
	}
	commits, others, missing := ids{}, ids{}, ids{}
	for line := range strings.Lines(string(kinds)) {
		id, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "commit":
			commits[id] = true
		case "missing":
			missing[id] = true
		default:
			others[id] = true
		}
	}
	if len(missing) > 0 { // the request will be refused, so the other objects do not matter
		return nil
	}
	if len(commits) > 0 {
		args := []string{"rev-list", "--stdin", "--not", "--all"}
		out, _, err := m.git(ctx, invocation{args: args, stdin: commits.lines()})
		if err != nil {
			return err
		}
		for id := range commits {
			if !bytes.Contains(out, []byte(id)) {
				delete(left, id)
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	// Newest first, since a client usually lacks objects of recent commits.
	args := []string{"rev-list", "--objects", "--no-object-names", "--in-commit-order", "--all"}
	w := &lineWriter{each: func(id string) error {
		if others[id] {
			delete(others, id)
			delete(left, id)
			if len(others) == 0 {
				return errAllFound
			}
		}
		return nil
	}}
	if _, _, err = m.git(ctx, invocation{args: args, stdout: w}); w.err != nil {
		return nil
	}
	return err
}

// lineWriter calls each with every line that is written to it.
type lineWriter struct {
	each func(line string) error
	rest []byte
	err  error
}

func (l *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for l.err == nil {
		line, after, ended := bytes.Cut(p, []byte{'\n'})
		l.rest = append(l.rest, line...)
		if !ended {
			return n, nil
		}
		l.err = l.each(string(l.rest))
		l.rest, p = l.rest[:0], after
	}
	return 0, l.err
}

// retire records the tips that the mirror's refs no longer point to. The caller
// holds m.mu.
func (m *Mirror) retire(next []Ref) {
	if m.retired == nil {
		m.retired = map[string]time.Time{}
	}
	maps.DeleteFunc(m.retired, func(_ string, at time.Time) bool { return time.Since(at) > retiredFor })
	still := ids{}
	for _, r := range next {
		still[r.ID] = true
	}
	for _, r := range m.snapshot.Refs {
		if !still[r.ID] {
			m.retired[r.ID] = time.Now()
		}
	}
}

// bring describes the objects of a push.
type bring struct {
	needed ids  // objects reachable from the new commit but not from the mirror's refs
	exact  bool // the pack in quarantine contains exactly the objects of needed
}

// brings determines the objects of a push. It refuses a push that refers to
// objects which are neither in the pack nor reachable from a ref: a push must
// not make unreachable objects of the mirror accessible. sent is the number of
// objects in the client's pack, to which git adds the bases of deltas.
func (m *Mirror) brings(ctx context.Context, u Update, objects string, sent uint32) (bring, Outcome, error) {
	b := bring{needed: ids{}}
	w := &lineWriter{each: func(id string) error { b.needed[id] = true; return nil }}
	args := []string{"rev-list", "--objects", "--no-object-names", "--stdin", "--not", "--all"}
	if _, _, err := m.git(ctx, invocation{args: args, objects: objects, stdin: strings.NewReader(u.New + "\n"), stdout: &limitWriter{w: w, left: maxStdout}}); err != nil {
		return b, Outcome{}, err
	}
	received, held, err := m.received(ctx, objects, sent)
	if err != nil {
		return b, Outcome{}, err
	}
	left := ids{}
	for id := range b.needed {
		if !received[id] {
			left[id] = true
		}
	}
	b.exact = len(left) == 0 && len(b.needed) == held
	if err := m.dropReachable(ctx, left); err != nil {
		return b, Outcome{}, err
	}
	if len(left) > 0 {
		return b, rejected("invalid", "missing necessary objects", "The push refers to objects that it does not contain. Fetch, and push again."), nil
	}
	return b, Outcome{}, nil
}

// received lists the objects that the client sent, and counts all objects of
// the pack in quarantine.
func (m *Mirror) received(ctx context.Context, objects string, sent uint32) (came ids, held int, err error) {
	came = ids{}
	indexes, err := filepath.Glob(filepath.Join(objects, "pack", "*.idx"))
	if err != nil || len(indexes) == 0 {
		return came, 0, err
	}
	type entry struct {
		offset int64
		id     string
	}
	var all []entry
	for _, name := range indexes {
		f, err := openFile(name)
		if err != nil {
			return nil, 0, err
		}
		w := &lineWriter{each: func(line string) error {
			at, rest, _ := strings.Cut(line, " ")
			id, _, _ := strings.Cut(rest, " ")
			offset, err := strconv.ParseInt(at, 10, 64)
			all = append(all, entry{offset, id})
			return err
		}}
		format := "--object-format=sha1"
		if m.IDLength() == 64 {
			format = "--object-format=sha256"
		}
		_, _, err = m.git(ctx, invocation{args: []string{"show-index", format}, stdin: bufio.NewReader(f), stdout: w})
		_ = f.Close() // opened for reading only
		if err != nil {
			return nil, 0, err
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return int(min(max(a.offset-b.offset, -1), 1)) })
	for _, e := range all[:min(len(all), int(sent))] {
		came[e.id] = true
	}
	return came, len(all), nil
}

// repackFor replaces the pack in quarantine by one with exactly the objects
// that the push needs.
func (m *Mirror) repackFor(ctx context.Context, b bring, objects string) error {
	if b.exact {
		return nil
	}
	old, err := filepath.Glob(filepath.Join(objects, "pack", "*"))
	if err != nil {
		return err
	}
	if len(b.needed) > 0 {
		args := []string{"pack-objects", "--quiet", filepath.Join(objects, "pack", "adopted")}
		if _, _, err := m.git(ctx, invocation{args: args, objects: objects, stdin: b.needed.lines(), fills: true, patient: true}); err != nil {
			return fmt.Errorf("pack what a push brings: %w", err)
		}
	}
	for _, f := range old {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
