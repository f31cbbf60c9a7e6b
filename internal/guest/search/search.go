// Package search finds code by words. It keeps an index of a tree of files:
// pieces of some forty lines, by the identifiers and words in them, the symbols
// that they define, and their paths, ranked by BM25. The index is built at the
// first question, brought up to date at each by what stat says of the files,
// and kept on disk outside the tree.
//
// Symbols come from regular expressions where those do, in Go and Python for
// instance, else from universal-ctags where the machine has it. A configured [Embedder] puts the best candidates in order by
// meaning too; without one nothing leaves the machine.
//
// It does not understand code: it knows no types, no calls, no synonyms.
package search

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Bounds of one question.
const (
	maxTerms   = 64
	maxQuery   = 4 << 10 // bytes
	maxResults = 50
)

// Config says what is indexed and where the index is.
type Config struct {
	Dir     string    // root of the tree; absolute
	State   string    // folder that holds indexes; absolute. Made if missing
	Ripgrep string    // path of rg; "rg" unless given
	Ctags   string    // path of universal-ctags; looked up unless given, "none" for none
	Embed   *Embedder // nil for none
}

// Index is the index of one tree. Its methods are safe for concurrent use;
// questions are answered one after another.
type Index struct {
	cfg  Config
	turn chan struct{} // holds one value while nobody works

	// The rest belongs to whoever holds the turn.
	closed   bool
	dir      string   // of the segments; empty until the first question
	lock     *os.File // held on dir
	private  bool     // dir is ours alone, and goes with us
	ctags    string   // path; empty for none
	segments []*segment
	next     int // number of the next segment
	current  map[string]location
	beyond   int // files left out
	left     int64
}

// location is where a file's chunks are.
type location struct {
	segment *segment
	file    int
}

// ErrClosed is returned once Close was called.
var ErrClosed = errors.New("search: closed")

// New returns the index of a tree. It touches no file before the first
// question.
func New(cfg Config) *Index {
	if cfg.Ripgrep == "" {
		cfg.Ripgrep = "rg"
	}
	x := &Index{cfg: cfg, turn: make(chan struct{}, 1)}
	x.turn <- struct{}{}
	return x
}

// Query is a question.
type Query struct {
	Text    string
	Folders []string // absolute, in the tree: only files under one of them. Empty for all
	Results int      // at most so many; from 1 to 50
	// Hidden tells of files, by path relative to the tree, which are left out; nil for none.
	Hidden func(name string) bool
}

// Answer is what was found.
type Answer struct {
	Results []Result // the best first
	Files   int      // in the index
	Notes   []string // what is missing or was left out, for the reader
}

// Result is a piece of a file.
type Result struct {
	Path      string // relative to the root
	StartLine int    // from 1
	EndLine   int    // in the piece
	Score     float64
	Snippet   string // some lines of the piece, the first being SnippetLine
	// SnippetLine is the line that Snippet begins with.
	SnippetLine int
	Symbols     []string
}

// Search answers a question, after bringing the index up to date. When ctx
// ends it returns soon with its cause; what was indexed by then is kept.
func (x *Index) Search(ctx context.Context, q Query) (Answer, error) {
	if len(q.Text) > maxQuery {
		return Answer{}, fmt.Errorf("the query is %d bytes long: ask in at most %d", len(q.Text), maxQuery)
	}
	want := terms(q.Text)
	if len(want) == 0 {
		return Answer{}, errors.New("the query has no word to look for: say in words what the code does, or use Grep for signs")
	}
	select {
	case <-x.turn:
		defer func() { x.turn <- struct{}{} }()
	case <-ctx.Done():
		return Answer{}, context.Cause(ctx)
	}
	if x.closed {
		return Answer{}, ErrClosed
	}
	if err := x.open(); err != nil {
		return Answer{}, err
	}
	answer, err := x.answer(ctx, q, want)
	if errors.Is(err, errDamaged) { // begin anew, once
		x.reset()
		answer, err = x.answer(ctx, q, want)
	}
	return answer, err
}

func (x *Index) answer(ctx context.Context, q Query, want []term) (Answer, error) {
	if err := x.refresh(ctx); err != nil {
		return Answer{}, err
	}
	a := Answer{Files: len(x.current)}
	if x.beyond > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d files beyond the first %d are not in the index: search them with Grep", x.beyond, maxFiles))
	}
	if x.left > 0 {
		a.Notes = append(a.Notes, fmt.Sprintf("%d MB of files are not in the index, which is full: search them with Grep", x.left>>20))
	}
	hits, err := x.rank(q, want)
	if err != nil {
		return Answer{}, err
	}
	if x.cfg.Embed != nil {
		if hits, err = x.cfg.Embed.order(ctx, x.cfg.Dir, q.Text, hits); err != nil {
			if ctx.Err() != nil {
				return Answer{}, context.Cause(ctx)
			}
			a.Notes = append(a.Notes, "ranked by words alone, for the embedding endpoint failed: "+err.Error())
		}
	}
	a.Results = x.results(q, want, hits)
	return a, nil
}

// open finds the segments that an earlier process left.
func (x *Index) open() error {
	if x.dir != "" {
		return nil
	}
	sum := sha256.Sum256([]byte(x.cfg.Dir))
	dir := filepath.Join(x.cfg.State, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the search index has no place (%w): use Grep", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("the search index has no place (%w): use Grep", err)
	}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		// Another process keeps this one. Ours goes when we do.
		_ = lock.Close()
		if dir, err = os.MkdirTemp(x.cfg.State, "private-"); err != nil {
			return fmt.Errorf("the search index has no place (%w): use Grep", err)
		}
		lock, x.private = nil, true
	}
	x.dir, x.lock = dir, lock
	x.current = make(map[string]location)
	switch x.cfg.Ctags {
	case "none":
	case "":
		x.ctags = universal()
	default:
		x.ctags = x.cfg.Ctags
	}
	return x.openSegments()
}

// universal is the path of universal-ctags, empty if there is none. The old
// ctags of the same name will not do.
func universal() string {
	for _, name := range []string{"ctags-universal", "universal-ctags", "ctags"} {
		if path, err := exec.LookPath(name); err == nil {
			out, err := exec.Command(path, "--version").Output() //nolint:noctx // it ends at once
			if err == nil && strings.HasPrefix(string(out), "Universal Ctags") {
				return path
			}
		}
	}
	return ""
}

func (x *Index) openSegments() error {
	entries, err := os.ReadDir(x.dir) // by name, which is by number
	if err != nil {
		return fmt.Errorf("the search index cannot be read (%w): use Grep", err)
	}
	for _, e := range entries {
		stem, isSegment := strings.CutSuffix(e.Name(), ".seg")
		number, err := strconv.Atoi(stem)
		name := filepath.Join(x.dir, e.Name())
		if !isSegment || err != nil || number < 0 || number > 1e9 {
			if e.Name() != "lock" && e.Type().IsRegular() {
				_ = os.Remove(name) // half written
			}
			continue
		}
		s, err := openSegment(name, number)
		if err != nil {
			_ = os.Remove(name) // its files are indexed again
			continue
		}
		x.adopt(s)
	}
	return nil
}

// adopt makes a segment part of the index. What it has is newer than what was
// there.
func (x *Index) adopt(s *segment) {
	x.segments = append(x.segments, s)
	x.next = max(x.next, s.number+1)
	for i, p := range s.files {
		if old, ok := x.current[p.name]; ok {
			old.segment.kill(old.file)
		}
		x.current[p.name] = location{s, i}
	}
}

// drop takes a segment out and deletes it.
func (x *Index) drop(s *segment) {
	for i, p := range s.files {
		if at := x.current[p.name]; at.segment == s && at.file == i {
			delete(x.current, p.name)
		}
	}
	kept := x.segments[:0]
	for _, other := range x.segments {
		if other != s {
			kept = append(kept, other)
		}
	}
	x.segments = kept
	_ = s.file.Close() // it was only read
	_ = os.Remove(s.file.Name())
}

// reset forgets all.
func (x *Index) reset() {
	for len(x.segments) > 0 {
		x.drop(x.segments[len(x.segments)-1])
	}
	x.current = make(map[string]location)
}

// Close lets the files of the index go. It waits for a question that is being
// answered. A second call does nothing.
func (x *Index) Close() error {
	<-x.turn
	defer func() { x.turn <- struct{}{} }()
	if x.closed {
		return nil
	}
	x.closed = true
	var err error
	for _, s := range x.segments {
		err = errors.Join(err, s.file.Close())
	}
	x.segments = nil
	if x.lock != nil {
		err = errors.Join(err, x.lock.Close())
	}
	if x.private {
		err = errors.Join(err, os.RemoveAll(x.dir))
	}
	return err
}
