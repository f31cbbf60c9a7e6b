package tool

import (
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/wire/agentv1"
)

// page is the part of grep's results that one call returns.
type page struct {
	mode    agentv1.GrepArgs_OutputMode
	skip    int // number of entries to skip
	most    int // maximum number of entries
	seen    int
	entries []entry
	size    int
	more    bool // there are more entries after the page
	full    bool // the page ended because of its size
}

func grepPage(args *agentv1.GrepArgs) (*page, error) {
	p := &page{mode: args.GetOutputMode(), skip: int(args.GetOffset()), most: 1 << 30}
	if p.skip < 0 {
		return nil, fmt.Errorf("offset is %d: give a number of lines or entries to skip, at least 0", p.skip)
	}
	if args.HeadLimit != nil {
		if p.most = int(args.GetHeadLimit()); p.most <= 0 {
			return nil, fmt.Errorf("head_limit is %d: give a number of lines or entries, at least 1", p.most)
		}
	}
	return p, nil
}

// add adds the next entry, and reports whether the page has room for another.
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
		return success, valid(fmt.Sprintf("No matches for %s. Files that git ignores and binary files are not searched.", args.GetPattern())), nil
	case len(p.entries) == 0:
		return success, fmt.Sprintf("No results after the first %d: offset skips all %d of them.", p.skip, p.seen), nil
	case p.full:
		return success, success.GetOutput() + fmt.Sprintf("[there are more results: narrow the search, or continue with offset %d]\n", p.skip+len(p.entries)), nil
	case p.more:
		return success, success.GetOutput() + fmt.Sprintf("[head_limit reached; continue with offset %d]\n", p.skip+len(p.entries)), nil
	}
	return success, success.GetOutput(), nil
}

// render returns the entries as text. With context, it separates groups of
// lines that are not adjacent by --, as grep does.
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
