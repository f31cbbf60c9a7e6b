package search

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sort"

	"aloft/internal/atomicfile"
)

// A segment is a file that holds the index of some files and never changes:
//
//	postings    the lists of all tokens, one after another
//	dictionary  for each token in order: its length and bytes, how many
//	            postings it has, and the length of its list
//	tables      the files, and their chunks
//	footer      where dictionary and tables begin, a checksum of both, magic
//
// Reads are checked against the file's bounds, since the agent's processes can
// write to the file too.
type segment struct {
	file    *os.File
	number  int
	files   []indexedFile
	extents []extent
	dead    []bool // by file index
	live    int    // number of files that are not dead
	tokens  int64  // of all chunks
	source  int64  // bytes of the files

	dictionary section
	postings   int64 // bytes
	points     []point
}

// point is a token of the dictionary that is kept in memory to find other tokens. One of
// every stride tokens is a point.
type point struct {
	token    string
	offset   int64 // offset in the dictionary
	postings int64 // offset of the token's list
}

type section struct{ start, end int64 }

const (
	magic           = "aloft search 1\n\x00"
	footerSize      = 8 + 8 + 8 + 4 + len(magic)
	stride          = 64
	maxSegment      = 1 << 30
	maxSegmentFiles = 1 << 20
	maxChunks       = 1 << 24
)

// errDamaged says that a segment file is corrupt.
var errDamaged = errors.New("the index is corrupt")

// write saves the builder's content to a file atomically.
func (b *builder) write(name string) (err error) {
	f, err := atomicfile.Create(name, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := b.writeTo(f); err != nil {
		return err
	}
	return f.CommitUnsynced() // no fsync: a segment that a power cut damages is rebuilt
}

func (b *builder) writeTo(f io.Writer) error {
	tokens := make([]string, 0, len(b.lists))
	for t := range b.lists {
		tokens = append(tokens, t)
	}
	slices.Sort(tokens)
	out := &counted{to: bufio.NewWriterSize(f, 256<<10)}
	for _, t := range tokens {
		out.write(b.lists[t].bytes)
	}
	dictionary := out.n
	out.sum = crc32.NewIEEE()
	for _, t := range tokens {
		l := b.lists[t]
		out.text(t)
		out.number(uint64(l.count))
		out.number(uint64(len(l.bytes)))
	}
	tables := out.n
	out.number(uint64(b.source))
	out.number(uint64(len(b.files)))
	for _, p := range b.files {
		out.text(p.name)
		out.number(uint64(p.stamp.mtime))
		out.number(uint64(p.stamp.ctime))
		out.number(uint64(p.stamp.size))
		out.number(p.stamp.inode)
		out.number(uint64(p.count))
		for _, e := range b.extents[p.first : p.first+p.count] {
			out.number(uint64(e.line))
			out.number(uint64(e.lines))
			out.number(uint64(e.tokens))
		}
	}
	sum := out.sum.Sum32()
	end := out.n
	foot := binary.LittleEndian.AppendUint64(nil, uint64(dictionary))
	foot = binary.LittleEndian.AppendUint64(foot, uint64(tables))
	foot = binary.LittleEndian.AppendUint64(foot, uint64(end))
	foot = binary.LittleEndian.AppendUint32(foot, sum)
	out.write(append(foot, magic...))
	return errors.Join(out.err, out.to.Flush())
}

// counted counts the written bytes and keeps the first error.
type counted struct {
	to      *bufio.Writer
	n       int64
	sum     hash.Hash32
	err     error
	scratch []byte
}

func (c *counted) write(p []byte) {
	if c.err == nil {
		_, c.err = c.to.Write(p)
	}
	c.n += int64(len(p))
	if c.sum != nil {
		c.sum.Write(p)
	}
}

func (c *counted) number(n uint64) {
	c.scratch = binary.AppendUvarint(c.scratch[:0], n)
	c.write(c.scratch)
}

func (c *counted) text(s string) {
	c.number(uint64(len(s)))
	c.write([]byte(s))
}

// openSegment reads the tables of a segment. If the file is corrupt, the error
// wraps errDamaged.
func openSegment(name string, number int) (*segment, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	s := &segment{file: f, number: number}
	if err := s.load(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return s, nil
}

func (s *segment) load() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if !info.Mode().IsRegular() || size < int64(footerSize) || size > maxSegment {
		return errDamaged
	}
	foot := make([]byte, footerSize)
	if _, err := s.file.ReadAt(foot, size-int64(footerSize)); err != nil {
		return err
	}
	dictionary := int64(binary.LittleEndian.Uint64(foot))
	tables := int64(binary.LittleEndian.Uint64(foot[8:]))
	end := int64(binary.LittleEndian.Uint64(foot[16:]))
	if string(foot[28:]) != magic || dictionary < 0 || tables < dictionary || end < tables || end != size-int64(footerSize) {
		return errDamaged
	}
	text := make([]byte, end-dictionary)
	if _, err := s.file.ReadAt(text, dictionary); err != nil {
		return err
	}
	if crc32.ChecksumIEEE(text) != binary.LittleEndian.Uint32(foot[24:]) {
		return errDamaged
	}
	s.postings, s.dictionary = dictionary, section{dictionary, tables}
	if err := s.loadDictionary(text[:tables-dictionary]); err != nil {
		return err
	}
	return s.loadTables(text[tables-dictionary:])
}

func (s *segment) loadDictionary(text []byte) error {
	in := reader{text: text}
	postings := int64(0)
	for n := 0; len(in.text) > 0; n++ {
		at := int64(len(text) - len(in.text))
		token, _, length := in.entry()
		if in.bad || length > s.postings-postings {
			return errDamaged
		}
		if n%stride == 0 {
			s.points = append(s.points, point{string(token), at, postings})
		}
		postings += length
	}
	return nil
}

func (s *segment) loadTables(text []byte) error {
	in := reader{text: text}
	s.source = int64(in.number(1 << 40))
	n := in.number(maxSegmentFiles)
	for range n {
		p := indexedFile{name: string(in.bytes(4096)), first: len(s.extents)}
		p.stamp.mtime, p.stamp.ctime = int64(in.number(1<<64-1)), int64(in.number(1<<64-1))
		p.stamp.size, p.stamp.inode = int64(in.number(1<<63-1)), in.number(1<<64-1)
		p.count = int(in.number(maxChunks))
		if in.bad || p.count > len(in.text) || len(s.extents)+p.count > maxChunks {
			return errDamaged
		}
		for range p.count {
			e := extent{line: uint32(in.number(1<<32 - 1)), lines: uint16(in.number(1<<16 - 1)), tokens: uint16(in.number(1<<16 - 1))}
			s.tokens += int64(e.tokens)
			s.extents = append(s.extents, e)
		}
		s.files = append(s.files, p)
	}
	if in.bad || len(in.text) != 0 {
		return errDamaged
	}
	s.dead = make([]bool, len(s.files))
	s.live = len(s.files)
	return nil
}

// reader decodes numbers and strings from the front of a buffer, and records
// failures.
type reader struct {
	text []byte
	bad  bool
}

func (r *reader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.text)
	if n <= 0 || v > most {
		r.bad, r.text = true, nil
		return 0
	}
	r.text = r.text[n:]
	return v
}

func (r *reader) bytes(most uint64) []byte {
	n := r.number(most)
	if n > uint64(len(r.text)) {
		r.bad, r.text = true, nil
		return nil
	}
	b := r.text[:n]
	r.text = r.text[n:]
	return b
}

// entry decodes one entry of the dictionary.
func (r *reader) entry() (token []byte, count int, length int64) {
	return r.bytes(4 * maxWhole), int(r.number(maxChunks)), int64(r.number(maxSegment))
}

// find returns how many chunks contain a token, and its posting list.
func (s *segment) find(token string) (count int, postings []byte, err error) {
	i := sort.Search(len(s.points), func(i int) bool { return s.points[i].token > token }) - 1
	if i < 0 {
		return 0, nil, nil
	}
	end := s.dictionary.end - s.dictionary.start
	if i+1 < len(s.points) {
		end = s.points[i+1].offset
	}
	part := make([]byte, end-s.points[i].offset)
	if _, err := s.file.ReadAt(part, s.dictionary.start+s.points[i].offset); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	in := reader{text: part}
	at := s.points[i].postings
	for len(in.text) > 0 {
		found, count, length := in.entry()
		if in.bad || at+length > s.postings {
			return 0, nil, errDamaged
		}
		switch c := bytes.Compare(found, []byte(token)); {
		case c > 0:
			return 0, nil, nil
		case c == 0:
			postings = make([]byte, length)
			if _, err := s.file.ReadAt(postings, at); err != nil {
				return 0, nil, fmt.Errorf("%w: %w", errDamaged, err)
			}
			return count, postings, nil
		}
		at += length
	}
	return 0, nil, nil
}

// each calls do for every posting of a list returned by find.
func (s *segment) each(postings []byte, do func(chunk, posting int)) error {
	in := reader{text: postings}
	for chunk := -1; len(in.text) > 0; {
		step := in.number(maxChunks)
		posting := in.number(maxCount<<countBit | inSymbol | inPath)
		chunk += int(step)
		if in.bad || step == 0 || chunk >= len(s.extents) {
			return errDamaged
		}
		do(chunk, int(posting))
	}
	return nil
}

func (s *segment) kill(i int) {
	if !s.dead[i] {
		s.dead[i] = true
		s.live--
	}
}
