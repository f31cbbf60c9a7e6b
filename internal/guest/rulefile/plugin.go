package rulefile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"aloft/internal/plugin"
	"aloft/internal/rule"
)

// plugins reads the rules, skills and commands of the plugins in the root of a
// repository.
func (r *reader) plugins(f rule.Folder) {
	if f.Path != f.Repository {
		return
	}
	roots := []string{""}
	for _, folder := range plugin.Folders {
		for _, name := range r.pluginFolders(path.Join(f.Path, folder)) {
			roots = append(roots, path.Join(folder, name))
		}
	}
	read := 0
	for _, root := range roots {
		if !r.isPlugin(path.Join(f.Path, root, plugin.Manifest)) {
			continue
		}
		if read == plugin.Max {
			r.leave(path.Join(f.Path, root), "there are more than %d plugins; the others are not read", plugin.Max)
			return
		}
		read++
		r.plugin(f, root)
	}
}

// plugin reads the parts of one plugin, whose folder is relative to f.
func (r *reader) plugin(f rule.Folder, root string) {
	r.all(f, path.Join(root, plugin.Rules), func(name string) bool { return slices.Contains([]string{".mdc", ".md"}, path.Ext(name)) }, parseRule)
	r.all(f, path.Join(root, plugin.Skills), isSkill, rule.ParseSkill)
	r.all(f, path.Join(root, plugin.Commands), isMarkdown, rule.ParseCommand)
	if root != "" {
		return
	}
	for _, part := range []string{plugin.Hooks, plugin.Servers} { // agents could change these files without review
		if _, err := r.root.Lstat(r.below(path.Join(f.Path, part))); err == nil {
			r.leave(path.Join(f.Path, part), "hooks and MCP servers are read only from plugins in %s", plugin.Folders[0])
		}
	}
}

// pluginFolders returns the names of the folders in a folder of plugins.
func (r *reader) pluginFolders(folder string) (names []string) {
	d, err := r.root.OpenFile(r.below(folder), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		r.leave(folder, "%s", r.reason(folder, err))
		return nil
	}
	defer d.Close()
	for r.ctx.Err() == nil {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if r.entries++; r.entries > maxEntries {
				r.leave(folder, "there are more than %d files; the others are not read", maxEntries)
				return names
			}
			switch {
			case e.IsDir():
				names = append(names, e.Name())
			case e.Type()&fs.ModeSymlink != 0:
				r.leave(path.Join(folder, e.Name()), "a plugin must not be a symbolic link")
			}
		}
		if err != nil || len(entries) == 0 {
			break
		}
	}
	slices.Sort(names)
	return names
}

// isPlugin reports whether the file exists and is a valid manifest.
func (r *reader) isPlugin(manifest string) bool {
	text, missing, err := r.read(manifest)
	if missing {
		return false
	}
	if err != nil {
		r.leave(manifest, "the plugin is not read: %v", err)
		return false
	}
	_, complaints, err := plugin.Parse([]byte(text))
	if err != nil {
		r.leave(manifest, "the plugin is not read: its manifest %v", err)
		return false
	}
	for _, c := range complaints {
		r.leave(manifest, "%s", c)
	}
	return true
}
