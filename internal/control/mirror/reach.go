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
	reachLimit = 5 * time.Minute  // of a walk over all objects of a mirror
	retiredFor = 10 * time.Minute // a client that was told a tip may still ask for it
)

var errAllFound = errors.New("all were found")

// ids is a set of objects.
type ids map[string]bool

// lines are the ids, one a line.
func (s ids) lines() io.Reader {
	return strings.NewReader(strings.Join(slices.Sorted(maps.Keys(s)), "\n") + "\n")
}

// Unserved returns those of the objects that no ref of the mirror leads to. What a
// ref stood for until a moment ago counts as served: a client was told of it.
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

// dropReachable takes those objects out of the set that the mirror's refs lead to.
func (m *Mirror) dropReachable(ctx context.Context, left ids) error {
	if len(left) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reachLimit, errTooSlow)
	defer cancel()
	kinds, _, err := m.all.git(ctx, invocation{args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, dir: m.dir, stdin: left.lines()})
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
	if len(missing) > 0 { // it will be refused: how the others stand does not matter
		return nil
	}
	if len(commits) > 0 {
		args := []string{"rev-list", "--stdin", "--not", "--all"}
		out, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, stdin: commits.lines()})
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
	// Newest first: what a client lacks is mostly of the newest commits.
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
	if _, _, err = m.all.git(ctx, invocation{args: args, dir: m.dir, stdout: w}); w.err != nil {
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

// retire notes the tips that the mirror's refs no longer stand for. m.mu is held.
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

// bring is what a push brings.
type bring struct {
	needed ids  // objects that the new commit leads to and no ref of the mirror does
	exact  bool // the pack in quarantine holds these and no others
}

// brings finds what a push brings, and refuses one that leads to objects which it
// did not send and no ref leads to: that the mirror happens to hold them gives
// nobody a right to them. sent is how many objects came in the pack; git adds to
// it what deltas build on.
func (m *Mirror) brings(ctx context.Context, u Update, env []string, objects string, sent uint32) (bring, Outcome, error) {
	b := bring{needed: ids{}}
	w := &lineWriter{each: func(id string) error { b.needed[id] = true; return nil }}
	args := []string{"rev-list", "--objects", "--no-object-names", "--stdin", "--not", "--all"}
	if _, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, env: env, stdin: strings.NewReader(u.New + "\n"), stdout: &limitWriter{w: w, left: maxStdout}}); err != nil {
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
		return b, rejected("invalid", "missing necessary objects", "The push leads to objects that it does not hold. Fetch, and push again."), nil
	}
	return b, Outcome{}, nil
}

// received lists the objects that came in the pack, and counts those that the
// pack in quarantine holds.
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
		f, err := os.Open(name)
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
		_, _, err = m.all.git(ctx, invocation{args: []string{"show-index", format}, dir: m.dir, stdin: bufio.NewReader(f), stdout: w})
		_ = f.Close() // it was only read
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

// repackFor leaves in quarantine a pack of what the push brings and nothing else.
func (m *Mirror) repackFor(ctx context.Context, b bring, env []string, objects string) error {
	if b.exact {
		return nil
	}
	old, err := filepath.Glob(filepath.Join(objects, "pack", "*"))
	if err != nil {
		return err
	}
	if len(b.needed) > 0 {
		args := []string{"pack-objects", "--quiet", filepath.Join(objects, "pack", "adopted")}
		if _, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, env: env, stdin: b.needed.lines(), patient: true}); err != nil {
			return fmt.Errorf("pack what a push brings: %w", err)
		}
	}
	for _, f := range old {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
