package server

import (
	"context"
	"time"

	"aloft/internal/control/image"
)

// Timing of the removal of unused images.
const (
	pruneEvery  = time.Hour
	pruneLook   = time.Minute      // interval of checking whether the disk is nearly full
	prunePause  = 10 * time.Minute // pause between removals while the disk is nearly full
	prunePinch  = time.Hour        // how long an unused image is kept while the disk is nearly full
	neverUnused = 0                // value of images.unused that keeps images forever
)

// pruneImages removes unused images until ctx is done. While the disk is nearly
// full, it keeps unused images for a shorter time and also removes the
// Dockerfile build cache. It never removes images that machines, snapshots or
// builds use, or that people imported.
func (s *Server) pruneImages(ctx context.Context, c imagesConfig) error {
	if s.host.NoMachines != "" {
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
			if err := s.pruneOnce(ctx, unused); err != nil && ctx.Err() == nil {
				s.logger.Error("cannot remove unused images", "error", err)
			}
			if pinch {
				if err := s.host.Dockerfiles.Prune(ctx); err != nil && ctx.Err() == nil {
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

func (s *Server) pruneOnce(ctx context.Context, unused time.Duration) error {
	got, err := s.host.Images.Prune(ctx, image.PruneOptions{Unused: unused})
	if len(got.Images)+got.Layers > 0 {
		s.logger.Info("removed unused images", "images", len(got.Images), "layers", got.Layers, "bytes", got.Bytes)
	}
	return err
}
