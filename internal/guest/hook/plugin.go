package hook

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"aloft/internal/plugin"
)

// maxPluginEntries limits how many names are read of a folder of plugins.
const maxPluginEntries = 1000

// readPlugins adds the hooks of the plugins in a repository. It follows no link out of a
// plugin's folder.
func (s *Set) readPlugins(dir string) {
	left := plugin.Max
	for _, folder := range plugin.Folders {
		for _, name := range s.pluginNames(filepath.Join(dir, folder)) {
			at := filepath.Join(dir, folder, name)
			root, err := os.OpenRoot(at)
			if err != nil {
				s.warn("%v", err)
				continue
			}
			if left > 0 && s.isPlugin(root) {
				left--
				if data := s.readIn(root, plugin.Hooks); data != nil {
					s.plugin = at
					s.add(filepath.Join(at, plugin.Hooks), data)
					s.plugin = ""
				}
			}
			_ = root.Close() // only read
		}
	}
}

// pluginNames returns the names of the folders in a folder of plugins, without links.
func (s *Set) pluginNames(folder string) (names []string) {
	d, err := os.OpenFile(folder, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			s.warn("%v", err)
		}
		return nil
	}
	defer d.Close()
	entries, err := d.ReadDir(maxPluginEntries)
	if err != nil && len(entries) == 0 {
		return nil // empty
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}

// isPlugin reports whether the folder has a valid manifest.
func (s *Set) isPlugin(root *os.Root) bool {
	data := s.readIn(root, plugin.Manifest)
	if data == nil {
		return false
	}
	if _, _, err := plugin.Parse(data); err != nil {
		s.warn("%s %v", path.Join(root.Name(), plugin.Manifest), err)
		return false
	}
	return true
}

// readIn returns a file of a plugin, or nil.
func (s *Set) readIn(root *os.Root, name string) []byte {
	info, err := root.Stat(name) // before opening, which could block
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err == nil && !info.Mode().IsRegular():
		s.warn("%s is not a regular file", path.Join(root.Name(), name))
		return nil
	case err == nil && info.Size() > maxFile:
		s.warn("%s is longer than %d bytes", path.Join(root.Name(), name), maxFile)
		return nil
	}
	data, err := root.ReadFile(name)
	if err != nil {
		s.warn("%s: %v", path.Join(root.Name(), name), err)
		return nil
	}
	return data
}
