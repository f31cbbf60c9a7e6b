package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"aloft/internal/need"
)

// BenchmarkUnpack unpacks a layer like those of distributions, with 5,000 files
// of 16 KiB on average, and compares with GNU tar.
func BenchmarkUnpack(b *testing.B) {
	need.Root(b)
	program := need.Command(b, "tar")
	r := rand.New(rand.NewPCG(1, 2))
	var items []item
	for i := range 5000 {
		if i%50 == 0 {
			items = append(items, item{name: fmt.Sprintf("usr/lib/d%d/", i/50), kind: tar.TypeDir})
		}
		body := make([]byte, r.IntN(32<<10))
		for j := range body {
			body[j] = "abcdefghijklmnop"[r.IntN(16)]
		}
		items = append(items, item{name: fmt.Sprintf("usr/lib/d%d/f%d", i/50, i), body: string(body), mode: 0o644})
	}
	plain := archive(b, items...)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(plain); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "layer.tar.gz")
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	digest, diff := sha256.Sum256(packed.Bytes()), sha256.Sum256(plain)
	run := func(name string, do func(dir string) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				dir, err := os.MkdirTemp(b.TempDir(), "")
				if err == nil {
					err = do(dir)
				}
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.RemoveAll(dir); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
	run("Ours", func(dir string) error {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		return unpack(b.Context(), f, hex.EncodeToString(digest[:]), hex.EncodeToString(diff[:]), dir, &budget{})
	})
	run("Tar", func(dir string) error { return exec.Command(program, "-C", dir, "-xpzf", file).Run() })
}
