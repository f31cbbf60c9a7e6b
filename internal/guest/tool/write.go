package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

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
	t, err := ws.target(path, args.GetGuarded(), true)
	if err != nil {
		return edited{}, err
	}
	defer func() { t.Close() }()
	e := edited{path: path, new: []byte(args.GetContents())}
	info, err := os.Lstat(t.at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.created, info = true, nil
	case err != nil:
		return edited{}, explain(path, err)
	case info.IsDir():
		return edited{}, fmt.Errorf("%s is a folder: give the path of a file in it", path)
	case !info.Mode().IsRegular():
		return edited{}, fmt.Errorf("%s is %s, not a file", path, kindOf(info.Mode()))
	case info.Size() <= maxEditBytes:
		// What cannot be read may still be written; then there is no diff.
		if old, _, err := t.read(); err == nil {
			e.old = old
			if err := ws.Seen.check(t.path, old); err != nil {
				return edited{}, err
			}
		}
	}
	if err := t.replace(e.new, info, 0o666); err != nil {
		return edited{}, err
	}
	ws.Seen.remember(t.path, e.new)
	if t.linked {
		e.note = fmt.Sprintf("The path is a symbolic link; what it points to was written: %s.", t.path)
	}
	return e, nil
}
