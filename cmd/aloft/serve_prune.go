package main

import (
	"context"
	"time"

	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
)

// Times of the removal of images that nothing needs any more.
const (
	pruneEvery  = time.Hour
	pruneLook   = time.Minute      // whether the disk is nearly full
	prunePause  = 10 * time.Minute // between removals while it is
	prunePinch  = time.Hour        // how long an image is kept then
	neverUnused = 0                // what images.unused has to say for ever
)

// pruneImages removes what of the images nothing needs, until ctx ends: those
// that no machine was made of for long and, while the disk is nearly full, those
// that none was made of just now, and what is kept of Dockerfiles' steps. What machines, snapshots and builds stand on
// stays, and so does what people have imported.
func (s *server) pruneImages(ctx context.Context, data string, c imagesConfig, defaultImage string) error {
	r, ok := s.runtime.(*container.Runtime)
	if !ok {
		<-ctx.Done()
		return nil
	}
	look := time.NewTicker(pruneLook)
	defer look.Stop()
	var last time.Time
	for {
		unused, pause := duration(c.Unused), pruneEvery
		pinch := s.disk.Room() != nil
		if pinch {
			unused, pause = prunePinch, prunePause
		}
		if unused != neverUnused && time.Since(last) >= pause {
			last = time.Now()
			if err := pruneOnce(ctx, r.Images(), data, unused, defaultImage, s); err != nil && ctx.Err() == nil {
				s.logger.Error("images that nothing needs cannot be removed", "error", err)
			}
			if pinch {
				if err := s.dockerfiles.prune(ctx); err != nil && ctx.Err() == nil {
					s.logger.Error("what is kept to build Dockerfiles faster cannot be removed", "error", err)
				}
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func pruneOnce(ctx context.Context, images *image.Store, data string, unused time.Duration, keep string, s *server) error {
	needs, err := container.Needs(machinesDir(data))
	if err != nil {
		return err
	}
	got, err := images.Prune(ctx, image.PruneOptions{Unused: unused, Keep: append(needs, keep)})
	if len(got.Images)+got.Layers > 0 {
		s.logger.Info("removed images that nothing needs", "images", len(got.Images), "layers", got.Layers, "bytes", got.Bytes)
	}
	return err
}
