package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/policy/sandbox"
	"aloft/internal/wire/agentv1"
)

const (
	maxGrepBytes = 30_000  // of text in one result
	maxGrepRunes = 500     // of a line
	maxGrepFound = 4 << 20 // bytes of output that are sorted here; rg sorts larger output
)

// Grep searches the contents of files.
func Grep(ws Workspace) Tool {
	return Tool{Name: "Grep", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := grep(ctx, ws, call.GetGrepToolCall().GetArgs())
		result := &agentv1.GrepResult{Result: &agentv1.GrepResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.GrepResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.GrepToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_GrepToolCall{GrepToolCall: done}}, text, err)
	}}
}

// entry is one result of grep: a line, a file name, or a file name with a
// count.
type entry struct {
	name  string
	line  int
	match bool // a match rather than a context line
	text  string
}

func grep(ctx context.Context, ws Workspace, args *agentv1.GrepArgs) (*agentv1.GrepSuccess, string, error) {
	confined, err := ws.Sandbox.Request(args.GetSandboxPolicy())
	if err != nil {
		return nil, "", err
	}
	if ws.confined = confined; confined != nil {
		ws.confined.Policy.Type = sandbox.ReadOnly
	}
	flags, err := grepFlags(ws, args)
	if err != nil {
		return nil, "", err
	}
	page, err := grepPage(args)
	if err != nil {
		return nil, "", err
	}
	order, err := grepOrder(args)
	if err != nil {
		return nil, "", err
	}
	hidden := grepHidden(ws, args)
	if order == "" {
		// rg searches in parallel only if it need not sort, so small results
		// are sorted here.
		var found []entry
		found, err = grepAll(ctx, ws, flags, args.GetOutputMode())
		if err == nil {
			for _, e := range found {
				if !hidden(e.name) && !page.add(e) {
					break
				}
			}
			return page.result(args)
		}
		if !errors.Is(err, errTooMuch) {
			return nil, "", grepError(err)
		}
		order = "--sort=path"
	}
	err = ripgrep(ctx, ws, ws.Dir, slices.Insert(slices.Clone(flags), 0, order), func(in *bufio.Reader) error {
		line := newGrepLine()
		for {
			e, err := readEntry(ctx, in, args.GetOutputMode(), line)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if hidden(e.name) {
				continue
			}
			if !page.add(e) {
				return errEnough
			}
		}
	})
	if err != nil {
		return nil, "", grepError(err)
	}
	return page.result(args)
}

// grepHidden returns a function that reports whether .cursorignore hides a file
// that rg names.
func grepHidden(ws Workspace, args *agentv1.GrepArgs) func(name string) bool {
	// rg does not follow symbolic links, except for the path that it starts
	// from.
	start := ws.Dir
	if path, err := ws.path(args.GetPath()); err == nil {
		start = path
	}
	hidden := file.NewUnseen(ws.Dir).In(start)
	return func(name string) bool {
		if !filepath.IsAbs(name) {
			name = filepath.Join(ws.Dir, name)
		}
		rel, err := filepath.Rel(start, name)
		return err == nil && hidden(rel, false)
	}
}

// grepError adds a hint for the model to rg's error message.
func grepError(err error) error {
	text := err.Error()
	switch {
	case strings.Contains(text, `literal '"\n"' not allowed`), strings.Contains(text, `literal "\n" is not allowed`), strings.Contains(text, `the literal "\n"`), strings.Contains(text, `"\n"`):
		return fmt.Errorf("%s\nSet multiline to match across lines", text)
	case strings.Contains(text, "regex parse error"):
		return fmt.Errorf("%s\nEscape special characters with a backslash to match them literally", text)
	case strings.Contains(text, "unrecognized file type"):
		return fmt.Errorf("%s; use glob instead, for example *.ext", text)
	}
	return err
}

// errTooMuch says that rg's output is too large to be sorted here.
var errTooMuch = errors.New("too much output")

// grepAll returns all results of rg, sorted by name, including results in hidden files.
func grepAll(ctx context.Context, ws Workspace, flags []string, mode agentv1.GrepArgs_OutputMode) ([]entry, error) {
	var found []entry
	size := 0
	err := ripgrep(ctx, ws, ws.Dir, flags, func(in *bufio.Reader) error {
		line := newGrepLine()
		for {
			e, err := readEntry(ctx, in, mode, line)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if size += len(e.name) + len(e.text) + 32; size > maxGrepFound {
				return errTooMuch
			}
			found = append(found, e)
		}
	})
	// Lines of one file are adjacent and in order already. Sort by path
	// component, as rg does, so that a folder's files stay together.
	slices.SortStableFunc(found, func(a, b entry) int { return comparePaths(a.name, b.name) })
	return found, err
}

func comparePaths(a, b string) int {
	for i := 0; i < min(len(a), len(b)); i++ {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

// grepFlags returns the command line of rg, without the sort order.
func grepFlags(ws Workspace, args *agentv1.GrepArgs) ([]string, error) {
	if args.GetPattern() == "" {
		return nil, errors.New("pattern is empty: give a regular expression; to list files use Glob")
	}
	if strings.ContainsRune(args.GetPattern()+args.GetGlob()+args.GetType(), 0) {
		return nil, errors.New("pattern contains a zero byte: write it as \\x00 in the pattern")
	}
	path, err := grepPath(ws, args.GetPath())
	if err != nil {
		return nil, err
	}
	flags := slices.Clone(ripgrepArgs)
	switch args.GetOutputMode() {
	case agentv1.GrepArgs_files_with_matches:
		flags = append(flags, "--files-with-matches")
	case agentv1.GrepArgs_count:
		flags = append(flags, "--count", "--with-filename")
	default:
		flags = append(flags, "--line-number", "--with-filename", "--no-heading")
		for _, c := range []struct {
			flag, name string
			n          *int32
		}{{"--context", "-C", args.Context}, {"--after-context", "-A", args.AfterContext}, {"--before-context", "-B", args.BeforeContext}} {
			switch {
			case c.n == nil:
			case *c.n < 0:
				return nil, fmt.Errorf("%s is %d: give a number of lines, at least 0", c.name, *c.n)
			default:
				flags = append(flags, c.flag+"="+strconv.Itoa(int(*c.n)))
			}
		}
	}
	if args.GetCaseInsensitive() {
		flags = append(flags, "--ignore-case")
	}
	if args.GetMultiline() {
		flags = append(flags, "--multiline", "--multiline-dotall")
	}
	if args.GetType() != "" {
		flags = append(flags, "--type", args.GetType())
	}
	flags = append(flags, globFlags(args)...)
	// Pass option and value as two arguments: in a single argument, the value would lose a
	// leading =.
	return append(flags, "--regexp", args.GetPattern(), "--", path), nil
}

// globFlags returns the flags that select the files matching a glob. In rg, --glob also
// finds files that git ignores, but --type does not, so the glob is defined as a type if
// possible.
func globFlags(args *agentv1.GrepArgs) []string {
	glob := args.GetGlob()
	switch {
	case glob == "":
		return nil
	case args.GetType() == "" && !strings.HasPrefix(glob, "!") && !strings.Contains(strings.TrimPrefix(glob, "**/"), "/"):
		return []string{"--type-add=wanted:" + strings.TrimPrefix(glob, "**/"), "--type=wanted"}
	}
	return []string{"--glob", glob}
}

// grepPath returns the path to search, in the form for rg: beginning with ./
// and relative to the workspace if it is inside, and absolute otherwise.
func grepPath(ws Workspace, name string) (string, error) {
	if name == "" {
		return "./", nil
	}
	path, err := ws.path(name)
	if err != nil {
		return "", err
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", file.Explain(path, err)
	}
	if !st.IsDir() {
		if err := greppable(path); err != nil {
			return "", err
		}
	}
	if rel, err := filepath.Rel(ws.Dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return "./" + rel, nil
	}
	return path, nil
}

// greppable refuses files that would block rg, such as pipes, or about which rg
// reports too little, such as binary files.
func greppable(path string) error {
	f, _, err := file.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, 8000)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return file.Explain(path, err)
	}
	if !isText(start[:n]) {
		return fmt.Errorf("%s is a binary file: inspect it with strings or xxd in Shell", path)
	}
	return nil
}

// grepOrder returns rg's flag for the order of files. It is empty for the
// default order, by name.
func grepOrder(args *agentv1.GrepArgs) (string, error) {
	flag := "--sort="
	switch args.GetSort() {
	case "", "path":
		if args.SortAscending == nil || args.GetSortAscending() {
			return "", nil
		}
		return "--sortr=path", nil
	case "modified", "accessed", "created":
		if !args.GetSortAscending() {
			flag = "--sortr="
		}
		return flag + args.GetSort(), nil
	}
	return "", fmt.Errorf("sort is %q: use path, modified, accessed or created", args.GetSort())
}

// newGrepLine returns a buffer for [readEntry], large enough for the part of a line that
// is shown.
func newGrepLine() []byte { return make([]byte, 0, 4*maxGrepRunes+16) }

// readEntry reads one result from rg's output. It overwrites line, a buffer from
// [newGrepLine].
func readEntry(ctx context.Context, in *bufio.Reader, mode agentv1.GrepArgs_OutputMode, line []byte) (entry, error) {
	name, err := readName(in)
	if err != nil || mode == agentv1.GrepArgs_files_with_matches {
		return entry{name: name, match: true}, err
	}
	raw, err := boundedLine(ctx, in, line)
	if err != nil {
		return entry{}, err
	}
	e := entry{name: name, match: true}
	if mode == agentv1.GrepArgs_count {
		e.text = strings.TrimRight(string(raw), "\r\n")
		return e, nil
	}
	end := 0
	for end < len(raw) && raw[end] >= '0' && raw[end] <= '9' {
		end++
	}
	e.line, _ = strconv.Atoi(string(raw[:end]))
	if end < len(raw) {
		e.match = raw[end] == ':'
		end++
	}
	e.text = clipRunes(strings.TrimRight(valid(string(raw[end:])), "\r\n"), maxGrepRunes)
	return e, nil
}

// clipRunes returns at most n characters of text, with a mark if text was longer.
func clipRunes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for i := range text {
		if n == 0 {
			return text[:i] + " [… cut]"
		}
		n--
	}
	return text
}
