package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aloft/internal/atomicfile"
	"aloft/internal/fault"
)

// A Record is what the store remembers about one image name.
type Record struct {
	Name    string    `json:"name"`    // registry references in full form
	Digest  string    `json:"digest"`  // digest of the manifest: sha256:…
	Layers  []string  `json:"layers"`  // keys of its own layers, topmost first
	Config  Config    `json:"config"`  // configuration of the image's processes
	Checked time.Time `json:"checked"` // when the registry was last asked or the image was imported
	Used    time.Time `json:"-"`       // when the image was last prepared
}

func (s *Store) recordPath(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(s.dir, "records", hex.EncodeToString(sum[:16])+".json")
}

// pinned returns a name that always means the content of the record.
func (r Record) pinned() string {
	name, _, _ := strings.Cut(r.Name, "@")
	if !strings.HasPrefix(name, localPrefix) && !strings.HasPrefix(name, ociPrefix) {
		// For a registry image: drop the tag but keep the registry's port.
		if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
			name = name[:i]
		}
	}
	return name + "@" + r.Digest
}

// save writes a record under its name and under its pinned name.
func (s *Store) save(r Record) error {
	err := s.saveAs(r)
	if pinned := r.pinned(); err == nil && pinned != r.Name {
		r.Name = pinned
		err = s.saveAs(r)
	}
	return err
}

// saveAs writes a record atomically.
func (s *Store) saveAs(r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(s.recordPath(r.Name), data, 0o600)
}

// find returns the record of a name if all its layers exist. It locks the
// layers and updates the time of last use.
func (s *Store) find(name string) (Record, bool) {
	path := s.recordPath(name)
	r, err := readRecord(path)
	if err != nil || r.Name != name {
		return Record{}, false
	}
	for _, key := range r.Layers {
		if !s.protectLayer(key) {
			return Record{}, false
		}
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // if it was pruned meanwhile, the next pull creates it again
	return r, true
}

func readRecord(path string) (Record, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Record{}, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: %w", path, err)
	}
	if len(r.Layers) == 0 {
		return Record{}, fmt.Errorf("%s: it has no layers", path)
	}
	r.Used = info.ModTime()
	return r, nil
}

// List returns the available images, sorted by name. It skips damaged records,
// which are created again when the image is next prepared.
func (s *Store) List() ([]Record, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "records"))
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, e := range entries {
		if atomicfile.Unfinished(e.Name()) {
			continue
		}
		r, err := readRecord(filepath.Join(s.dir, "records", e.Name()))
		if err == nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Remove removes a name returned by [Store.List]. The next [Store.Prune]
// removes its layers.
func (s *Store) Remove(name string) error {
	err := os.Remove(s.recordPath(name))
	if errors.Is(err, fs.ErrNotExist) {
		return fault.NotFound("there is no image %s", name).Named("image_not_found").Hint("`aloft image list` names those that are")
	}
	return err
}

// LayersOf returns the directories of the image's own layers, topmost first, without
// the layer added for machines.
func (s *Store) LayersOf(img Image) (lower []string) {
	for _, dir := range img.Lower {
		if strings.HasPrefix(filepath.Base(dir), layerKey("")) {
			lower = append(lower, dir)
		}
	}
	return lower
}

// image returns the mountable image of a record.
func (s *Store) image(ctx context.Context, r Record) (Image, error) {
	lower := make([]string, len(r.Layers))
	for i, key := range r.Layers {
		lower[i] = s.layerDir(key)
	}
	img, err := s.amend(ctx, lower)
	img.Pinned, img.Digest, img.Config = r.pinned(), r.Digest, r.Config
	return img, err
}

func (s *Store) prepareLocal(ctx context.Context, name string) (Image, error) {
	r, ok := s.find(name)
	if !ok {
		return Image{}, fault.NotFound("no image of that name was imported").Named("image_not_found").
			Hint("`aloft image list` names those that are here; `aloft image build` and `aloft image import` add more")
	}
	return s.image(ctx, r)
}
