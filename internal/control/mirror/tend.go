package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	tooManyPacks = 30       // more packs slow down every lookup
	largePack    = 32 << 20 // in bytes; above this size a bitmap speeds up counting objects noticeably
)

// untidy reports whether a repack would make the mirror faster to read.
func (m *Mirror) untidy() bool {
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) >= tooManyPacks {
		return err == nil
	}
	bitmaps, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.bitmap"))
	return err == nil && len(bitmaps) == 0 && m.packs() > largePack
}

// tend repacks the mirror if needed, one mirror at a time per server. Reads and
// refreshes continue meanwhile: git keeps unreachable objects for two weeks,
// longer than any operation needs them.
func (m *Mirror) tend(ctx context.Context) {
	if !m.untidy() {
		return
	}
	select {
	case m.all.tending <- struct{}{}:
		defer func() { <-m.all.tending }()
	default:
		return // the next refresh tries again
	}
	start := time.Now()
	err := m.repack(ctx)
	m.all.log.Info("mirror repacked", "repo", m.key, "duration", time.Since(start), "err", err)
}

func (m *Mirror) repack(ctx context.Context) error {
	config := [][2]string{{"pack.threads", "1"}, {"repack.writeBitmaps", "true"}, {"gc.reflogExpire", "never"}}
	// Only one repack runs at a time, so any other repack's lock is stale.
	_, _, err := m.git(ctx, invocation{args: []string{"gc", "--quiet", "--force"}, config: config, changes: true, patient: true})
	return err
}

// removeTemporary removes partial packs of failed fetches, which may fill most
// of the disk. The caller holds the write lock, so no other fetch is running.
// During a repack it removes nothing, since the files may belong to the repack.
func (m *Mirror) removeTemporary() error {
	select {
	case m.all.tending <- struct{}{}:
		defer func() { <-m.all.tending }()
	default:
		return nil
	}
	files, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "tmp_*"))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}
