package search

import (
	"bytes"
	"encoding/binary"
	"math"
	"path"
	"slices"
	"strings"
)

// stamp tells whether a file is as it was: what stat says of it.
type stamp struct {
	mtime, ctime int64 // nanoseconds since 1970
	size         int64
	inode        uint64
}

// indexedFile is a file of a segment and its chunks in there.
type indexedFile struct {
	name  string // relative to the root
	stamp stamp
	first int // chunk
	count int
}

// extent is which lines of its file a chunk is, and how many tokens it has.
type extent struct {
	line   uint32
	lines  uint16
	tokens uint16
}

// Marks of a posting, in the low bits of its number beside how often the token
// is in the chunk.
const (
	inSymbol = 1 << iota // the chunk defines what the token is part of
	inPath               // the file's path has it
	countBit = iota
	maxCount = 31
)

// builder gathers files into a segment. It is not safe for concurrent use.
type builder struct {
	files   []indexedFile
	extents []extent
	lists   map[string]*list
	size    int // bytes held, about
	source  int64

	words tokenizer
	now   map[string]int // the postings of the chunk at hand
}

// list is the postings of one token: for each chunk the distance from the one
// before and the number, as varints.
type list struct {
	last  int
	count int
	bytes []byte
}

func newBuilder() *builder {
	return &builder{lists: make(map[string]*list), now: make(map[string]int)}
}

// add puts a file in. Text that is nil is of a file that only its path is
// known by.
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

// lastFolders is the part of a path that says what a file is about; that of a
// deep tree is the same for all.
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
