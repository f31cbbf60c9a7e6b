package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	tooManyPacks = 30       // so many make every look-up slow
	largePack    = 32 << 20 // bytes above which counting objects is felt, and a bitmap saves it
)

// untidy reports whether a repack would make the mirror quicker to read.
func (m *Mirror) untidy() bool {
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) >= tooManyPacks {
		return err == nil
	}
	bitmaps, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.bitmap"))
	return err == nil && len(bitmaps) == 0 && m.packs() > largePack
}

// tend repacks the mirror if it needs it, one mirror at a time on the whole
// server. Readers and refreshes go on meanwhile: git keeps objects that are on
// no branch for two weeks, which outlasts everything that may still use them.
func (m *Mirror) tend(ctx context.Context) {
	if !m.untidy() {
		return
	}
	select {
	case m.all.tending <- struct{}{}:
		defer func() { <-m.all.tending }()
	default:
		return // the next refresh asks again
	}
	start := time.Now()
	err := m.repack(ctx)
	m.all.log.Info("mirror repacked", "repo", m.key, "duration", time.Since(start), "err", err)
}

func (m *Mirror) repack(ctx context.Context) error {
	config := [][2]string{{"pack.threads", "1"}, {"repack.writeBitmaps", "true"}, {"gc.reflogExpire", "never"}}
	_, _, err := m.all.git(ctx, invocation{args: []string{"gc", "--quiet"}, dir: m.dir, config: config, patient: true})
	return err
}

// removeTemporary removes what a fetch that failed left of a pack; it may be
// most of the disk. The write lock is held, so nothing else fetches; where
// something is being repacked, the files may be its own and are left.
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
