package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"aloft/internal/wire/agentv1"
)

// Write creates a file or replaces the whole of one. A file that the model never
// read is replaced, too: the whole of what is in it afterwards comes from the
// model, and the diff shows what was lost. One that has changed since the model
// read it is refused.
func Write(ws Workspace) Tool {
	return editTool("Write", func(call *agentv1.EditToolCall) (edited, error) {
		return write(ws, call.GetWrite())
	})
}

func write(ws Workspace, args *agentv1.WriteArgs) (edited, error) {
	path, err := ws.path(args.GetPath())
	if err != nil {
		return edited{}, err
	}
	e := edited{path: path, new: []byte(args.GetContents())}
	target, err := resolveNew(path)
	if err != nil {
		return edited{}, err
	}
	if err := NewUnseen(ws.Dir).Check(target); err != nil {
		return edited{}, err
	}
	info, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.created = true
	case err != nil:
		return edited{}, explain(path, err)
	case info.IsDir():
		return edited{}, fmt.Errorf("%s is a folder: give the path of a file in it", path)
	case !info.Mode().IsRegular():
		return edited{}, fmt.Errorf("%s is %s, not a file", path, kindOf(info.Mode()))
	case info.Size() <= maxEditBytes:
		// What cannot be read may still be written; then there is no diff.
		if _, old, _, err := readForEdit(target); err == nil {
			e.old = old
			if err := ws.Seen.check(target, old); err != nil {
				return edited{}, err
			}
		}
	}
	if e.created {
		info = nil
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return edited{}, explain(filepath.Dir(target), err)
		}
	}
	if err := replaceFile(target, e.new, info, 0o666); err != nil {
		return edited{}, err
	}
	if real, err := filepath.EvalSymlinks(target); err == nil {
		ws.Seen.remember(real, e.new)
	}
	if target != path {
		e.note = fmt.Sprintf("The path is a symbolic link; what it points to was written: %s.", target)
	}
	return e, nil
}

// resolveNew follows symbolic links to a file that need not be there, so that
// writing through a link keeps the link.
func resolveNew(path string) (string, error) {
	for range 40 { // as many as the kernel follows
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // no link, or what Stat will explain
		}
		if !filepath.IsAbs(target) {
			// The folder may be reached by a link too, from which .. leads elsewhere.
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return "", explain(path, err)
			}
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", explain(path, syscall.ELOOP)
}
