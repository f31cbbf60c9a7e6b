package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/diff"

	"aloft/internal/wire/agentv1"
)

const (
	maxEditBytes = 16 << 20 // the largest file that can be edited
	maxDiffBytes = 30000    // the longest diff that is returned
	maxDiffInput = 2 << 20  // both versions together; a diff of larger files would take too long
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
		return Outcome{
			Call:    &agentv1.ToolCall{Tool: &agentv1.ToolCall_EditToolCall{EditToolCall: done}},
			Text:    text,
			Error:   err != nil,
			Failure: failureOf(err),
		}
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

// read reads all of a regular file.
func (t target) read() (contents []byte, info fs.FileInfo, err error) {
	f, info, err := openFile(t.at, t.path, syscall.O_NOFOLLOW)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info.Size() > maxEditBytes {
		return nil, nil, fmt.Errorf("%s is %d bytes long, and this tool edits files of at most %d: use sed or a script in Shell", t.path, info.Size(), maxEditBytes)
	}
	contents, err = io.ReadAll(io.LimitReader(f, maxEditBytes))
	if err != nil {
		return nil, nil, explain(t.path, err)
	}
	return contents, info, nil
}

// openRegular opens a regular file for reading. It refuses anything else before
// opening it: reading a pipe can block forever, and opening a device can have
// side effects.
func openRegular(path string) (*os.File, fs.FileInfo, error) { return openFile(path, path, 0) }

// openFile opens the regular file at a path; its errors name it by path.
func openFile(at, path string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY|flags, 0)
	if err != nil {
		if errors.Is(err, syscall.ENXIO) {
			return nil, nil, fmt.Errorf("%s is a socket or a device, not a file", path)
		}
		return nil, nil, explain(path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = explain(path, err)
	case info.IsDir():
		err = fmt.Errorf("%s is a folder: list it with LS or Glob", path)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s is %s, not a file", path, kindOf(info.Mode()))
	default:
		return f, info, nil
	}
	_ = f.Close() // nothing was done with it
	return nil, nil, err
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "a special file"
}

// replace writes contents to the file by renaming a temporary file over it.
// Readers see either the old or the new contents, and a full disk leaves the
// old. An existing file keeps its mode; a new one gets mode minus the umask.
// Missing folders are created.
func (t *target) replace(contents []byte, old fs.FileInfo, mode fs.FileMode) error {
	if err := t.makeFolders(); err != nil {
		return err
	}
	if old != nil {
		// A rename succeeds even if the file is read-only, so check that it can
		// be written.
		if f, err := os.OpenFile(t.at, os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0); err != nil {
			return explain(t.path, err)
		} else if err := f.Close(); err != nil {
			return explain(t.path, err)
		}
		mode = old.Mode()
	}
	if old != nil {
		if now, err := os.Lstat(t.at); err != nil {
			return explain(t.path, err)
		} else if now.Size() != old.Size() || !now.ModTime().Equal(old.ModTime()) || !os.SameFile(now, old) {
			return fmt.Errorf("%s was changed by somebody else in the meantime; nothing was written: Read it again", t.path)
		}
		if mustStay(old) {
			return t.overwrite(contents)
		}
	}
	temp, err := createTemp(t.at, mode.Perm())
	if err != nil {
		if old != nil && errors.Is(err, fs.ErrPermission) {
			return t.overwrite(contents) // only the file can be written, not its folder
		}
		return explain(filepath.Dir(t.path), err)
	}
	_, err = temp.Write(contents)
	if err == nil && old != nil {
		err = temp.Chmod(mode) // the old file's mode, whatever the umask
	}
	if err2 := temp.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(temp.Name(), t.at)
	}
	if err != nil {
		_ = os.Remove(temp.Name()) // the first error is reported
		return explain(t.path, err)
	}
	return nil
}

// createTemp creates a temporary file in the folder of path.
func createTemp(path string, mode fs.FileMode) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".aloft-%d-%d.tmp", os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return f, err
		}
	}
}

// mustStay reports whether replacing a file by a new one would lose something:
// its other hard links, or its owner.
func mustStay(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && (st.Nlink > 1 || int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid())
}

// overwrite writes contents into the existing file.
func (t *target) overwrite(contents []byte) error {
	f, err := os.OpenFile(t.at, os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return explain(t.path, err)
	}
	_, err = f.Write(contents)
	if err := errors.Join(err, f.Close()); err != nil {
		return explain(t.path, err)
	}
	return nil
}
