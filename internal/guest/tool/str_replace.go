package tool

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
)

// StrReplace replaces a piece of text in a file.
func StrReplace(ws Workspace) Tool {
	return editTool("StrReplace", func(call *agentv1.EditToolCall) (edited, error) {
		return strReplace(ws, call.GetStrReplace())
	})
}

func strReplace(ws Workspace, args *agentv1.StrReplaceArgs) (edited, error) {
	path, err := ws.path(args.GetPath())
	if err != nil {
		return edited{}, err
	}
	switch {
	case args.GetOldString() == "":
		return edited{}, errors.New("old_string is empty: give the text to replace, or use Write to create a file")
	case args.GetOldString() == args.GetNewString():
		return edited{}, errors.New("old_string and new_string are the same: there is nothing to change")
	}
	t, err := ws.target(path, args.GetGuarded(), true)
	if err != nil {
		return edited{}, err
	}
	defer func() { t.Close() }()
	old, info, err := t.Read()
	if err != nil {
		return edited{}, err
	}
	if !isText(old) {
		return edited{}, fmt.Errorf("%s is a binary file, which this tool cannot edit", path)
	}
	if err := ws.Seen.Check(t.Path, old); err != nil {
		return edited{}, err
	}
	find, put := []byte(args.GetOldString()), []byte(args.GetNewString())
	if !bytes.Contains(old, find) && bytes.Contains(old, []byte("\r\n")) {
		// The model sees lines without their carriage returns.
		find, put = withCRLF(find), withCRLF(put)
	}
	at := occurrences(old, find)
	switch {
	case len(at) == 0:
		return edited{}, fmt.Errorf("old_string was not found in %s%s", path, nearest(old, args.GetOldString()))
	case len(at) > 1 && !args.GetReplaceAll():
		return edited{}, fmt.Errorf("old_string occurs in %s %d times, at lines %s: include more of the surrounding text, or set replace_all",
			path, len(at), lineNumbers(old, at))
	}
	e := edited{path: path, old: old, new: bytes.ReplaceAll(old, find, put)}
	if len(e.new) > 4*file.MaxBytes {
		return edited{}, fmt.Errorf("the file would become %d bytes long, more than this tool can write", len(e.new))
	}
	if err := t.Replace(e.new, info, 0); err != nil {
		return edited{}, err
	}
	ws.Seen.Remember(t.Path, e.new)
	if len(at) > 1 {
		e.note = fmt.Sprintf("%d occurrences were replaced.", len(at))
	}
	return e, nil
}

// withCRLF ends each line of p with a carriage return and a line feed.
func withCRLF(p []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}

// occurrences returns the offsets at which piece occurs in text, without
// overlaps.
func occurrences(text, piece []byte) []int {
	var at []int
	for from := 0; ; {
		i := bytes.Index(text[from:], piece)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(piece)
	}
}

// lineNumbers lists the line numbers of the first occurrences.
func lineNumbers(text []byte, at []int) string {
	const most = 10
	var names []string
	line, from := 1, 0
	for i, pos := range at {
		if i == most {
			names = append(names, "…")
			break
		}
		line += bytes.Count(text[from:pos], []byte("\n"))
		from = pos
		names = append(names, strconv.Itoa(line))
	}
	return strings.Join(names, ", ")
}

// nearest describes the text most similar to a piece that was not found.
func nearest(file []byte, piece string) string {
	lines, want := strings.Split(string(file), "\n"), strings.Split(strings.Trim(piece, "\r\n"), "\n")
	for i, w := range want {
		want[i] = squeeze(w)
	}
	if at := matchAll(lines, want); at >= 0 {
		return fmt.Sprintf(": text that differs only in white space begins at line %d; Read it and copy it exactly", at+1)
	}
	if looksNumbered(piece) {
		return ": it seems to contain the line numbers that Read shows; leave out the number and the | of each line"
	}
	for _, w := range want {
		if w == "" {
			continue
		}
		for i, l := range lines {
			if squeeze(l) == w {
				return fmt.Sprintf(": its line %q is at line %d, but the lines around it differ; Read that part of the file", text.Abbreviate(w, 80, "…"), i+1)
			}
		}
		for i, l := range lines {
			if strings.Contains(squeeze(l), w) {
				return fmt.Sprintf(": %q is in line %d, but the text around it differs; Read that part of the file", text.Abbreviate(w, 80, "…"), i+1)
			}
		}
	}
	return ", nor was any of its lines; Read the file, it may have changed"
}

// matchAll returns the index of the first line at which all of want match in
// sequence, ignoring white space, or -1. Its cost is bounded: it gives up after
// too many lines that match only the start of want.
func matchAll(lines, want []string) int {
	squeezed := make([]string, len(lines))
	for i, l := range lines {
		squeezed[i] = squeeze(l)
	}
	budget := 1 << 20
next:
	for i := 0; i+len(want) <= len(squeezed); i++ {
		for j, w := range want {
			if budget--; budget < 0 {
				return -1
			}
			if squeezed[i+j] != w {
				continue next
			}
		}
		return i
	}
	return -1
}

// squeeze returns a line with white space normalized.
func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

// looksNumbered reports whether each line begins with a line number in Read's
// format.
func looksNumbered(piece string) bool {
	for line := range strings.SplitSeq(strings.Trim(piece, "\n"), "\n") {
		number, _, ok := strings.Cut(strings.TrimLeft(line, " "), "|")
		if _, err := strconv.Atoi(number); !ok || err != nil {
			return false
		}
	}
	return true
}
