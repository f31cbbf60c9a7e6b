package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"aloft/internal/guest/file"
	"aloft/internal/wire/agentv1"
)

const (
	maxLsEntries   = 800 // in one result
	maxLsDepth     = 20
	defaultLsDepth = 3
)

// Ls lists a folder as a tree.
func Ls(ws Workspace) Tool {
	return Tool{Name: "LS", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := ls(ctx, ws, call.GetLsToolCall().GetArgs())
		result := &agentv1.LsResult{Result: &agentv1.LsResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.LsResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.LsToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_LsToolCall{LsToolCall: done}}, text, err)
	}}
}

func ls(ctx context.Context, ws Workspace, args *agentv1.LsArgs) (*agentv1.LsSuccess, string, error) {
	if args == nil {
		return nil, "", errNoArguments
	}
	dir, depth := ws.Dir, defaultLsDepth
	if args.GetPath() != "" {
		var err error
		if dir, err = ws.path(args.GetPath()); err != nil {
			return nil, "", err
		}
	}
	if args.Depth != nil {
		if depth = int(args.GetDepth()); depth < 1 {
			return nil, "", fmt.Errorf("depth is %d: give a number of levels, at least 1", depth)
		}
		depth = min(depth, maxLsDepth)
	}
	switch st, err := os.Stat(dir); {
	case err != nil:
		return nil, "", file.Explain(dir, err)
	case !st.IsDir():
		return nil, "", fmt.Errorf("%s is a file: use Read to see its contents", dir)
	}
	for _, pattern := range args.GetIgnore() {
		if !doublestar.ValidatePattern(pattern) {
			return nil, "", fmt.Errorf("ignore has a malformed pattern, %q", pattern)
		}
	}
	hidden := file.NewUnseen(ws.Dir).In(dir)
	skip := func(name string, folder bool) bool { return lsIgnored(name, args) || hidden(name, folder) }
	root, err := lsTree(ctx, ws, dir, args.GetAll(), skip)
	if err != nil {
		return nil, "", err
	}
	root.complete(dir, "", depth, skip)
	success, text := root.list(dir, depth)
	return success, text, nil
}

// folder is one folder of the tree.
type folder struct {
	folders map[string]*folder
	files   map[string]string // file names; a symbolic link maps to its target
	below   int               // number of files in the folder and in all folders below it
}

func newFolder() *folder {
	return &folder{folders: map[string]*folder{}, files: map[string]string{}}
}

// lsSkip reports whether to leave out a path, which is relative to the listed
// folder.
type lsSkip func(name string, folder bool) bool

// lsTree returns the tree of the files that git does not ignore, or of all
// files.
func lsTree(ctx context.Context, ws Workspace, dir string, all bool, skip lsSkip) (*folder, error) {
	root, found := newFolder(), 0
	flags := append(slices.Clone(ripgrepArgs), "--files")
	if all {
		flags = append(flags, "--no-ignore")
	}
	err := ripgrep(ctx, ws, dir, append(flags, "./"), func(in *bufio.Reader) error {
		for {
			name, err := readName(in)
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if found++; found > maxGlobFound {
				return errEnough
			}
			root.add(name, skip)
		}
	})
	return root, err
}

func (f *folder) add(name string, skip lsSkip) {
	parts := strings.Split(name, "/")
	for i := range parts {
		if skip(strings.Join(parts[:i+1], "/"), i+1 < len(parts)) {
			return
		}
	}
	for _, part := range parts[:len(parts)-1] {
		f.below++
		next := f.folders[part]
		if next == nil {
			next = newFolder()
			f.folders[part] = next
		}
		f = next
	}
	f.below++
	f.files[parts[len(parts)-1]] = ""
}

func lsIgnored(name string, args *agentv1.LsArgs) bool {
	for _, pattern := range args.GetIgnore() {
		pattern = strings.TrimSuffix(pattern, "/")
		if doublestar.MatchUnvalidated(pattern, path.Base(name)) || doublestar.MatchUnvalidated(pattern, name) {
			return true
		}
	}
	return false
}

// complete adds the entries that rg does not list: symbolic links and empty
// folders.
func (f *folder) complete(dir, rel string, depth int, skip lsSkip) {
	entries, err := os.ReadDir(dir)
	if err != nil || depth == 0 {
		return
	}
	for _, e := range entries {
		name := path.Join(rel, e.Name())
		if e.Name() == ".git" || skip(name, e.IsDir()) {
			continue
		}
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			if target, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
				f.files[e.Name()] = target
			}
		case e.IsDir() && f.folders[e.Name()] != nil:
			f.folders[e.Name()].complete(filepath.Join(dir, e.Name()), name, depth-1, skip)
		case e.IsDir():
			if inside, err := os.ReadDir(filepath.Join(dir, e.Name())); err == nil && len(inside) == 0 {
				f.folders[e.Name()] = newFolder()
			}
		}
	}
}

// entries returns how many lines the tree takes down to a depth. It stops
// counting at bound.
func (f *folder) entries(depth, bound int) int {
	n := len(f.files) + len(f.folders)
	for _, sub := range f.folders {
		if depth <= 1 || n > bound {
			break
		}
		n += sub.entries(depth-1, bound-n)
	}
	return n
}

// list describes the tree for programs and as text for the model, down to the
// requested depth or as far as it fits.
func (f *folder) list(dir string, depth int) (*agentv1.LsSuccess, string) {
	success := &agentv1.LsSuccess{Path: valid(dir)}
	asked := depth
	for depth > 1 && f.entries(depth, maxLsEntries) > maxLsEntries {
		depth--
	}
	var b strings.Builder
	b.WriteString(oneLine(valid(dir)) + "/\n")
	left := f.write(&b, success, dir, "", 1, depth)
	switch {
	case len(success.GetEntries()) == 0:
		b.WriteString("[empty, or everything in it is ignored by git]\n")
	case left > 0:
		fmt.Fprintf(&b, "[%d more; list one of its folders, or leave some out with ignore]\n", left)
	case depth < asked:
		fmt.Fprintf(&b, "[shown to depth %d because the whole tree is too long; list one of its folders to see more]\n", depth)
	}
	success.Truncated = left > 0 || depth < asked
	return success, b.String()
}

// write writes a folder's entries, and returns how many did not fit.
func (f *folder) write(b *strings.Builder, success *agentv1.LsSuccess, dir, rel string, level, depth int) (left int) {
	var names []string
	for name := range f.files {
		names = append(names, name)
	}
	for name := range f.folders {
		names = append(names, name+"/")
	}
	slices.Sort(names)
	for _, name := range names {
		if len(success.GetEntries()) >= maxLsEntries {
			left++
			continue
		}
		at := path.Join(rel, name)
		e := &agentv1.LsEntry{Path: valid(at)}
		success.Entries = append(success.Entries, e)
		line := strings.Repeat("  ", level) + oneLine(valid(name))
		folderName, isFolder := strings.CutSuffix(name, "/")
		switch {
		case isFolder:
			e.Path += "/"
			sub := f.folders[folderName]
			if level < depth {
				b.WriteString(line + "\n")
				left += sub.write(b, success, dir, at, level+1, depth)
				continue
			}
			e.FilesBelow = int32(sub.below)
			line += " (" + plural(sub.below, "file") + ")"
		case f.files[name] != "":
			e.Target = valid(f.files[name])
			line += " -> " + oneLine(e.GetTarget())
		default:
			if st, err := os.Lstat(filepath.Join(dir, at)); err == nil {
				e.SizeBytes = float64(st.Size())
				line += " (" + bytesText(st.Size()) + ")"
			}
		}
		b.WriteString(line + "\n")
	}
	return left
}

// bytesText formats a size with a unit that keeps it short.
func bytesText(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%d KB", n/1000)
	}
	return fmt.Sprintf("%d MB", n/1_000_000)
}
