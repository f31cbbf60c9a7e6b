package search

import "bytes"

// Sizes of a chunk, about as much as a person reads at once.
const (
	fewLines  = 10   // minimum before a definition starts a new chunk
	someLines = 40   // after these, an empty line ends a chunk
	mostLines = 60   // after these, any line ends a chunk
	mostBytes = 4000 // likewise, in bytes
)

// chunk is a range of lines of a file. Lines count from 1.
type chunk struct {
	start, end int // byte offsets
	line       int // the first line
	lines      int
}

// chunks splits a text, preferably before a definition and its comment, else at an empty
// line, else where a chunk would get too long.
func chunks(text []byte, defined []symbol) []chunk {
	starts := make(map[int]bool, len(defined))
	for _, s := range defined {
		starts[s.line] = true
	}
	var cut []chunk
	now := chunk{line: 1}
	blank := 0 // offset after the last empty line of this chunk
	blankLine := 0
	close := func(at, line int) {
		now.end, now.lines = at, line-now.line
		if len(bytes.TrimSpace(text[now.start:now.end])) > 0 {
			cut = append(cut, now)
		}
		now = chunk{start: at, line: line}
	}
	line := 1
	for at := 0; at < len(text); line++ {
		next := len(text)
		if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
			next = at + n + 1
		}
		empty := len(bytes.TrimSpace(text[at:next])) == 0
		switch in := line - now.line; {
		case in == 0:
		case starts[line] && blankLine > now.line && blankLine-now.line >= fewLines:
			close(blank, blankLine)
		case in >= mostLines, next-now.start > mostBytes:
			if blankLine-now.line >= fewLines {
				close(blank, blankLine)
			} else {
				close(at, line)
			}
		case empty && in >= someLines:
			close(next, line+1)
		}
		if empty {
			blank, blankLine = next, line+1
		}
		at = next
	}
	if now.start < len(text) {
		close(len(text), line)
	}
	return cut
}
