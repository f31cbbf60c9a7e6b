package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"aloft/internal/control/layer"
)

// mountRoot mounts the machine's root at target with mount, which is
// [layer.Mount] or like it.
//
// An overlay does not show other file systems that are mounted in its layers.
// So each of the image's views (top-level folders of the host) gets a separate
// overlay, mounted over the root. Its lower directories are the folder with the
// view's name in every layer, and the host's folder. Its upper directory is the
// folder with that name in the machine's upper layer. So the upper layer
// contains all changes, and can be frozen and measured as a unit.
func (m *Machine) mountRoot(rec record, target string, mount func(target string, lower []string, upper, work string) error) error {
	for _, name := range rec.Image.Views {
		if err := m.makeView(rec, name); err != nil {
			return fmt.Errorf("view of /%s: %w", name, err)
		}
	}
	if err := mount(target, rec.lower(), m.path("upper"), m.path("work")); err != nil {
		return err
	}
	for _, name := range rec.Image.Views {
		if err := m.mountView(rec, name, target, mount); err != nil {
			return fmt.Errorf("view of /%s: %w", name, err)
		}
	}
	return nil
}

// makeView creates the folder for the changes to a view, unless it exists. The
// new folder gets the owner, mode and attributes of the folder that the machine
// saw last.
func (m *Machine) makeView(rec record, name string) error {
	if err := os.MkdirAll(m.path("work-"+name), 0o755); err != nil {
		return err
	}
	upper := filepath.Join(m.path("upper"), name)
	info, err := os.Lstat(upper)
	if err == nil && !info.IsDir() {
		return errors.New("it is not a folder")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return layer.NewFolder(rec.lowerOf(name)[0], upper)
}

func (m *Machine) mountView(rec record, name, root string, mount func(target string, lower []string, upper, work string) error) error {
	at := filepath.Join(root, name)
	// A saved layer may have been imported and contain a link here.
	if info, err := os.Lstat(at); err != nil || !info.IsDir() {
		return errors.Join(err, errors.New("it is not a folder"))
	}
	return mount(at, rec.lowerOf(name), filepath.Join(m.path("upper"), name), m.path("work-"+name))
}

// lowerOf returns the lower directories of a view, topmost first.
func (rec record) lowerOf(name string) (lower []string) {
	for _, dir := range rec.lower() {
		dir = filepath.Join(dir, name)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			lower = append(lower, dir)
		}
	}
	return append(lower, "/"+name)
}
