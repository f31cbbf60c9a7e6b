package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/sys/unix"

	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

const (
	maxGlobFiles = 200     // in one result
	maxGlobFound = 1 << 20 // maximum number of files that are considered
)

// Glob finds files by name.
func Glob(ws Workspace) Tool {
	return Tool{Name: "Glob", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := glob(ctx, ws, call.GetGlobToolCall().GetArgs())
		result := &agentv1.GlobToolResult{Result: &agentv1.GlobToolResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.GlobToolResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.GlobToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_GlobToolCall{GlobToolCall: done}}, text, err)
	}}
}

func glob(ctx context.Context, ws Workspace, args *agentv1.GlobToolArgs) (*agentv1.GlobSuccess, string, error) {
	dir, match, err := globPlan(ws, args)
	if err != nil {
		return nil, "", err
	}
	var names []string
	total := 0
	hidden := file.NewUnseen(ws.Dir).In(dir)
	// Match the patterns here: a glob passed to rg would also match files that
	// git ignores.
	err = ripgrep(ctx, ws, dir, append(slices.Clone(ripgrepArgs), "--files", "./"), func(in *bufio.Reader) error {
		for {
			name, err := readName(in)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if !match(name) || hidden(name, false) {
				continue
			}
			if total++; len(names) < maxGlobFound {
				names = append(names, name)
			}
		}
	})
	if err != nil {
		return nil, "", err
	}
	names = newest(dir, names, maxGlobFiles)
	for i, n := range names {
		names[i] = oneLine(n)
	}
	success := &agentv1.GlobSuccess{TargetDirectory: valid(dir), Files: names, TotalFiles: int32(total)}
	return success, globText(args.GetGlobPattern(), dir, names, total), nil
}

// globPlan returns the folder to search and the function that matches names.
func globPlan(ws Workspace, args *agentv1.GlobToolArgs) (dir string, match func(name string) bool, err error) {
	pattern := args.GetGlobPattern()
	if pattern == "" {
		return "", nil, errors.New("glob_pattern is empty: give a pattern such as *.go or src/**/*.ts")
	}
	if dir = ws.Dir; args.GetTargetDirectory() != "" {
		if dir, err = ws.path(args.GetTargetDirectory()); err != nil {
			return "", nil, err
		}
	}
	if filepath.IsAbs(pattern) {
		inside, ok := strings.CutPrefix(pattern, strings.TrimSuffix(dir, "/")+"/")
		if !ok {
			return "", nil, fmt.Errorf("glob_pattern %s is absolute and not in %s: name the folder in target_directory and give the pattern relative to it", pattern, dir)
		}
		pattern = inside
	}
	switch st, err := os.Stat(dir); {
	case err != nil:
		return "", nil, file.Explain(dir, err)
	case !st.IsDir():
		return "", nil, fmt.Errorf("target_directory %s is a file: give a folder", dir)
	}
	pattern = strings.TrimPrefix(pattern, "./")
	if !doublestar.ValidatePattern(pattern) {
		return "", nil, fmt.Errorf("glob_pattern %q is malformed: look for an unclosed [ or {; escape a character with a backslash to match it literally", args.GetGlobPattern())
	}
	last := strings.TrimPrefix(pattern, "**/")
	if !strings.Contains(last, "/") && last != "**" {
		return dir, func(name string) bool { return doublestar.MatchUnvalidated(last, path.Base(name)) }, nil
	}
	whole := "**/" + last
	return dir, func(name string) bool { return doublestar.MatchUnvalidated(whole, name) }, nil
}

// newest returns the most recently modified names, newest first, at most limit. Names
// with the same time are sorted by name.
func newest(dir string, names []string, limit int) []string {
	type dated struct {
		name string
		time int64
	}
	all := make([]dated, len(names))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	const share = 2048
	var wg sync.WaitGroup
	free := make(chan struct{}, 4)
	for from := 0; from < len(names); from += share {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			for i := from; i < min(from+share, len(names)); i++ {
				var st unix.Statx_t
				all[i].name = names[i]
				if unix.Statx(fd, names[i], unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_MTIME, &st) == nil {
					all[i].time = st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec)
				}
			}
		})
	}
	wg.Wait()
	slices.SortFunc(all, func(a, b dated) int {
		switch {
		case a.time > b.time:
			return -1
		case a.time < b.time:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	names = names[:0]
	for _, d := range all[:min(limit, len(all))] {
		names = append(names, d.name)
	}
	return names
}

func globText(pattern, dir string, names []string, total int) string {
	if total == 0 {
		return valid(fmt.Sprintf("No file in %s matches %s. Files that git ignores are not searched.", dir, pattern))
	}
	text := strings.Join(names, "\n") + "\n"
	if total > len(names) {
		text += fmt.Sprintf("[the %d newest of %d files; narrow the pattern to see the others]\n", len(names), total)
	}
	return text
}

// oneLine returns a file name that takes exactly one line. A name with a line
// break or invalid UTF-8 is quoted, as in Go or in bash's $'…'.
func oneLine(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == '\uFFFD' || r == 0x7f }) {
		return "$'" + strings.Trim(fmt.Sprintf("%q", name), `"`) + "'"
	}
	return name
}
