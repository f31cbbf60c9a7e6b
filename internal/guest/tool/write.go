package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

// Write creates a file or overwrites it. It also overwrites a file that the
// model has never read: the model supplies the whole contents, and the diff
// shows what was lost. It refuses to overwrite a file that has changed since
// the model read it.
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
	info, err := os.Lstat(t.At)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.created, info = true, nil
	case err != nil:
		return edited{}, file.Explain(path, err)
	case info.IsDir():
		return edited{}, fmt.Errorf("%s is a folder: give the path of a file in it", path)
	case !info.Mode().IsRegular():
		return edited{}, fmt.Errorf("%s is %s, not a file", path, file.Kind(info.Mode()))
	case info.Size() <= file.MaxBytes:
		// A file that cannot be read may still be writable. Then omit the diff.
		if old, _, err := t.Read(); err == nil {
			e.old = old
			if err := ws.Seen.Check(t.Path, old); err != nil {
				return edited{}, err
			}
		}
	}
	if err := t.Replace(e.new, info, 0o666); err != nil {
		return edited{}, err
	}
	ws.Seen.Remember(t.Path, e.new)
	if t.Linked {
		e.note = fmt.Sprintf("The path is a symbolic link; its target was written: %s.", t.Path)
	}
	return e, nil
}
