package search

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

const (
	batchFiles  = 200      // files that a worker takes at once
	segmentSize = 24 << 20 // bytes that a builder collects before it is written
	maxSource   = 2 << 30  // bytes of all indexed files
	smallSource = 1 << 20  // a segment with fewer bytes of files is small
	manySmall   = 16       // so many small segments are merged
	mostWorkers = 4
)

// refresh updates the index to the current tree.
func (x *Index) refresh(ctx context.Context) error {
	files, beyond, err := listFiles(ctx, x.cfg.Ripgrep, x.cfg.Dir)
	if err != nil {
		return err
	}
	x.beyond, x.left = beyond, 0
	own := "" // the index itself, if it is in the tree, is not indexed
	if rel, err := filepath.Rel(x.cfg.Dir, x.cfg.State); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		own = rel + "/"
	}
	here := make(map[string]bool, len(files))
	var stale []found
	source := int64(0)
	for _, f := range files {
		if own != "" && strings.HasPrefix(f.name, own) {
			continue
		}
		if source += min(f.stamp.size, maxFileSize); source > maxSource {
			x.left += f.stamp.size
			continue
		}
		here[f.name] = true
		at, known := x.current[f.name]
		if !known || at.segment.files[at.file].stamp != f.stamp {
			stale = append(stale, f)
		}
	}
	for name, at := range x.current {
		if !here[name] {
			at.segment.kill(at.file)
			delete(x.current, name)
		}
	}
	victims := x.victims(stale)
	again := make(map[string]bool, len(stale))
	for _, f := range stale {
		again[f.name] = true
	}
	for _, s := range victims {
		for i, p := range s.files {
			if !s.dead[i] && !again[p.name] {
				stale = append(stale, found{p.name, p.stamp})
			}
		}
	}
	if len(stale) > 0 {
		if err := x.index(ctx, stale); err != nil {
			return err
		}
	}
	for _, s := range slices.Clone(x.segments) {
		if s.live == 0 {
			x.drop(s)
		}
	}
	return nil
}

// victims returns segments to rebuild: small segments if there are many, and segments
// whose files are mostly outdated.
func (x *Index) victims(stale []found) []*segment {
	var small, out []*segment
	for _, s := range x.segments {
		switch {
		case s.live == 0:
		case s.source < smallSource:
			small = append(small, s)
		case s.live*3 < len(s.files):
			out = append(out, s)
		}
	}
	if len(small) >= manySmall && len(stale) > 0 {
		out = append(out, small...)
	}
	return out
}

// index reads files and adds them as one or more segments. Segments completed
// before ctx ended are kept.
func (x *Index) index(ctx context.Context, files []found) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		mu   sync.Mutex // guards x and next
		next int
		wg   sync.WaitGroup
	)
	take := func() []found {
		mu.Lock()
		defer mu.Unlock()
		batch := files[next:min(len(files), next+batchFiles)]
		next += len(batch)
		return batch
	}
	flush := func(b *builder) error {
		mu.Lock()
		number := x.next
		x.next++
		mu.Unlock()
		name := filepath.Join(x.dir, fmt.Sprintf("%09d.seg", number))
		if err := b.write(name); err != nil {
			return fmt.Errorf("cannot write the search index (%w): free some space, or use Grep", err)
		}
		s, err := openSegment(name, number)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		x.adopt(s)
		return nil
	}
	for range min(runtime.GOMAXPROCS(0), mostWorkers, (len(files)+batchFiles-1)/batchFiles) {
		wg.Go(func() {
			b := newBuilder()
			for ctx.Err() == nil {
				batch := take()
				if len(batch) == 0 {
					break
				}
				x.fill(ctx, b, batch)
				if b.size < segmentSize {
					continue
				}
				if err := flush(b); err != nil {
					stop(err)
					return
				}
				b = newBuilder()
			}
			if len(b.files) > 0 { // includes what was added before ctx ended
				if err := flush(b); err != nil {
					stop(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// fill adds a batch of files to a builder.
func (x *Index) fill(ctx context.Context, b *builder, batch []found) {
	var symbols map[string][]symbol
	if x.ctags != "" {
		names := make([]string, 0, len(batch))
		for _, f := range batch {
			if f.stamp.size <= maxFileSize && !plainly[ending(f.name)] {
				names = append(names, f.name)
			}
		}
		found, err := tags(ctx, x.ctags, x.cfg.Dir, names)
		if err == nil {
			symbols = found
		}
	}
	for _, f := range batch {
		if ctx.Err() != nil {
			return
		}
		text, st, err := read(filepath.Join(x.cfg.Dir, f.name))
		if err != nil {
			// The file cannot be read: index only its path until it changes.
			text, st = nil, f.stamp
		}
		defined := symbols[f.name]
		if defined == nil {
			defined = findSymbols(f.name, text)
		}
		b.add(f.name, st, text, defined)
	}
}
