package server

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"aloft/internal/control/artifact"
)

// openArtifacts opens the artifact store.
func openArtifacts(ctx context.Context, data string, c artifactsConfig) (*artifact.Store, error) {
	limits := artifact.DefaultLimits
	limits.Size = c.MaxBytes
	limits.FileSize = min(limits.FileSize, limits.Size)
	at := c.URL
	if folder, ok := artifactsFolder(data, c); ok {
		var err error
		if at, err = artifact.FolderURL(folder); err != nil {
			return nil, err
		}
	}
	kept, err := artifact.Open(ctx, at, limits)
	if err != nil {
		return nil, UsageError{fmt.Errorf("artifacts.url: %w", err)}
	}
	return kept, nil
}

// artifactsFolder returns the folder of this host that holds the artifacts. ok
// is false if artifacts are not stored on this host.
func artifactsFolder(data string, c artifactsConfig) (folder string, ok bool) {
	if c.URL == "" {
		return filepath.Join(data, "artifacts"), true
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "file" || u.RawQuery != "" {
		return "", false
	}
	return u.Path, true
}
