// Package search is a keyword (BM25) index over source code. It splits files into pieces
// of some forty lines, and indexes each by its identifiers and words, the symbols that
// it defines, and its path. The index is built at the first query, updated at each query
// from the files' stat data, and stored on disk outside the tree.
//
// Symbols are found by regular expressions for languages where these suffice, such as Go
// and Python, and by universal-ctags for others, if it is installed. A configured
// [Embedder] also ranks by meaning; without it, nothing leaves the machine, and the
// index knows no synonyms. The index knows no types or calls.
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

	"aloft/internal/lockfile"
)

// Limits of one query.
const (
	maxTerms   = 64
	maxQuery   = 4 << 10 // bytes
	maxResults = 50
)

// Config says what to index, and where to store the index.
type Config struct {
	Dir     string    // absolute path of the tree's root
	State   string    // absolute path of the folder for indexes; created if missing
	Ripgrep string    // path of rg; "rg" by default
	Ctags   string    // path of universal-ctags; searched in PATH by default; "none" disables it
	Embed   *Embedder // optional
}

// Index is the index of one tree. Its methods are safe for concurrent use;
// queries are answered one after another.
type Index struct {
	cfg  Config
	turn chan struct{} // semaphore: holds one value while no query is being answered

	// The following fields are protected by turn.
	closed   bool
	dir      string   // folder of the segments; empty until the first query
	lock     *os.File // lock on dir
	private  bool     // dir belongs to this process, which removes it
	ctags    string   // path; empty if not installed
	segments []*segment
	next     int // number of the next segment
	current  map[string]location
	beyond   int // number of files left out
	left     int64
	meaning  *meaning // nil without an Embedder
}

// location says where a file's chunks are.
type location struct {
	segment *segment
	file    int
}

// ErrClosed is returned after Close.
var ErrClosed = errors.New("search: closed")

// New returns the index of a tree. It accesses no files before the first query.
func New(cfg Config) *Index {
	if cfg.Ripgrep == "" {
		cfg.Ripgrep = "rg"
	}
	x := &Index{cfg: cfg, turn: make(chan struct{}, 1)}
	x.turn <- struct{}{}
	return x
}

// Query is a search query.
type Query struct {
	Text    string
	Folders []string // absolute folders in the tree to search; empty searches all
	Results int      // maximum number of results, 1 to 50
	// Hidden reports whether to leave a file out, given its path relative to
	// the tree; a nil function leaves none out.
	Hidden func(name string) bool
}

// Answer is the result of a query.
type Answer struct {
	Results []Result // best first
	Files   int      // number of indexed files
	Notes   []string // what is missing or was left out, as text for the model
}

// Result is a piece of a file.
type Result struct {
	Path      string // relative to the root
	StartLine int    // counted from 1
	EndLine   int    // the last line
	Score     float64
	Snippet   string // some lines of the piece, starting at SnippetLine
	// SnippetLine is the first line of Snippet.
	SnippetLine int
	Symbols     []string
}

// Search answers a query, after updating the index. When ctx ends, Search soon
// returns ctx's cause, and keeps the part of the index that it has updated.
func (x *Index) Search(ctx context.Context, q Query) (Answer, error) {
	if len(q.Text) > maxQuery {
		return Answer{}, fmt.Errorf("the query is %d bytes long: use at most %d", len(q.Text), maxQuery)
	}
	want := terms(q.Text)
	if len(want) == 0 {
		return Answer{}, errors.New("the query has no words to search for: describe the code in words, or use Grep for punctuation")
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
	if errors.Is(err, errDamaged) { // rebuild the index, once
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
	if x.meaning != nil {
		var note string
		if hits, note = x.byMeaning(ctx, q, hits); note != "" {
			a.Notes = append(a.Notes, note)
		}
		if ctx.Err() != nil {
			return Answer{}, context.Cause(ctx)
		}
	}
	a.Results = x.results(q, want, hits)
	return a, nil
}

// open opens the segments that an earlier process wrote.
func (x *Index) open() error {
	if x.dir != "" {
		return nil
	}
	sum := sha256.Sum256([]byte(x.cfg.Dir))
	dir := filepath.Join(x.cfg.State, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the search index (%w): use Grep", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("cannot create the search index (%w): use Grep", err)
	}
	if lockfile.Exclusive(lock, 0) != nil {
		// Another process uses this index. Use a private one, which is removed
		// on Close.
		_ = lock.Close()
		if dir, err = os.MkdirTemp(x.cfg.State, "private-"); err != nil {
			return fmt.Errorf("cannot create the search index (%w): use Grep", err)
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
	if x.cfg.Embed != nil {
		x.meaning = &meaning{embedder: x.cfg.Embed, files: make(map[string]pieces)}
	}
	return x.openSegments()
}

// universal returns the path of universal-ctags, or "" if it is not installed.
// Other programs named ctags are not supported.
func universal() string {
	for _, name := range []string{"ctags-universal", "universal-ctags", "ctags"} {
		if path, err := exec.LookPath(name); err == nil {
			out, err := exec.Command(path, "--version").Output() //nolint:noctx // it exits at once
			if err == nil && strings.HasPrefix(string(out), "Universal Ctags") {
				return path
			}
		}
	}
	return ""
}

func (x *Index) openSegments() error {
	entries, err := os.ReadDir(x.dir) // sorted by name, and so by number
	if err != nil {
		return fmt.Errorf("cannot read the search index (%w): use Grep", err)
	}
	for _, e := range entries {
		stem, isSegment := strings.CutSuffix(e.Name(), ".seg")
		number, err := strconv.Atoi(stem)
		name := filepath.Join(x.dir, e.Name())
		if !isSegment || err != nil || number < 0 || number > 1e9 {
			if e.Name() != "lock" && e.Name() != vectorsName && e.Type().IsRegular() {
				_ = os.Remove(name) // incompletely written
			}
			continue
		}
		s, err := openSegment(name, number)
		if err != nil {
			_ = os.Remove(name) // its files will be indexed again
			continue
		}
		x.adopt(s)
	}
	return nil
}

// adopt adds a segment to the index. Its files replace older versions.
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

// drop removes a segment and deletes its file.
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

// reset discards the whole index.
func (x *Index) reset() {
	for len(x.segments) > 0 {
		x.drop(x.segments[len(x.segments)-1])
	}
	x.current = make(map[string]location)
}

// Close closes the index's files. It waits for a query that is being answered.
// A second call does nothing.
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
