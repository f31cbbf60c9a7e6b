package search

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	embedTime   = 20 * time.Second // of one search, for all requests
	embedNew    = 2048             // texts that one search adds to the index
	nearest     = 100              // pieces that are found by meaning alone
	meaningPart = 0.7              // of a score; the rest is the keywords'
)

// meaning is the index by meaning. It grows with each search, by at most embedNew
// pieces: first those that the keywords have found, then all others, code before
// tests and data. A piece that has not changed is not embedded again. It is
// protected by the turn of its [Index].
type meaning struct {
	embedder *Embedder
	vectors  *vectors          // nil until opened
	files    map[string]pieces // keys of the pieces of files, as last read
}

// pieces holds the keys of a file's pieces, in order.
type pieces struct {
	stamp stamp
	keys  []vectorKey
}

// piece is a chunk of the tree that may have a vector.
type piece struct {
	hit
	file int // index in the segment
	key  vectorKey
}

// byMeaning ranks by keywords and by meaning. hits are the keywords' results,
// best first. If the endpoint fails, the result is hits. The note tells the model
// what is missing; "" if nothing is.
func (x *Index) byMeaning(ctx context.Context, q Query, hits []hit) ([]hit, string) {
	limited, stop := context.WithTimeoutCause(ctx, embedTime, fmt.Errorf("it took more than %v", embedTime))
	defer stop()
	ranked, note, err := x.meaning.rank(limited, x, q, hits)
	if err != nil {
		if cause := context.Cause(limited); cause != nil {
			err = cause
		}
		x.meaning.vectors = nil // the file may have changed: open it again
		return hits, "ranked by keywords only, " + failure(err)
	}
	return ranked, note
}

func (m *meaning) rank(ctx context.Context, x *Index, q Query, hits []hit) (ranked []hit, note string, err error) {
	if m.vectors == nil {
		if m.vectors, err = openVectors(x.dir, m.embedder.Model); err != nil {
			return nil, "", err
		}
	}
	all, beyond := m.pieces(x, q, hits)
	type reply struct {
		vectors [][]float32
		err     error
	}
	asked := make(chan reply, 1)
	go func() {
		v, err := m.embedder.embed(ctx, []string{q.Text})
		asked <- reply{v, err}
	}()
	missing, growErr := m.grow(ctx, x.cfg.Dir, all)
	query := <-asked
	if query.err != nil {
		return nil, "", query.err
	}
	if len(m.vectors.at) == 0 && growErr != nil {
		return nil, "", growErr
	}
	near, err := m.vectors.near(query.vectors[0])
	if err != nil {
		return nil, "", err
	}
	switch {
	case growErr != nil:
		note = fmt.Sprintf("%d of %d pieces of code were ranked by keywords only, %s", missing+beyond, len(all)+beyond, failure(growErr))
	case missing > 0:
		note = fmt.Sprintf("%d of %d pieces of code were ranked by keywords only; the next searches include more of them", missing+beyond, len(all)+beyond)
	case beyond > 0:
		note = fmt.Sprintf("%d of %d pieces of code were ranked by keywords only, because the index by meaning is full", beyond, len(all)+beyond)
	}
	return merge(hits, all, near, x.filter(q.Folders)), note, nil
}

// pieces returns the pieces of the tree that the index by meaning may have: those
// of files with hits first. beyond is how many other pieces there are.
func (m *meaning) pieces(x *Index, q Query, hits []hit) (all []piece, beyond int) {
	first := make(map[string]bool, len(hits))
	for _, h := range hits {
		first[h.name] = true
	}
	type file struct {
		name   string
		at     location
		weight float64
	}
	var files []file
	for name, at := range x.current {
		if q.Hidden != nil && q.Hidden(name) {
			continue
		}
		weight := fileScore(name, false)
		if first[name] {
			weight++
		}
		files = append(files, file{name, at, weight})
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.name, b.name))
	})
	for _, f := range files {
		in := f.at.segment.files[f.at.file]
		if len(all)+in.count > maxVectors {
			beyond += in.count
			continue
		}
		for i, key := range m.keys(x.cfg.Dir, f.at) {
			all = append(all, piece{hit{segment: f.at.segment, chunk: in.first + i, name: f.name}, f.at.file, key})
		}
	}
	for name := range m.files {
		if _, ok := x.current[name]; !ok {
			delete(m.files, name)
		}
	}
	return all, beyond
}

// keys returns the keys of a file's pieces. It reads the file if it has changed.
func (m *meaning) keys(dir string, at location) []vectorKey {
	in := at.segment.files[at.file]
	if known, ok := m.files[in.name]; ok && known.stamp == in.stamp && len(known.keys) == in.count {
		return known.keys
	}
	var keys []vectorKey
	for _, text := range at.segment.texts(dir, at.file) {
		keys = append(keys, keyOf(text))
	}
	m.files[in.name] = pieces{in.stamp, keys}
	return keys
}

// texts returns the texts of a file's pieces, as they are embedded.
func (s *segment) texts(dir string, file int) []string {
	in := s.files[file]
	body, _, _ := read(filepath.Join(dir, in.name)) // if the file is gone, only the path remains
	lines := bytes.SplitAfter(body, []byte("\n"))
	var out []string
	for _, e := range s.extents[in.first : in.first+in.count] {
		from := min(max(int(e.line)-1, 0), len(lines))
		to := min(from+int(e.lines), len(lines))
		part := bytes.Join(lines[from:to], nil)
		out = append(out, strings.ToValidUTF8(in.name+"\n"+string(part[:min(len(part), embedBytes)]), "\uFFFD"))
	}
	return out
}

// grow embeds pieces that have no vector yet. missing is how many have none
// afterwards.
func (m *meaning) grow(ctx context.Context, dir string, all []piece) (missing int, err error) {
	used := make(map[vectorKey]bool, len(all))
	var keys []vectorKey
	var texts []string
	var of string // the file of read
	var read []string
	for _, p := range all {
		_, has := m.vectors.at[p.key]
		if has || used[p.key] {
			used[p.key] = true
			continue
		}
		used[p.key] = true
		if len(keys) == embedNew {
			missing++
			continue
		}
		if of != p.name {
			of, read = p.name, p.segment.texts(dir, p.file)
		}
		text := read[p.chunk-p.segment.files[p.file].first]
		if keyOf(text) != p.key {
			missing++ // the file has changed meanwhile: the next search reads it again
			continue
		}
		keys, texts = append(keys, p.key), append(texts, text)
	}
	if len(keys) == 0 {
		return missing, nil
	}
	got, err := m.embedder.embedAll(ctx, texts)
	var known []vectorKey
	var fresh [][]float32
	for i, v := range got {
		switch {
		case v == nil:
			missing++
		case len(fresh) > 0 && len(v) != len(fresh[0]):
			return missing, errors.New("its vectors differ in width")
		default:
			known, fresh = append(known, keys[i]), append(fresh, v)
		}
	}
	return missing, errors.Join(err, m.vectors.add(known, fresh, func(k vectorKey) bool { return used[k] }))
}

// merge ranks the keywords' hits and the nearest pieces together. The score of
// the best hit stays the scale.
func merge(hits []hit, all []piece, near map[vectorKey]float64, in func(name string) bool) []hit {
	type place struct {
		segment *segment
		chunk   int
	}
	most, closest := 1.0, 0.0
	words := make(map[place]float64, len(hits))
	for i, h := range hits {
		if i == 0 && h.score > 0 {
			most = h.score
		}
		words[place{h.segment, h.chunk}] = h.score / most
	}
	var out []hit
	for _, p := range all {
		_, found := words[place{p.segment, p.chunk}]
		if share, ok := near[p.key]; ok && (found || in(p.name)) {
			h := p.hit
			h.score = share * min(fileScore(p.name, false), 1)
			out, closest = append(out, h), max(closest, h.score)
		}
	}
	slices.SortFunc(out, byScore)
	kept := out[:0]
	for i, h := range out {
		at := place{h.segment, h.chunk}
		share, found := words[at]
		if i >= nearest && !found || closest == 0 {
			continue
		}
		delete(words, at)
		h.score = most * (meaningPart*h.score/closest + (1-meaningPart)*share)
		kept = append(kept, h)
	}
	for _, h := range hits { // those without a vector
		if share, left := words[place{h.segment, h.chunk}]; left {
			h.score = most * (1 - meaningPart) * share
			kept = append(kept, h)
		}
	}
	slices.SortFunc(kept, byScore)
	return kept[:min(len(kept), candidates)]
}
