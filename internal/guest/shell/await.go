package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"
)

const (
	awaitInterval = 20 * time.Millisecond
	awaitChunk    = 256 << 10
	maxAwaitLine  = 64 << 10 // how much of a line is matched against a pattern, in bytes
	maxMatched    = 500      // how much of a matched line is returned, in bytes
)

// Wait says what to wait for.
type Wait struct {
	PIDs    []int          // process ids; if empty, all running commands
	Pattern *regexp.Regexp // matched against each line; nil to wait for the end
	Any     bool           // return as soon as the first command has ended or matched
	Timeout time.Duration  // 0 returns without waiting
	Room    int            // bytes of output to return for all commands together; DefaultThreshold if 0
}

// Awaited is the status of a background command after an Await.
type Awaited struct {
	Job
	Matched string // the matched line; empty if none
	Output  string // output since the last Await, up to its end or the end of the matched line
}

// Await waits for background commands to end, or to print a line that matches
// the pattern. For each command it reads the output after the end of the
// previous Await. On timeout it returns the output so far, and true.
func (s *Session) Await(ctx context.Context, w Wait) ([]Awaited, bool, error) {
	follows, err := s.follow(w)
	if err != nil {
		return nil, false, err
	}
	timer := time.NewTimer(w.Timeout)
	defer timer.Stop()
	tick := time.NewTicker(awaitInterval)
	defer tick.Stop()
	for late := w.Timeout <= 0; ; {
		ready := 0
		for _, f := range follows {
			if f.look(ctx, w.Pattern) {
				ready++
			}
		}
		if ready == len(follows) || w.Any && ready > 0 || late {
			return finish(follows, w), ready < len(follows) && (!w.Any || ready == 0), nil
		}
		select {
		case <-tick.C:
		case <-timer.C:
			late = true
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// ErrIdle is the error of [Session.Await] if there is no command to wait for.
var ErrIdle = errors.New("no command is running in the background, so there is nothing to wait for")

// follow returns a follow for each command that w names.
func (s *Session) follow(w Wait) ([]*follow, error) {
	var jobs []*job
	for _, pid := range w.PIDs {
		j, err := s.job(pid)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, j)
	}
	if len(w.PIDs) == 0 {
		s.jobsMu.Lock()
		for _, j := range s.jobs {
			if j.runs() {
				jobs = append(jobs, j)
			}
		}
		s.jobsMu.Unlock()
	}
	if len(jobs) == 0 {
		return nil, ErrIdle
	}
	var follows []*follow
	for _, j := range jobs {
		j.mu.Lock()
		follows = append(follows, &follow{job: j, from: j.returned, offset: j.returned, line: j.returned})
		j.mu.Unlock()
	}
	return follows, nil
}

// follow reads the output of one command as it grows.
type follow struct {
	job      *job
	from     int64 // where this Await started
	offset   int64 // how far the output was read
	line     int64 // start of the line that is not complete yet
	partial  []byte
	hasEnded bool
	matched  string
}

// look reads new output, and reports whether the wait is over.
func (f *follow) look(ctx context.Context, pattern *regexp.Regexp) bool {
	if f.hasEnded || f.matched != "" {
		return true
	}
	ended := !f.job.runs() // check this before reading, so that the last output is not missed
	if pattern != nil {
		f.scan(ctx, pattern)
	}
	f.hasEnded = ended
	return f.hasEnded || f.matched != ""
}

// scan matches new lines against the pattern. It also matches an incomplete
// last line, which may be a prompt.
func (f *follow) scan(ctx context.Context, pattern *regexp.Regexp) {
	file, err := os.Open(f.job.output())
	if err != nil {
		return // the file was removed; the end of the command is still detected
	}
	defer file.Close()
	if st, err := file.Stat(); err == nil && st.Size() < f.offset { // the file was truncated
		f.from, f.offset, f.line, f.partial = 0, 0, 0, nil
	}
	buf := make([]byte, awaitChunk)
	for ctx.Err() == nil {
		n, err := file.ReadAt(buf, f.offset)
		f.offset += int64(n)
		if f.lines(buf[:n], pattern) || err != nil || n == 0 {
			return
		}
	}
}

// lines processes the next piece of output.
func (f *follow) lines(p []byte, pattern *regexp.Regexp) bool {
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		piece := p
		if end >= 0 {
			piece = p[:end]
		}
		f.partial = append(f.partial, piece[:min(len(piece), maxAwaitLine-len(f.partial))]...)
		if end < 0 {
			break
		}
		length := int64(end) + 1
		if f.match(pattern) {
			f.offset -= int64(len(p)) - length // the rest is left for the next Await
			return true
		}
		p, f.partial = p[length:], f.partial[:0]
		f.line = f.offset - int64(len(p))
	}
	return len(f.partial) > 0 && f.match(pattern)
}

func (f *follow) match(pattern *regexp.Regexp) bool {
	text := bytes.TrimSuffix(f.partial, []byte("\r"))
	if !pattern.Match(text) {
		return false
	}
	f.matched = valid(text[:min(len(text), maxMatched)])
	if f.matched == "" {
		f.matched = "\n" // an empty line, matched by a pattern such as ^$
	}
	return true
}

// finish returns the output and status of each command.
func finish(follows []*follow, w Wait) []Awaited {
	room := w.Room
	if room <= 0 {
		room = DefaultThreshold
	}
	var all []Awaited
	for _, f := range follows {
		a := Awaited{Job: f.job.state(), Matched: f.matched}
		end := a.OutputBytes
		if f.matched != "" {
			end = f.offset
		}
		if end < f.from { // the file was truncated
			f.from = 0
		}
		a.Output = excerpt(a.OutputFile, f.from, end, room/len(follows))
		f.job.mu.Lock()
		f.job.returned = end
		f.job.mu.Unlock()
		f.job.tell(a.Job)
		all = append(all, a)
	}
	return all
}

// excerpt returns part of a file as valid UTF-8. If it is longer than about
// room bytes, the middle is left out.
func excerpt(path string, from, end int64, room int) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	part := func(at, n int64) []byte {
		p, _ := io.ReadAll(io.NewSectionReader(file, at, n)) // errors are ignored; return what could be read
		return p
	}
	if end-from <= int64(room) {
		return valid(part(from, end-from))
	}
	half := int64(room / 2)
	first, last := wholeRunes(part(from, half)), part(end-half, half)
	for i := 0; i < 3 && len(last) > 0 && last[0]&0xc0 == 0x80; i++ {
		last = last[1:]
	}
	left := end - from - int64(len(first)) - int64(len(last))
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", valid(first), left, valid(last))
}
