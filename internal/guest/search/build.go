package search

import (
	"bytes"
	"encoding/binary"
	"math"
	"path"
	"slices"
	"strings"
)

// stamp is what stat says about a file; it shows whether the file has changed.
type stamp struct {
	mtime, ctime int64 // nanoseconds since 1970
	size         int64
	inode        uint64
}

// indexedFile is a file in a segment, and the chunks of the file.
type indexedFile struct {
	name  string // relative to the root
	stamp stamp
	first int // index of the first chunk
	count int
}

// extent says which lines of its file a chunk has, and how many tokens the chunk has.
type extent struct {
	line   uint32
	lines  uint16
	tokens uint16
}

// Flags in the low bits of a posting's number; the other bits count the token's
// occurrences in the chunk.
const (
	inSymbol = 1 << iota // the chunk defines a symbol that contains the token
	inPath               // the file's path contains the token
	countBit = iota
	maxCount = 31
)

// builder collects files for a segment. It is not safe for concurrent use.
type builder struct {
	files   []indexedFile
	extents []extent
	lists   map[string]*list
	size    int // approximate memory use in bytes
	source  int64

	words tokenizer
	now   map[string]int // postings of the current chunk
}

// list is the posting list of one token. For each chunk it has two varints: the distance
// from the previous chunk, and the posting's number.
type list struct {
	last  int
	count int
	bytes []byte
}

func newBuilder() *builder {
	return &builder{lists: make(map[string]*list), now: make(map[string]int)}
}

// add adds a file. If text is nil, only its path is indexed.
func (b *builder) add(name string, st stamp, text []byte, defined []symbol) {
	cut := chunks(text, defined)
	if len(cut) == 0 {
		cut = []chunk{{line: 1, lines: 1}}
	}
	b.files = append(b.files, indexedFile{name: name, stamp: st, first: len(b.extents), count: len(cut)})
	b.size += len(name) + 96
	b.source += int64(len(text))
	dir, file := path.Split(name)
	slices.SortFunc(defined, func(x, y symbol) int { return x.line - y.line })
	next := 0
	for _, c := range cut {
		clear(b.now)
		tokens := b.body(text[c.start:c.end])
		for ; next < len(defined) && defined[next].line < c.line+c.lines; next++ {
			if defined[next].line >= c.line {
				b.mark([]byte(defined[next].name), inSymbol)
			}
		}
		b.mark([]byte(file), inPath)
		b.mark([]byte(lastFolders(dir)), inPath)
		for token, posting := range b.now {
			b.post(token, len(b.extents), posting)
		}
		b.extents = append(b.extents, extent{
			line: uint32(min(c.line, math.MaxUint32)), lines: uint16(min(c.lines, math.MaxUint16)), tokens: uint16(min(tokens, math.MaxUint16)),
		})
	}
}

// lastFolders returns the last folders of a path, which say what a file is
// about; the first ones are the same for most files of a deep tree.
func lastFolders(dir string) string {
	parts := strings.Split(strings.Trim(dir, "/"), "/")
	return strings.Join(parts[max(0, len(parts)-3):], "/")
}

// body counts the tokens of a chunk.
func (b *builder) body(text []byte) (tokens int) {
	for len(text) > 0 {
		line := text
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			line, text = text[:n], text[n+1:]
		} else {
			text = nil
		}
		b.words.each(line[:min(len(line), maxLine)], func(token []byte, whole bool) {
			if !whole {
				tokens++
			}
			if n := b.now[string(token)]; n < maxCount<<countBit {
				b.now[string(token)] = n + 1<<countBit
			}
		})
	}
	return tokens
}

func (b *builder) mark(text []byte, with int) {
	b.words.each(text, func(token []byte, _ bool) { b.now[string(token)] |= with })
}

func (b *builder) post(token string, chunk, posting int) {
	l := b.lists[token]
	if l == nil {
		l = &list{last: -1}
		b.lists[strings.Clone(token)] = l
		b.size += len(token) + 120
	}
	before := cap(l.bytes)
	l.bytes = binary.AppendUvarint(l.bytes, uint64(chunk-l.last))
	l.bytes = binary.AppendUvarint(l.bytes, uint64(posting))
	l.last = chunk
	l.count++
	b.size += cap(l.bytes) - before
}
