package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"aloft/internal/need"
)

// BenchmarkUnpack unpacks a layer like those of distributions, with 5,000 files
// of 16 KiB on average, and twenty small layers, both in this process and in
// jails. GNU tar is the baseline.
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
	var small bytes.Buffer
	w.Reset(&small)
	if _, err := w.Write(archive(b, item{name: "etc/conf", body: "x"})); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	unpackOne := func(u *Unpacker, packed []byte, dir string) error {
		plain, err := u.Expand(b.Context(), bytes.NewReader(packed))
		if err != nil {
			return err
		}
		return errors.Join(u.Layer(b.Context(), plain, dir, free), plain.Close())
	}
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
	for name, u := range map[string]*Unpacker{"Here": here(), "Jail": jailed(b)} {
		run(name, func(dir string) error { return unpackOne(u, packed.Bytes(), dir) })
		run(name+"Small", func(dir string) error {
			for i := range 20 {
				layer := filepath.Join(dir, strconv.Itoa(i))
				if err := errors.Join(os.Mkdir(layer, 0o755), unpackOne(u, small.Bytes(), layer)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	run("Tar", func(dir string) error { return exec.Command(program, "-C", dir, "-xpzf", file).Run() })
}
