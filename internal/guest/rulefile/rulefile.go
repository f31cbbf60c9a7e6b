// Package rulefile finds and reads the files in which repositories tell agents how to
// work. It treats these files as hostile: it limits their number and size, follows no
// link out of the repository, never blocks on a file that is not regular, and reports
// which files it leaves out.
package rulefile

import (
	"cmp"
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
	"syscall"

	"aloft/internal/rule"
)

// Limits on one read of the rules.
const (
	maxFolders = 100
	maxEntries = 20_000 // names in rule folders
	maxDepth   = 8      // nesting of rule folders
)

// Folders are the rule folders, relative to a folder of the repository. Files in them
// that have front matter are rules.
var Folders = []string{".cursor/rules", ".aloft/rules"}

// Skills lists the folders that contain one folder per skill; Commands lists the folders
// that contain commands.
var (
	Skills   = []string{".cursor/skills", ".aloft/skills", ".agents/skills", ".claude/skills", ".codex/skills"}
	Commands = []string{".cursor/commands", ".aloft/commands", ".claude/commands"}
)

// Files are the other files with rules, in the order in which a model gets
// them.
var Files = []string{"AGENTS.md", "CLAUDE.md", ".cursorrules"}

// Options say which files count.
type Options struct {
	Workspace string // absolute
	// AgentFiles selects AGENTS.md and CLAUDE.md.
	AgentFiles bool
	// CloudNotes selects the sections of these files that are only for
	// background agents.
	CloudNotes bool
	// Check returns why a file is hidden from the agent, or nil if it is not. The file is
	// given by its absolute path. Check itself may be nil.
	Check func(file string) error
}

// Read reads the rules of the folders.
func Read(ctx context.Context, o Options, folders []rule.Folder) (rule.Set, error) {
	r := &reader{ctx: ctx, options: o, room: rule.MaxTotal}
	defer r.close()
	for i, f := range folders {
		if i == maxFolders {
			r.leave(f.Path, "the rules of %d more folders are not read", len(folders)-maxFolders)
			break
		}
		r.folder(rule.Folder{Repository: clean(f.Repository), Path: clean(f.Path)})
		if err := context.Cause(ctx); err != nil {
			return rule.Set{}, err
		}
	}
	if r.more > 0 {
		r.left = append(r.left, rule.LeftOut{Why: fmt.Sprintf("%d more problems with files of rules", r.more)})
	}
	return rule.Set{Rules: r.rules, LeftOut: r.left}, nil
}

func clean(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

type reader struct {
	ctx        context.Context
	options    Options
	repository string
	root       *os.Root // root of the repository
	entries    int
	room       int // how many more bytes may be read
	rules      []rule.Rule
	left       []rule.LeftOut
	more       int // number of omitted files that left does not list
}

func (r *reader) close() {
	if r.root != nil {
		_ = r.root.Close() // only read
	}
}

func (r *reader) leave(source, format string, args ...any) {
	if len(r.left) == rule.MaxLeftOut {
		r.more++
		return
	}
	r.left = append(r.left, rule.LeftOut{Source: source, Why: fmt.Sprintf(format, args...)})
}

// open opens the root of the repository. It returns false if there is none.
func (r *reader) open(repository string) bool {
	if r.root != nil && r.repository == repository {
		return true
	}
	r.close()
	r.root = nil
	root, err := os.OpenRoot(filepath.Join(r.options.Workspace, repository))
	if err != nil {
		return false
	}
	r.root, r.repository = root, repository
	return true
}

// folder reads the rules of one folder.
func (r *reader) folder(f rule.Folder) {
	if !r.open(f.Repository) {
		return
	}
	for _, name := range Files {
		if name == ".cursorrules" || r.options.AgentFiles { // these come first, so that many rules cannot displace them
			r.file(f, path.Join(f.Path, name), r.plain)
		}
	}
	for _, folder := range Folders {
		r.all(f, folder, func(name string) bool {
			return path.Ext(name) == ".mdc" || path.Ext(name) == ".md" && folder == ".aloft/rules"
		}, parseRule)
	}
	for _, folder := range Skills {
		r.all(f, folder, isSkill, rule.ParseSkill)
	}
	for _, folder := range Commands {
		r.all(f, folder, isMarkdown, rule.ParseCommand)
	}
	r.plugins(f)
}

func isSkill(name string) bool    { return path.Base(name) == "SKILL.md" }
func isMarkdown(name string) bool { return path.Ext(name) == ".md" }

// parse parses a file.
type parse = func(source, folder, text string) (rule.Rule, []string, bool)

func parseRule(source, folder, text string) (rule.Rule, []string, bool) {
	return rule.Parse(source, folder, true, text)
}

// plain parses a file without front matter.
func (r *reader) plain(source, folder, text string) (rule.Rule, []string, bool) {
	if !r.options.CloudNotes {
		text = withoutCloudNotes(text)
	}
	return rule.Parse(source, folder, false, text)
}

// all reads the files below a folder for which keep returns true.
func (r *reader) all(f rule.Folder, folder string, keep func(name string) bool, as parse) {
	var names []string
	r.walk(path.Join(f.Path, folder), keep, 0, &names)
	slices.Sort(names)
	for i, name := range names {
		if len(r.rules) == rule.MaxRules {
			r.leave(path.Join(f.Path, folder), "there are more than %d rules; %d files are not read", rule.MaxRules, len(names)-i)
			return
		}
		r.file(f, name, as)
	}
}

// below converts a path relative to the workspace to a path relative to the repository.
func (r *reader) below(name string) string {
	if r.repository == "" {
		return cmp.Or(name, ".")
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, r.repository), "/"), ".")
}

// walk collects the files with rules in a folder and its subfolders. The folder
// itself may be a link that stays in the repository; walk follows no links
// below it.
func (r *reader) walk(folder string, keep func(name string) bool, level int, names *[]string) {
	d, err := r.root.OpenFile(r.below(folder), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return
	case err != nil:
		r.leave(folder, "%s", r.reason(folder, err))
		return
	}
	defer d.Close()
	var folders []string
	for r.ctx.Err() == nil {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if r.entries++; r.entries > maxEntries {
				r.leave(folder, "there are more than %d files; the others are not read", maxEntries)
				return
			}
			name := path.Join(folder, e.Name())
			switch {
			case e.IsDir():
				folders = append(folders, name)
			case keep(name):
				*names = append(*names, name)
			}
		}
		if err != nil || len(entries) == 0 {
			break
		}
	}
	if len(folders) > 0 && level == maxDepth {
		r.leave(folder, "the folders in it are nested too deep and are not read")
		return
	}
	slices.Sort(folders)
	for _, f := range folders {
		if r.entries > maxEntries || r.ctx.Err() != nil {
			return
		}
		r.walk(f, keep, level+1, names)
	}
}

// file reads one file with rules, if it exists.
func (r *reader) file(of rule.Folder, name string, as parse) {
	if len(r.rules) == rule.MaxRules || r.ctx.Err() != nil {
		return
	}
	text, missing, err := r.read(name)
	if missing {
		return
	}
	if err != nil {
		r.leave(name, "%v", err)
		return
	}
	parsed, complaints, ok := as(name, of.Path, text)
	for _, c := range complaints {
		r.leave(name, "%s", c)
	}
	if !ok || slices.ContainsFunc(r.rules, func(o rule.Rule) bool {
		return parsed.Kind == rule.Plain && o.Kind == rule.Plain && o.Text == parsed.Text && o.When == parsed.When && o.Folder == parsed.Folder
	}) {
		return // AGENTS.md and CLAUDE.md are often the same file
	}
	parsed.Nested = of.Path != of.Repository
	if parsed.Kind == rule.Skill {
		r.skill(parsed)
		return
	}
	left, ok := parsed.Expand(of.Repository, func(file string) bool {
		return path.Dir(file) == path.Dir(name) && slices.Contains(Files, path.Base(file)) && r.exists(file)
	}, r.read)
	for _, l := range left {
		r.leave(l.Source, "%s", l.Why)
	}
	switch {
	case !ok:
		return
	case len(parsed.Text) > r.room:
		r.leave(name, "the rules have more than %d bytes in total", rule.MaxTotal)
		return
	}
	r.room -= len(parsed.Text)
	r.rules = append(r.rules, parsed)
}

// skill adds a skill. If two skills in one folder have the same name, the first counts.
func (r *reader) skill(parsed rule.Rule) {
	if slices.ContainsFunc(r.rules, func(o rule.Rule) bool {
		return o.Kind == rule.Skill && o.Folder == parsed.Folder && o.Name() == parsed.Name()
	}) {
		r.leave(parsed.Source, "there is already a skill %s", parsed.Name())
		return
	}
	r.rules = append(r.rules, parsed)
}

func (r *reader) exists(name string) bool {
	return r.options.AgentFiles && slices.ContainsFunc(r.rules, func(o rule.Rule) bool { return o.Source == name })
}

// read returns the contents of a regular file.
func (r *reader) read(name string) (text string, missing bool, err error) {
	below := r.below(name)
	info, err := r.root.Stat(below) // check before opening, because opening may block or have a side effect
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		if link, err := r.root.Lstat(below); err == nil && link.Mode()&fs.ModeSymlink != 0 {
			return "", false, errors.New("it is a broken symbolic link")
		}
		return "", true, nil
	}
	if err != nil {
		return "", false, errors.New(r.reason(name, err))
	}
	if err := readable(info); err != nil {
		return "", false, err
	}
	if r.options.Check != nil {
		if err := r.options.Check(filepath.Join(r.options.Workspace, name)); err != nil {
			return "", false, errors.New("it is hidden from the agent")
		}
	}
	f, err := r.root.OpenFile(below, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false, errors.New(r.reason(name, err))
	}
	defer f.Close()
	if info, err = f.Stat(); err == nil { // check again: the file may have been replaced
		err = readable(info)
	}
	if err != nil {
		return "", false, err
	}
	data, err := io.ReadAll(io.LimitReader(f, rule.MaxText+1))
	switch {
	case err != nil:
		return "", false, errors.New(r.reason(name, err))
	case len(data) > rule.MaxText:
		return "", false, tooLong(int64(len(data)))
	}
	return string(data), false, nil
}

func readable(info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return errors.New("it is not a regular file")
	case info.Size() > rule.MaxText:
		return tooLong(info.Size())
	}
	return nil
}

func tooLong(n int64) error { return fmt.Errorf("it has %d bytes, more than %d", n, rule.MaxText) }

// reason says why a file cannot be read.
func (r *reader) reason(name string, err error) string {
	switch info, lerr := r.root.Lstat(r.below(name)); {
	case errors.Is(err, fs.ErrPermission):
		return "the agent's user may not read it"
	case lerr == nil && info.Mode()&fs.ModeSymlink != 0:
		return "its symbolic links leave the repository or form a loop"
	case strings.Contains(err.Error(), "escapes"): // a folder of the path is a link out of the repository
		return "it is outside the repository"
	}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		err = cause.Err
	}
	return err.Error()
}
