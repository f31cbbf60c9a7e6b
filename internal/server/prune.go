package server

import (
	"context"
	"time"

	"aloft/internal/control/image"
	"aloft/internal/control/machine/container"
)

// Timing of the removal of unused images.
const (
	pruneEvery  = time.Hour
	pruneLook   = time.Minute      // how often to check whether the disk is nearly full
	prunePause  = 10 * time.Minute // between removals while the disk is nearly full
	prunePinch  = time.Hour        // how long an unused image is kept while the disk is nearly full
	neverUnused = 0                // value of images.unused that keeps images forever
)

// pruneImages removes unused images until ctx is done. While the disk is nearly full, it
// keeps unused images for a shorter time and removes the Dockerfile build cache too. It
// never removes images that machines, snapshots or builds use, or that people imported.
func (s *Server) pruneImages(ctx context.Context, data string, c imagesConfig, defaultImage string) error {
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
				s.logger.Error("cannot remove unused images", "error", err)
			}
			if pinch {
				if err := s.dockerfiles.prune(ctx); err != nil && ctx.Err() == nil {
					s.logger.Error("cannot remove the Dockerfile build cache", "error", err)
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

func pruneOnce(ctx context.Context, images *image.Store, data string, unused time.Duration, keep string, s *Server) error {
	needs, err := container.Needs(MachinesDir(data))
	if err != nil {
		return err
	}
	got, err := images.Prune(ctx, image.PruneOptions{Unused: unused, Keep: append(needs, keep)})
	if len(got.Images)+got.Layers > 0 {
		s.logger.Info("removed unused images", "images", len(got.Images), "layers", got.Layers, "bytes", got.Bytes)
	}
	return err
}
