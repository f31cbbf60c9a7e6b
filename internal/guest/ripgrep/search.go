package ripgrep

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

const (
	blockSize  = 64 << 10 // block size for reading; a file with a zero byte in its first block is binary
	maxLine    = 64 << 20 // a longer line ends the search of a file
	flushAfter = 1 << 20  // bytes of output of one file that are held back to keep it together
)

// searchAll searches the files. Without an order it searches in parallel, and
// keeps the output of each file together.
func searchAll(w *walker, m *matcher, o options, out *bufio.Writer) (bool, error) {
	var found atomic.Bool
	if o.sort != "" {
		s := &search{m: m, o: o, out: out}
		err := w.walk(func(f file) error {
			hit, err := s.file(f)
			if hit {
				found.Store(true)
			}
			return err
		})
		return found.Load(), err
	}
	var writing sync.Mutex
	var unread atomic.Pointer[error]
	files := make(chan file, 256)
	group := new(errgroup.Group)
	for range max(2, runtime.GOMAXPROCS(0)) {
		group.Go(func() error {
			held := &shared{to: out, mu: &writing}
			s := &search{m: m, o: o, out: bufio.NewWriterSize(held, 4<<10)}
			for f := range files {
				hit, err := s.file(f)
				if hit {
					found.Store(true)
				}
				err = errors.Join(err, s.out.Flush(), held.release())
				if err != nil && held.failed {
					return err
				}
				if err != nil {
					unread.Store(&err)
				}
			}
			return nil
		})
	}
	stop := make(chan struct{})
	var failed error
	go func() {
		failed = group.Wait()
		close(stop)
	}()
	err := w.walk(func(f file) error {
		select {
		case files <- f:
			return nil
		case <-stop:
			return errStop
		}
	})
	close(files)
	<-stop
	if p := unread.Load(); p != nil && err == nil {
		err = *p
	}
	return found.Load(), errors.Join(failed, err)
}

// shared is the output of one file. It is buffered until the file is done or
// the buffer is full. It is then written while the output of other files waits.
type shared struct {
	to      *bufio.Writer
	mu      *sync.Mutex
	pending bytes.Buffer
	locked  bool
	failed  bool // the output cannot be written
}

func (s *shared) Write(p []byte) (int, error) {
	if !s.locked && s.pending.Len()+len(p) <= flushAfter {
		return s.pending.Write(p)
	}
	if !s.locked {
		s.mu.Lock()
		s.locked = true
	}
	if err := s.pass(s.pending.Bytes()); err != nil {
		return 0, err
	}
	s.pending.Reset()
	if err := s.pass(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *shared) pass(p []byte) error {
	_, err := s.to.Write(p)
	s.failed = s.failed || err != nil
	return err
}

// release writes the buffered output.
func (s *shared) release() error {
	if !s.locked {
		if s.pending.Len() == 0 {
			return nil
		}
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	s.locked = false
	err := s.pass(s.pending.Bytes())
	s.pending.Reset()
	return err
}

// search searches one file after another.
type search struct {
	m     *matcher
	o     options
	out   *bufio.Writer
	block []byte // reused
}

// file searches a file and prints the matches. It returns an error if it cannot read the
// file; like rg, the caller continues with other files.
func (s *search) file(f file) (found bool, err error) {
	in, err := os.Open(f.name)
	if err != nil {
		return false, nil // the file may have been removed meanwhile; rg names no file either
	}
	defer func() { _ = in.Close() }() // opened only for reading
	p := &printer{search: s, name: f.name}
	if s.o.multiline {
		err = s.whole(in, p)
	} else {
		err = s.blocks(in, p)
	}
	return p.finish(), err
}

// whole searches a file that is read as a whole, up to the first zero byte.
func (s *search) whole(in io.Reader, p *printer) error {
	text, err := io.ReadAll(io.LimitReader(in, 1<<30))
	if err != nil {
		return nil //nolint:nilerr // see file
	}
	text = decoded(text)
	if bytes.IndexByte(text[:min(len(text), blockSize)], 0) >= 0 {
		return nil
	}
	if zero := bytes.IndexByte(text, 0); zero >= 0 {
		text, p.binary = text[:bytes.LastIndexByte(text[:zero], '\n')+1], true
	}
	_, err = p.lines(text, true)
	return err
}

// blocks searches a file block by block. It stops before a block with a zero
// byte.
func (s *search) blocks(in io.Reader, p *printer) error {
	if s.block == nil {
		s.block = make([]byte, blockSize)
	}
	block, n := s.block, 0
	for first := true; ; first = false {
		if n == len(block) {
			if n >= maxLine {
				return nil
			}
			block = append(block, make([]byte, n)...)
		}
		read, err := in.Read(block[n:])
		if err != nil && !errors.Is(err, io.EOF) {
			return nil // see the function file
		}
		if first && read >= 2 && (block[0] == 0xff && block[1] == 0xfe || block[0] == 0xfe && block[1] == 0xff) {
			return s.whole(io.MultiReader(bytes.NewReader(bytes.Clone(block[:read])), in), p)
		}
		if first && bytes.HasPrefix(block[:read], []byte("\xef\xbb\xbf")) {
			read = copy(block, block[3:read])
		}
		if bytes.IndexByte(block[n:n+read], 0) >= 0 {
			p.binary = true
			return nil
		}
		n += read
		last := errors.Is(err, io.EOF)
		end := n
		if !last {
			if end = bytes.LastIndexByte(block[:n], '\n') + 1; end == 0 {
				continue
			}
		}
		keep, err := p.lines(block[:end], last)
		if err != nil || last || p.done {
			return err
		}
		n = copy(block, block[keep:n])
	}
}

// decoded returns a text without its byte order mark, and as UTF-8.
func decoded(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return text[3:]
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}):
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, 0, len(text)/2)
	for i := 2; i+1 < len(text); i += 2 {
		units = append(units, order.Uint16(text[i:]))
	}
	if len(text)%2 == 1 {
		units = append(units, utf8.RuneError)
	}
	return []byte(string(utf16.Decode(units)))
}

// printer prints the matching lines of one file, with context.
type printer struct {
	*search
	name    string
	matches int
	line    int  // line number before the text that is passed to lines
	printed int  // number of the last line that was printed
	after   int  // lines of context that are still to be printed
	binary  bool // a zero byte was found
	done    bool // one match is enough and has been found
}

// lines searches whole lines. It returns how many bytes can be dropped, because
// no later match needs them as context.
func (p *printer) lines(text []byte, last bool) (keep int, err error) {
	at, number := 0, p.line // number counts the lines before offset at
	for start, end := range p.m.matches(text) {
		p.matches++
		if p.o.names {
			p.done = true
			return len(text), nil
		}
		if p.o.count {
			continue
		}
		if p.after > 0 {
			if err := p.context(text[at:start], number, p.after); err != nil {
				return 0, err
			}
		}
		skipped := bytes.Count(text[at:start], []byte{'\n'})
		if p.o.before > 0 {
			if err := p.beforeMatch(text[:start], number+skipped); err != nil {
				return 0, err
			}
		}
		number += skipped
		for line := range bytes.SplitSeq(text[start:end], []byte{'\n'}) {
			number++
			if err := p.print(number, ':', line); err != nil {
				return 0, err
			}
		}
		p.after = p.o.after
		at = min(end+1, len(text))
	}
	if last || p.o.names || p.o.count {
		if p.after > 0 {
			err = p.context(text[at:], number, p.after)
		}
		return len(text), err
	}
	if p.after > 0 {
		before := p.printed
		if err := p.context(text[at:], number, p.after); err != nil {
			return 0, err
		}
		p.after -= p.printed - before
	}
	keep = len(text)
	for range p.o.before {
		if keep == 0 {
			break
		}
		keep = bytes.LastIndexByte(text[:keep-1], '\n') + 1
	}
	if keep < at {
		keep = at
	}
	p.line = number + bytes.Count(text[at:keep], []byte{'\n'})
	return keep, nil
}

// context prints the first limit lines of text as context.
func (p *printer) context(text []byte, number, limit int) error {
	for line := range bytes.Lines(text) {
		if number++; limit == 0 {
			break
		}
		if number <= p.printed {
			continue
		}
		limit--
		if err := p.print(number, '-', bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return err
		}
	}
	return nil
}

// beforeMatch prints the last lines of text as context. number is the number of
// the last.
func (p *printer) beforeMatch(text []byte, number int) error {
	start, first := len(text), number+1
	for range p.o.before {
		if start == 0 || first-1 <= p.printed {
			break
		}
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
		first--
	}
	return p.context(text[start:], first-1, p.o.before)
}

func (p *printer) print(number int, mark byte, line []byte) error {
	p.printed = number
	if err := writeName(p.out, p.name, p.o); err != nil {
		return err
	}
	var head [24]byte
	if _, err := p.out.Write(append(strconv.AppendInt(head[:0], int64(number), 10), mark)); err != nil {
		return err
	}
	if _, err := p.out.Write(line); err != nil {
		return err
	}
	return p.out.WriteByte('\n')
}

// finish prints the output that appears once per file, and reports whether
// there was a match.
func (p *printer) finish() bool {
	switch {
	case p.matches == 0 || p.o.count && p.binary:
		return false
	case p.o.names:
		_ = writeName(p.out, p.name, p.o) // the next write fails as well
	case p.o.count:
		_ = writeName(p.out, p.name, p.o)
		_, _ = p.out.WriteString(strconv.Itoa(p.matches) + "\n")
	}
	return true
}
