package search

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// symbol is a name that a file defines.
type symbol struct {
	name string
	line int // counted from 1
}

const (
	maxSymbols    = 5000 // in one file
	maxDefinition = 400  // maximum length of a line that is searched, in bytes
)

// word matches an identifier in the patterns below.
const word = `([A-Za-z_$][\w$]*)`

// definitions maps file extensions to patterns for lines that define something.
// They are used without ctags, and miss unusually formatted definitions.
var definitions = func() map[string]*regexp.Regexp {
	of := make(map[string]*regexp.Regexp)
	for endings, patterns := range map[string][]string{
		"go":     {`^func\s+(?:\([^)]*\)\s*)?` + word, `^(?:type|var|const)\s+` + word, `^\t([A-Z]\w*)(?:\s+[\w.\[\]*]+)?\s+=\s`, `^\t([A-Z]\w*)\s+(?:struct|interface)\s*\{`},
		"py pyi": {`^\s*(?:async\s+)?(?:def|class)\s+` + word, `^` + word + `\s*(?::[^=]+)?=[^=]`},
		"js jsx mjs cjs ts tsx mts cts vue svelte": {
			`^\s*(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?(?:function\*?|class|interface|type|enum|namespace)\s+` + word,
			`^(?:export\s+)?(?:const|let|var)\s+` + word,
			`^\s+(?:(?:public|private|protected|static|async|readonly|override|get|set)\s+)*` + word + `\s*(?:<[^>]*>)?\([^)]*\)\s*(?::[^{]+)?\{\s*$`},
		"java kt scala cs groovy": {
			`^\s*(?:(?:public|private|protected|internal|static|final|abstract|sealed|data|open|override|partial|async|virtual)\s+)*(?:class|interface|enum|record|object|trait|struct|fun|def)\s+` + word,
			`^\s+(?:(?:public|private|protected|internal|static|final|abstract|synchronized|async|virtual|override)\s+)+[\w<>\[\],.? ]+\s` + word + `\s*\(`},
		"c h cc cpp cxx hh hpp m mm": {
			`^(?:[A-Za-z_][\w:<>,*&\s]*[\s*&])` + `((?:[A-Za-z_]\w*::)*~?[A-Za-z_]\w*)` + `\s*\([^;]*$`,
			`^\s*(?:typedef\s+)?(?:class|struct|union|enum)\s+` + word, `^#\s*define\s+` + word},
		"rs":          {`^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+)?(?:unsafe\s+)?(?:const\s+)?(?:fn|struct|enum|trait|type|mod|union|macro_rules!)\s+` + word, `^\s*(?:pub(?:\([^)]*\))?\s+)?(?:const|static)\s+(?:mut\s+)?` + word},
		"rb":          {`^\s*(?:def|class|module)\s+(?:self\.)?` + word},
		"php":         {`^\s*(?:(?:public|private|protected|static|final|abstract)\s+)*(?:function|class|interface|trait|enum)\s+&?` + word},
		"swift":       {`^\s*(?:(?:public|private|internal|open|final|static|override|fileprivate)\s+)*(?:func|class|struct|enum|protocol|extension|typealias)\s+` + word},
		"sh bash zsh": {`^\s*(?:function\s+)?` + word + `\s*\(\)`, `^\s*function\s+` + word},
		"lua":         {`^\s*(?:local\s+)?function\s+([\w.:]+)`},
		"ex exs":      {`^\s*(?:def|defp|defmodule|defmacro)\s+([\w.]+)`},
		"pl pm":       {`^\s*sub\s+` + word, `^package\s+([\w:]+)`},
		"proto":       {`^\s*(?:message|service|enum|rpc)\s+` + word},
		"sql":         {`(?i)^\s*create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:unique\s+)?(?:table|view|function|procedure|index|trigger|type)\s+(?:if\s+not\s+exists\s+)?["` + "`" + `]?([\w.]+)`},
		"tf hcl":      {`^(?:resource|data|module|variable|output)\s+(?:"[^"]*"\s+)?"([^"]+)"`},
		"md markdown": {`^#{1,4}\s+(.+)$`},
		"s":           {`^TEXT\s+[^(]*?(\w+)\(SB\)`, `^(\w+):`},
		"mk":          {`^([\w.-]+):`},
	} {
		all := regexp.MustCompile(strings.Join(patterns, "|"))
		for ending := range strings.FieldsSeq(endings) {
			of[ending] = all
		}
	}
	return of
}()

// plainly are file extensions of languages in which a definition starts with a keyword.
// Patterns find such definitions as well as ctags does, in a third of the time.
var plainly = map[string]bool{"go": true, "py": true, "pyi": true, "rs": true, "rb": true, "sh": true, "bash": true, "proto": true, "md": true, "markdown": true, "tf": true}

// ending returns the lower-case file extension, which identifies the language.
func ending(name string) string {
	return strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
}

// findSymbols finds definitions by regular expressions.
func findSymbols(name string, text []byte) []symbol {
	end := ending(name)
	find := definitions[end]
	if find == nil {
		return nil
	}
	var found []symbol
	for line := 1; len(text) > 0 && len(found) < maxSymbols; line++ {
		here := text
		if n := bytes.IndexByte(text, '\n'); n >= 0 {
			here, text = text[:n], text[n+1:]
		} else {
			text = nil
		}
		if len(here) < 4 || len(here) > maxDefinition || !mayDefine(end, here) {
			continue
		}
		at := find.FindSubmatchIndex(here)
		for g := 2; g < len(at); g += 2 {
			if at[g] >= 0 && at[g+1]-at[g] <= maxWhole {
				found = append(found, symbol{string(here[at[g]:at[g+1]]), line})
				break
			}
		}
	}
	return found
}

// mayDefine is a cheap check that excludes most lines without a definition.
func mayDefine(ending string, line []byte) bool {
	switch ending {
	case "go":
		switch line[0] {
		case 'f', 't', 'v', 'c':
			return true
		case '\t':
			return line[1] >= 'A' && line[1] <= 'Z'
		}
		return false
	case "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "md", "markdown":
		return line[0] == '#' || line[0] >= 'A' || line[0] == ' ' || line[0] == '\t'
	case "s":
		return line[0] > ' '
	}
	line = bytes.TrimLeft(line, " \t")
	return len(line) > 0 && line[0] >= 'A' && line[0] != '}' && line[0] != '{'
}

// plain are ctags kinds that are not worth indexing as symbols.
var plain = map[string]bool{
	"package": true, "packageName": true, "unknown": true, "anonMember": true, "local": true, "parameter": true,
	"import": true, "header": true, "member": true, "field": true, "receiver": true, "namelist": true,
}

// errNoCtags says that there is no usable ctags.
var errNoCtags = errors.New("universal-ctags is not installed")

const (
	ctagsTime = 30 * time.Second // for one batch of files
	maxTags   = 32 << 20         // bytes of its output for one batch
)

// tags runs ctags, given its path, and returns the symbols of files in dir.
func tags(ctx context.Context, ctags, dir string, files []string) (map[string][]symbol, error) {
	ctx, stop := context.WithTimeout(ctx, ctagsTime)
	defer stop()
	cmd := exec.CommandContext(ctx, ctags, "--options=NONE", "--links=no", "-x", `--_xformat=%{line} %{kind} %{name}`+"\t"+`%{input}`, "--sort=no", "-L", "-")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var names bytes.Buffer
	for _, f := range files {
		if !strings.ContainsAny(f, "\n\t\r") {
			names.WriteString("./" + f + "\n")
		}
	}
	cmd.Stdin = &names
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCtags, err)
	}
	found, readErr := readTags(out)
	if readErr != nil {
		stop()
	}
	if err := errors.Join(readErr, cmd.Wait()); err != nil {
		return nil, fmt.Errorf("ctags: %w", err)
	}
	return found, nil
}

// readTags parses the output of ctags: line, kind and name separated by spaces,
// a tab, and the file. It skips lines in other formats.
func readTags(from io.Reader) (map[string][]symbol, error) {
	found := make(map[string][]symbol)
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 64<<10), 1<<20)
	size := 0
	for in.Scan() {
		if size += len(in.Bytes()); size > maxTags {
			return nil, errors.New("too much output")
		}
		what, file, ok := bytes.Cut(in.Bytes(), []byte("\t"))
		number, rest, ok2 := bytes.Cut(what, []byte(" "))
		kind, name, ok3 := bytes.Cut(rest, []byte(" "))
		line, err := strconv.Atoi(string(number))
		if !ok || !ok2 || !ok3 || err != nil || line < 1 || len(name) == 0 || len(name) > maxWhole || plain[string(kind)] {
			continue
		}
		key := string(bytes.TrimPrefix(file, []byte("./")))
		if len(found[key]) < maxSymbols {
			found[key] = append(found[key], symbol{string(name), line})
		}
	}
	return found, in.Err()
}
