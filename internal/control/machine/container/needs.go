package container

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Needs returns what the machines on a runtime's folder are made of, for
// [image.Store.Prune] to keep: names of images and directories of layers. A
// machine that cannot be read is an error: what it needs is not known.
func Needs(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "machines", "*", "spec.json"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		data, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) {
			continue // destroyed meanwhile
		}
		if err != nil {
			return nil, err
		}
		var rec record
		if err := json.Unmarshal(data, &rec); err != nil {
			return nil, err
		}
		out = append(append(out, rec.Spec.Image), rec.Image.Lower...)
	}
	return out, nil
}
