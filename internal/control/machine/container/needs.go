package container

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"aloft/internal/control/layer"
)

// Needs returns what [image.Store.Prune] must keep for the machines and saved
// layers in dir: names of images and directories of layers. If a machine or
// layer cannot be read, its needs are unknown, so Needs fails.
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
	layers, err := layer.Open(filepath.Join(dir, LayersDir), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	saved, err := layers.List()
	for _, l := range saved {
		out = append(out, l.Content())
	}
	return out, errors.Join(err, layers.Close())
}
