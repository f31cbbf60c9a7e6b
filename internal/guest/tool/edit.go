package tool

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/diff"

	"aloft/internal/wire/agentv1"
)

const (
	maxDiffBytes = 30000   // the longest diff that is returned
	maxDiffInput = 2 << 20 // total size of both versions in bytes; a diff of larger files would take too long
)

// edited holds the contents of a file before and after an edit.
type edited struct {
	path     string
	created  bool
	old, new []byte
	note     string
}

// editing serializes edits, so that no other edit changes a file between
// reading and writing it.
var editing sync.Mutex

// editTool makes a tool whose result is an edit.
func editTool(name string, run func(*agentv1.EditToolCall) (edited, error)) Tool {
	return Tool{Name: name, Run: func(_ context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		editing.Lock()
		defer editing.Unlock()
		result, text := &agentv1.EditResult{}, ""
		e, err := run(call.GetEditToolCall())
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.EditResult_Error{Error: &agentv1.ToolError{Message: text}}
		} else {
			var success *agentv1.EditSuccess
			success, text = e.result()
			result.Result = &agentv1.EditResult_Success{Success: success}
		}
		done := &agentv1.EditToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_EditToolCall{EditToolCall: done}}, text, err)
	}}
}

// result describes an edit for programs and as text for the model.
func (e edited) result() (*agentv1.EditSuccess, string) {
	s := &agentv1.EditSuccess{Path: valid(e.path), Created: e.created}
	if isText(e.old) && isText(e.new) && len(e.old)+len(e.new) <= maxDiffInput {
		s.Diff = unified(e.path, e.old, e.new)
		s.LinesAdded, s.LinesRemoved = countDiff(s.Diff)
		if len(s.Diff) > maxDiffBytes {
			s.Diff = string(wholeLines([]byte(s.Diff[:maxDiffBytes]))) + "[… the rest of the diff is cut …]\n"
		}
		s.Diff = valid(s.Diff)
	} else {
		s.LinesAdded, s.LinesRemoved = lineCount(e.new), lineCount(e.old)
	}
	var text string
	switch {
	case e.created:
		text = fmt.Sprintf("Created %s (%s).", e.path, plural(int(lineCount(e.new)), "line"))
	case bytes.Equal(e.old, e.new):
		text = fmt.Sprintf("%s already has these contents; nothing was changed.", e.path)
	default:
		text = fmt.Sprintf("Changed %s (+%d -%d lines).", e.path, s.LinesAdded, s.LinesRemoved)
	}
	if e.note != "" {
		text += " " + e.note
	}
	return s, valid(text)
}

func unified(path string, old, new []byte) string {
	name := strings.TrimPrefix(strings.ToValidUTF8(path, "?"), "/")
	text := diff.Diff("a/"+name, old, "b/"+name, new)
	_, rest, _ := bytes.Cut(text, []byte("\n")) // drop the header line, "diff a/… b/…"
	return string(rest)
}

// countDiff counts the added and removed lines of a unified diff. It skips the
// first two lines, which name the files.
func countDiff(text string) (added, removed int32) {
	n := 0
	for line := range strings.Lines(text) {
		if n++; n <= 2 {
			continue
		}
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return added, removed
}

func wholeLines(p []byte) []byte { return p[:bytes.LastIndexByte(p, '\n')+1] }

func lineCount(p []byte) int32 {
	n := bytes.Count(p, []byte("\n"))
	if len(p) > 0 && p[len(p)-1] != '\n' {
		n++
	}
	return int32(n)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// isText reports whether p looks like text. As in git, text has no zero byte
// near its beginning.
func isText(p []byte) bool { return bytes.IndexByte(p[:min(len(p), 8000)], 0) < 0 }
