package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aloft/internal/need"
)

// TestUnpackerKilled kills the process that unpacks a layer before it has
// finished. Nothing of the layer may remain, and the next attempt must succeed.
func TestUnpackerKilled(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unconfined(); err != nil {
		need.Missing(t, "confinement", err)
	}
	noise := make([]byte, 3*roomEvery)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise) // never fails
	layer := archive(t, item{name: "bin/", kind: tar.TypeDir}, item{name: "bin/sh", body: "x"}, item{name: "noise", body: string(noise)}, item{name: "last", body: "x"})
	sum := sha256.Sum256(layer)
	digest := hex.EncodeToString(sum[:])
	fill := func() error {
		_, err := s.layer(t.Context(), layerKey(digest), func(ctx context.Context, to string) error {
			return s.unpack(ctx, bytes.NewReader(layer), digest, digest, to, s.newBudget())
		})
		return err
	}
	killed := 0
	s.SetRoom(func() error {
		for _, pid := range unpackers(t, dir) {
			if err := unix.Kill(pid, unix.SIGKILL); err == nil {
				killed++
			}
		}
		return nil
	})
	if err := fill(); err == nil || killed == 0 {
		t.Errorf("%d processes were killed, and the error is %v", killed, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "layers")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	s.SetRoom(nil)
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(s.layerDir(layerKey(digest)), "last")); err != nil || string(got) != "x" {
		t.Errorf("the layer ends with %q, %v", got, err)
	}
	if left := unpackers(t, dir); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

// unpackers returns the ids of the processes that unpack layers for the store
// in dir.
func unpackers(t *testing.T, dir string) (pids []int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lines {
		if text, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(text), "aloft-unpack\x00layer\x00"+dir) {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestLayerOfAnother checks that a blob cannot replace a layer with different
// content, however the blob is compressed.
func TestLayerOfAnother(t *testing.T) {
	need.Root(t)
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, ours := archive(t, item{name: "bin/sh", body: "theirs"}), archive(t, item{name: "bin/sh", body: "hostile"})
	packed, diff := sha256.Sum256(ours), sha256.Sum256(theirs)
	err = s.unpack(t.Context(), bytes.NewReader(ours), hex.EncodeToString(packed[:]), hex.EncodeToString(diff[:]), t.TempDir(), s.newBudget())
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("error is %v", err)
	}
}
