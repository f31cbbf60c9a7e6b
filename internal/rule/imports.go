package rule

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Limits of the imports of one rule.
const (
	maxImportDepth = 5  // maximum nesting of imports
	maxImports     = 50 // lines that name a file, whether the file exists or not
)

// importable are the extensions of files that a rule may import. Others, such
// as .env, may contain secrets.
var importable = []string{".md", ".mdc", ".markdown", ".txt"}

// Expand replaces the lines @path and @import path of a rule's text by the files that
// they name. A path is relative to the importing file or, with a leading slash, to the
// repository's root, which is a folder below the workspace. read returns the text of a
// file below the workspace, or the reason why there is none; missing means that the file
// does not exist.
//
// Each file is imported once; Expand removes further lines that name it. It also removes
// a line if skip returns true for its file, because the model receives that file anyway.
// If the rule becomes too long or empty, ok is false.
func (r *Rule) Expand(repository string, skip func(file string) bool, read func(file string) (text string, missing bool, err error)) (left []LeftOut, ok bool) {
	e := expansion{repository: repository, skip: skip, read: read, rule: r}
	text := strings.TrimSpace(e.expand(r.Text, r.Source, 0))
	if len(text) > MaxText {
		return append(e.left, LeftOut{Source: r.Source, Why: "with its imports it has more than " + strconv.Itoa(MaxText) + " bytes"}), false
	}
	r.Text = text
	return e.left, text != ""
}

type expansion struct {
	repository string
	skip       func(string) bool
	read       func(string) (string, bool, error)
	rule       *Rule
	tried      int // lines that name a file
	left       []LeftOut
}

func (e *expansion) expand(text, file string, level int) string {
	var b strings.Builder
	fence := ""
	for l := range strings.Lines(text) {
		trimmed := strings.TrimSpace(l)
		if mark := fenceOf(trimmed); mark != "" {
			switch {
			case fence == "":
				fence = mark
			case strings.HasPrefix(mark, fence) && trimmed == mark:
				fence = ""
			}
		}
		target, clear := importOf(trimmed)
		if target == "" || fence != "" {
			e.write(&b, l)
			continue
		}
		at := path.Join(path.Dir(file), target)
		if strings.HasPrefix(target, "/") {
			at = path.Join(e.repository, target)
		}
		if at == e.rule.Source || slices.Contains(e.rule.Imports, at) || e.skip(at) {
			continue // the file is imported already
		}
		imported, why := e.take(target, at, clear, level)
		switch {
		case why != "":
			e.left = append(e.left, LeftOut{Source: e.rule.Source, Why: fmt.Sprintf("the import of %.200s: %s", target, why)})
			e.write(&b, l)
		case imported == "":
			e.write(&b, l)
		default:
			e.write(&b, imported+"\n")
		}
	}
	return b.String()
}

// write adds text until the rule reaches its maximum length.
func (e *expansion) write(b *strings.Builder, text string) {
	if b.Len() <= MaxText {
		b.WriteString(text)
	}
}

// take returns the text of the file that a line names, or why the file is not imported.
// Both are "" for a line that stays unchanged.
func (e *expansion) take(target, at string, clear bool, level int) (text, why string) {
	switch {
	case strings.HasPrefix(target, "~") || at == ".." || strings.HasPrefix(at, "../") || e.repository != "" && !strings.HasPrefix(at, e.repository+"/"):
		return "", "it is outside the repository"
	case !slices.Contains(importable, strings.ToLower(path.Ext(at))) || slices.Contains(strings.Split(at, "/"), ".git"):
		if !clear {
			return "", ""
		}
		return "", "only " + strings.Join(importable, ", ") + " files can be imported"
	case e.tried == maxImports:
		return "", ""
	case level == maxImportDepth:
		return "", fmt.Sprintf("imports are nested more than %d deep", maxImportDepth)
	}
	if e.tried++; e.tried == maxImports {
		return "", fmt.Sprintf("there are more than %d imports", maxImports-1)
	}
	text, missing, err := e.read(at)
	switch {
	case missing && !clear:
		return "", ""
	case missing:
		return "", "there is no such file"
	case err != nil:
		return "", err.Error()
	}
	imported, complaints, ok := Parse(at, "", path.Ext(at) == ".mdc", text)
	if !ok {
		return "", complaints[len(complaints)-1]
	}
	e.rule.Imports = append(e.rule.Imports, at)
	return e.expand(imported.Text, at, level+1), ""
}

// importOf returns the path that a line imports, or "". clear means that the line is
// certainly an import.
func importOf(l string) (target string, clear bool) {
	l, ok := strings.CutPrefix(strings.TrimPrefix(l, "- "), "@")
	if !ok {
		return "", false
	}
	if rest, ok := strings.CutPrefix(l, "import "); ok {
		l, clear = strings.Trim(strings.TrimSpace(rest), `"'`), true
	}
	if l == "" || len(l) > maxSource || strings.ContainsAny(l, " \t@\\") {
		return "", false
	}
	return l, clear || strings.Contains(l, "/") && path.Ext(l) != ""
}

// fenceOf returns the mark if a line begins or ends a code block, or "".
func fenceOf(l string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(l) - len(strings.TrimLeft(l, c)); n >= 3 {
			return strings.Repeat(c, n)
		}
	}
	return ""
}
