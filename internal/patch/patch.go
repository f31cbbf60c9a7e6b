// Package patch reads changes in the format of git diff: which lines of which
// files they add, remove or show as context.
package patch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Max is the maximum length of a patch, in bytes.
const Max = 1 << 20

// Patch is the change of a set of files.
type Patch struct {
	Files []File
}

// File is the change of one file.
type File struct {
	Old, New string // paths; "" if the file does not exist on that side
	Hunks    []Hunk
}

// Hunk is a run of changed lines with the lines around them.
type Hunk struct {
	Old, New Range
	Kinds    string // a byte for each line: '+' added, '-' removed, ' ' unchanged
}

// Range is a range of lines, counted from 1.
type Range struct {
	First, Count int
}

// contains reports whether all lines from first to last are in the range.
func (r Range) contains(first, last int) bool {
	return first >= r.First && last < r.First+r.Count
}

// Parse reads the output of git diff with the prefixes a/ and b/. It fails if the text
// has another format, or if it changes no file.
func Parse(text string) (Patch, error) {
	var p Patch
	lines := strings.Split(text, "\n")
	for at := 0; at < len(lines); {
		line := lines[at]
		switch {
		case strings.HasPrefix(line, "diff --git "):
			p.Files = append(p.Files, File{})
			at++
		case len(p.Files) == 0:
			if strings.TrimSpace(line) != "" {
				return Patch{}, fmt.Errorf("line %d: expected a line that begins with diff --git", at+1)
			}
			at++
		case strings.HasPrefix(line, "--- "):
			p.Files[len(p.Files)-1].Old = pathOf(line[len("--- "):], "a/")
			at++
		case strings.HasPrefix(line, "+++ "):
			p.Files[len(p.Files)-1].New = pathOf(line[len("+++ "):], "b/")
			at++
		case strings.HasPrefix(line, "@@ "):
			h, err := hunkOf(line)
			if err != nil {
				return Patch{}, fmt.Errorf("line %d: %w", at+1, err)
			}
			kinds, n, err := bodyOf(lines[at+1:], h)
			if err != nil {
				return Patch{}, fmt.Errorf("line %d: %w", at+1, err)
			}
			h.Kinds = kinds
			f := &p.Files[len(p.Files)-1]
			f.Hunks = append(f.Hunks, h)
			at += 1 + n
		default: // modes, names of renamed files, and binary contents
			at++
		}
	}
	if len(p.Files) == 0 {
		return Patch{}, errors.New("it changes no file")
	}
	return p, nil
}

// pathOf returns the path in a line that names a file.
func pathOf(name, prefix string) string {
	name = strings.TrimSuffix(strings.TrimSuffix(name, "\r"), "\t") // git appends a tab to names that contain spaces
	if name == "/dev/null" {
		return ""
	}
	if strings.HasPrefix(name, `"`) {
		if plain, err := strconv.Unquote(name); err == nil {
			name = plain
		}
	}
	return strings.TrimPrefix(name, prefix)
}

// hunkOf parses a line such as @@ -1,2 +3 @@ func main().
func hunkOf(line string) (h Hunk, err error) {
	part := strings.SplitN(line, " ", 5)
	if len(part) < 4 || part[3] != "@@" {
		return h, errors.New("invalid header of a hunk")
	}
	if h.Old, err = rangeOf(part[1], "-"); err == nil {
		h.New, err = rangeOf(part[2], "+")
	}
	return h, err
}

func rangeOf(text, sign string) (r Range, err error) {
	first, count, several := strings.Cut(strings.TrimPrefix(text, sign), ",")
	r.Count = 1
	if r.First, err = strconv.Atoi(first); err == nil && several {
		r.Count, err = strconv.Atoi(count)
	}
	if err != nil || !strings.HasPrefix(text, sign) || r.First < 0 || r.Count < 0 || r.First > Max || r.Count > Max {
		return r, fmt.Errorf("invalid range of lines %q", text[:min(len(text), 50)])
	}
	return r, nil
}

// bodyOf returns the kinds of the lines of a hunk, and how many lines belong to it.
func bodyOf(lines []string, h Hunk) (kinds string, n int, err error) {
	var b strings.Builder
	before, after := h.Old.Count, h.New.Count
	for before > 0 || after > 0 {
		if n == len(lines) {
			return "", 0, errors.New("the hunk is cut off")
		}
		switch line := lines[n]; {
		case line == "" && n < len(lines)-1, strings.HasPrefix(line, " "): // some programs strip the space of an empty line
			before, after = before-1, after-1
			b.WriteByte(' ')
		case strings.HasPrefix(line, "-"):
			before--
			b.WriteByte('-')
		case strings.HasPrefix(line, "+"):
			after--
			b.WriteByte('+')
		case strings.HasPrefix(line, `\`): // no newline at the end of the file
		default:
			return "", 0, errors.New("the hunk is cut off")
		}
		if n++; before < 0 || after < 0 {
			return "", 0, errors.New("the hunk has more lines than its header says")
		}
	}
	return b.String(), n, nil
}

// Check returns why lines of a file are not part of the patch, or nil if they are all
// within one hunk. If oldSide is set, the lines are in the version before the change.
func (p Patch) Check(path string, first, last int, oldSide bool) error {
	known := false
	var hunks []string
	for _, f := range p.Files {
		name := f.New
		if oldSide {
			name = f.Old
		}
		if name != path || path == "" {
			continue
		}
		known = true
		for _, h := range f.Hunks {
			r := h.New
			if oldSide {
				r = h.Old
			}
			if r.contains(first, last) {
				return nil
			}
			if r.Count > 0 {
				hunks = append(hunks, fmt.Sprintf("%d-%d", r.First, r.First+r.Count-1))
			}
		}
	}
	switch {
	case !known:
		return fmt.Errorf("the change does not have the file %q", path)
	case len(hunks) == 0:
		return errors.New("the change has no lines of that side of the file")
	}
	const most = 20
	more := ""
	if len(hunks) > most {
		hunks, more = hunks[:most], " and others"
	}
	return fmt.Errorf("the lines %d-%d are not within one part of the change, which has the lines %s%s", first, last, strings.Join(hunks, ", "), more)
}
