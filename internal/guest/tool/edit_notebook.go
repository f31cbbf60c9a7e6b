package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/guest/notebook"
	"aloft/internal/wire/agentv1"
)

// EditNotebook changes or adds a cell of a Jupyter notebook.
func EditNotebook(ws Workspace) Tool {
	return editTool("EditNotebook", func(call *agentv1.EditToolCall) (edited, error) {
		return editNotebook(ws, call.GetEditNotebook())
	})
}

func editNotebook(ws Workspace, args *agentv1.EditNotebookArgs) (edited, error) {
	path, err := ws.path(args.GetTargetNotebook())
	if err != nil {
		return edited{}, err
	}
	if filepath.Ext(path) != ".ipynb" {
		return edited{}, fmt.Errorf("%s does not end in .ipynb: for files other than notebooks use StrReplace or Write", path)
	}
	t, err := ws.target(path, args.GetGuarded(), true)
	if err != nil {
		return edited{}, err
	}
	defer func() { t.Close() }()
	e := edited{path: path}
	old, info, err := t.Read()
	switch {
	case err != nil && args.GetIsNewCell() && missing(path):
		old, info, e.created = []byte(notebook.Empty), nil, true
	case err != nil:
		return edited{}, err
	default:
		e.old = old
		if err := ws.Seen.Check(t.Path, old); err != nil {
			return edited{}, err
		}
	}
	n, err := notebook.Parse(old)
	if err != nil {
		return edited{}, fmt.Errorf("%s cannot be edited as a notebook: %w", path, err)
	}
	if e.new, err = changeCell(n, args); err != nil {
		return edited{}, err
	}
	if err := t.Replace(e.new, info, 0o666); err != nil {
		return edited{}, err
	}
	ws.Seen.Remember(t.Path, e.new)
	e.note = fmt.Sprintf("Cell %d was changed.", args.GetCellIdx())
	if args.GetIsNewCell() {
		e.note = fmt.Sprintf("The new cell is cell %d of %d.", args.GetCellIdx(), len(n.Cells)+1)
	}
	return e, nil
}

// missing reports whether nothing exists at a path.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// changeCell returns the notebook's text after the requested change.
func changeCell(n *notebook.Notebook, args *agentv1.EditNotebookArgs) ([]byte, error) {
	at, cells := int(args.GetCellIdx()), len(n.Cells)
	kind, language := cellKind(args.GetCellLanguage())
	if args.GetIsNewCell() {
		switch {
		case at < 0 || at > cells:
			return nil, fmt.Errorf("cell_idx is %d: the index of a new cell is from 0 to %d, which adds it at the end", at, cells)
		case args.GetOldString() != "":
			return nil, errors.New("old_string must be empty for a new cell")
		}
		return n.Insert(at, args.GetNewString(), kind, language)
	}
	if at < 0 || at >= cells {
		return nil, fmt.Errorf("cell_idx is %d: the notebook has %s, counted from 0; to add a cell set is_new_cell", at, plural(cells, "cell"))
	}
	cell, find := n.Cells[at], args.GetOldString()
	source := args.GetNewString()
	switch count := strings.Count(cell.Source, find); {
	case find == "" && cell.Source != "":
		return nil, fmt.Errorf("old_string is empty, and cell %d is not: give the text to replace", at)
	case find == "":
	case count == 0:
		return nil, fmt.Errorf("old_string was not found in cell %d%s", at, nearest([]byte(cell.Source), find))
	case count > 1:
		return nil, fmt.Errorf("old_string occurs in cell %d %d times: include more of the surrounding text", at, count)
	default:
		source = strings.Replace(cell.Source, find, args.GetNewString(), 1)
	}
	if source == cell.Source && kind == cell.Kind {
		return nil, errors.New("old_string and new_string are the same, and so is the cell's language: there is nothing to change")
	}
	return n.SetSource(at, source, kind, language)
}

// cellKind returns the cell type and language name for a language.
func cellKind(language agentv1.CellLanguage) (kind, name string) {
	switch language {
	case agentv1.CellLanguage_markdown:
		return notebook.Markdown, ""
	case agentv1.CellLanguage_raw:
		return notebook.Raw, ""
	}
	return notebook.Code, language.String()
}
