// Package notebook reads and edits Jupyter notebooks (nbformat 4). It edits the
// notebook's text in place, so that everything else stays the same byte for
// byte: the order of keys, the indentation, the end of the file. It runs no
// cells and reads no files.
package notebook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// Kinds of cells.
const (
	Code     = "code"
	Markdown = "markdown"
	Raw      = "raw"
)

// Notebook is a notebook and its text.
type Notebook struct {
	Cells    []Cell
	Language string // language of the code, from the notebook's metadata; empty if unknown
	Minor    int    // minor version of nbformat 4

	text  []byte
	top   span // the top-level object
	array span // the value of "cells"
	style style
}

// Cell is one cell.
type Cell struct {
	Kind     string
	ID       string // empty before nbformat 4.5
	Source   string
	Language string // empty unless the cell's own metadata name it
	Outputs  []Output

	span    span
	members []member
}

// Output is one output of a code cell.
type Output struct {
	Text  string // plain text, may be empty
	Image []byte // decoded, or nil
	Type  string // of Image: image/png
	Error bool   // whether Text is an error's
}

// Parse reads a notebook. Errors are meant for the author of the text.
func Parse(text []byte) (*Notebook, error) {
	plain := text
	if rest, ok := bytes.CutPrefix(text, []byte("\uFEFF")); ok {
		plain = append([]byte("   "), rest...) // keeps all offsets
	}
	tree, err := parse(plain)
	if err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if tree.Value.Kind() != '{' {
		return nil, errors.New("it is not a JSON object")
	}
	n := &Notebook{text: text, top: spanOf(tree)}
	top := membersOf(tree)
	n.style = styleOf(text, top)
	cells, ok := find(top, "cells")
	major := number(text, top, "nbformat")
	switch {
	case major != 0 && major != 4:
		return nil, fmt.Errorf("it is of nbformat %d: convert it with jupyter nbconvert --to notebook --nbformat 4 first", major)
	case !ok || text[cells.value.from] != '[':
		return nil, errors.New("it has no list of cells")
	}
	n.Minor = number(text, top, "nbformat_minor")
	n.Language = kernelLanguage(text, top)
	n.array = cells.value
	for _, cell := range elementsOf(cells.tree) {
		if cell.Value.Kind() != '{' {
			return nil, fmt.Errorf("cell %d is not an object", len(n.Cells))
		}
		n.Cells = append(n.Cells, parseCell(text, cell))
	}
	return n, nil
}

func parseCell(text []byte, tree hujson.Value) Cell {
	c := Cell{span: spanOf(tree), members: membersOf(tree)}
	c.Kind = stringOf(text, c.members, "cell_type")
	c.ID = stringOf(text, c.members, "id")
	if m, ok := find(c.members, "source"); ok {
		c.Source = joined(m.value.slice(text))
	}
	var meta struct {
		VSCode struct {
			LanguageID string `json:"languageId"`
		} `json:"vscode"`
	}
	if m, ok := find(c.members, "metadata"); ok && json.Unmarshal(m.value.slice(text), &meta) == nil {
		c.Language = meta.VSCode.LanguageID
	}
	if m, ok := find(c.members, "outputs"); ok {
		for _, o := range elementsOf(m.tree) {
			c.Outputs = append(c.Outputs, parseOutput(spanOf(o).slice(text)))
		}
	}
	return c
}

func parseOutput(text []byte) Output {
	var o struct {
		Type      string                     `json:"output_type"`
		Text      json.RawMessage            `json:"text"`
		Data      map[string]json.RawMessage `json:"data"`
		EName     string                     `json:"ename"`
		EValue    string                     `json:"evalue"`
		Traceback []string                   `json:"traceback"`
	}
	if json.Unmarshal(text, &o) != nil {
		return Output{Text: "[an output in an unknown format]"}
	}
	switch o.Type {
	case "error":
		words := o.EName + ": " + o.EValue
		if len(o.Traceback) > 0 {
			words = strings.Join(o.Traceback, "\n")
		}
		return Output{Text: plain(words), Error: true}
	case "stream":
		return Output{Text: plain(joined(o.Text))}
	}
	out := Output{}
	for _, kind := range []string{"image/png", "image/jpeg", "image/gif", "image/webp"} {
		if data := decodeImage(o.Data[kind]); data != nil {
			out.Image, out.Type = data, kind
			break
		}
	}
	for _, kind := range []string{"text/markdown", "text/plain", "application/json", "text/html"} {
		if words := joined(o.Data[kind]); words != "" {
			out.Text = plain(words)
			break
		}
	}
	return out
}

// kernelLanguage returns the language of a notebook's code.
func kernelLanguage(text []byte, top []member) string {
	m, ok := find(top, "metadata")
	if !ok {
		return ""
	}
	var meta struct {
		Kernel struct {
			Language string `json:"language"`
		} `json:"kernelspec"`
		Info struct {
			Name string `json:"name"`
		} `json:"language_info"`
	}
	if json.Unmarshal(m.value.slice(text), &meta) != nil {
		return ""
	}
	if meta.Info.Name != "" {
		return strings.ToLower(meta.Info.Name)
	}
	return strings.ToLower(meta.Kernel.Language)
}

// joined returns a text that nbformat allows as a string or as a list of lines.
func joined(raw json.RawMessage) string {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one
	}
	var lines []string
	if json.Unmarshal(raw, &lines) == nil {
		return strings.Join(lines, "")
	}
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw) // application/json
	}
	return ""
}
