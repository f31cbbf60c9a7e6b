package tool

import (
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/wire/agentv1"
)

// page is the part of what grep finds that goes into its result.
type page struct {
	mode    agentv1.GrepArgs_OutputMode
	skip    int // entries to leave out first
	most    int // entries to return
	seen    int
	entries []entry
	size    int
	more    bool // there is an entry after the last
	full    bool // what ends the page is its size
}

func grepPage(args *agentv1.GrepArgs) (*page, error) {
	p := &page{mode: args.GetOutputMode(), skip: int(args.GetOffset()), most: 1 << 30}
	if p.skip < 0 {
		return nil, fmt.Errorf("offset is %d: it is a number of lines or entries to leave out, at least 0", p.skip)
	}
	if args.HeadLimit != nil {
		if p.most = int(args.GetHeadLimit()); p.most <= 0 {
			return nil, fmt.Errorf("head_limit is %d: it is a number of lines or entries, at least 1", p.most)
		}
	}
	return p, nil
}

// add takes the next entry and reports whether the page wants another.
func (p *page) add(e entry) bool {
	if p.seen++; p.seen <= p.skip {
		return true
	}
	size := len(e.name) + len(e.text) + 16
	if len(p.entries) == p.most || p.size+size > maxGrepBytes && len(p.entries) > 0 {
		p.more, p.full = true, len(p.entries) < p.most
		return false
	}
	p.size += size
	p.entries = append(p.entries, e)
	return true
}

func (p *page) result(args *agentv1.GrepArgs) (*agentv1.GrepSuccess, string, error) {
	success := &agentv1.GrepSuccess{Output: p.render(), Lines: int32(len(p.entries)), Truncated: p.more}
	switch {
	case p.seen == 0:
		return success, valid(fmt.Sprintf("Nothing matches %s. Files that git ignores and binary files are not looked at.", args.GetPattern())), nil
	case len(p.entries) == 0:
		return success, fmt.Sprintf("Nothing is left after the first %d: offset leaves out all that was found, %d.", p.skip, p.seen), nil
	case p.full:
		return success, success.GetOutput() + fmt.Sprintf("[there is more: narrow the search, or go on with offset %d]\n", p.skip+len(p.entries)), nil
	case p.more:
		return success, success.GetOutput() + fmt.Sprintf("[head_limit reached; go on with offset %d]\n", p.skip+len(p.entries)), nil
	}
	return success, success.GetOutput(), nil
}

// render is the entries as text. Lines that do not follow one another are
// parted as grep does it, if there is context.
func (p *page) render() string {
	var b strings.Builder
	context := false
	for _, e := range p.entries {
		context = context || !e.match
	}
	for i, e := range p.entries {
		name := oneLine(e.name)
		switch p.mode {
		case agentv1.GrepArgs_files_with_matches:
			b.WriteString(name + "\n")
		case agentv1.GrepArgs_count:
			b.WriteString(name + ":" + e.text + "\n")
		default:
			if prev := p.entries[max(0, i-1)]; context && i > 0 && (prev.name != e.name || prev.line+1 != e.line) {
				b.WriteString("--\n")
			}
			mark := ":"
			if !e.match {
				mark = "-"
			}
			b.WriteString(name + mark + strconv.Itoa(e.line) + mark + e.text + "\n")
		}
	}
	return b.String()
}
