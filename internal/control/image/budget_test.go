package image

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/fault"
)

// TestBombs pulls images whose unpacked size is too large from a real registry.
// Nothing of the offending layers may remain.
func TestBombs(t *testing.T) {
	noise := make([]byte, 3<<20)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	var empty []item
	for i := range 20_000 {
		empty = append(empty, item{name: fmt.Sprintf("f%d", i)})
	}
	var zeros bytes.Buffer
	w := tar.NewWriter(&zeros)
	if err := w.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: 200 << 20}); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	full := fault.Exhausted("the disk is nearly full").Named("disk_full")
	for name, c := range map[string]struct {
		layers [][]byte
		most   int64
		room   func() error
		code   string // expected fault code; "" for success
	}{
		"layers that fit":       {[][]byte{archive(t, item{name: "bin/sh", body: string(noise)})}, 8 << 20, nil, ""},
		"layers that add up":    {[][]byte{archive(t, item{name: "a", body: string(noise)}), archive(t, item{name: "b", body: string(noise)}), archive(t, item{name: "c", body: string(noise)})}, 8 << 20, nil, "image_too_large"},
		"small when packed":     {[][]byte{zeros.Bytes()}, 64 << 20, nil, "image_too_large"},
		"ratio without a limit": {[][]byte{zeros.Bytes()}, 0, nil, "image_too_large"},
		"many files":            {[][]byte{archive(t, empty...)}, 12 << 20, nil, "image_too_large"},
		"a disk without room":   {[][]byte{archive(t, item{name: "a", body: "x"})}, 0, func() error { return full }, "disk_full"},
		"a disk that is filled": {[][]byte{zeros.Bytes()}, 0, later(full), "disk_full"},
		"a disk with room":      {[][]byte{archive(t, item{name: "bin/sh", body: string(noise)})}, 8 << 20, func() error { return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg := newRegistry(t)
			reg.push(t, "bomb:1", c.layers...)
			s := openWith(t, t.TempDir(), Options{MaxBytes: c.most})
			s.SetRoom(c.room)
			_, err := s.Prepare(t.Context(), reg.host+"/bomb:1", nil)
			if c.code == "" && err != nil || c.code != "" && fault.Of(err).Code != c.code {
				t.Fatalf("error is %v (%s), want %q", err, fault.Of(err).Code, c.code)
			}
			if c.code == "" {
				return
			}
			var left int64
			err = filepath.WalkDir(filepath.Join(s.dir, "layers"), func(_ string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err == nil {
					left += info.Size()
				}
				return err
			})
			if err != nil || left > 7<<20 { // layers within the limit may remain
				t.Errorf("%d bytes of it are left, %v", left, err)
			}
		})
	}
}

// later returns a function that reports full after a few calls.
func later(full error) func() error {
	asked := 0
	return func() error {
		if asked++; asked > 3 {
			return full
		}
		return nil
	}
}
