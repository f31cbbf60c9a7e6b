package server

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/s3blob"   // s3://

	"aloft/internal/control/artifact"
)

// openArtifacts opens the artifact store.
func openArtifacts(ctx context.Context, data string, c artifactsConfig) (*artifact.Store, error) {
	limits := artifact.DefaultLimits
	limits.Size = c.MaxBytes
	limits.FileSize = min(limits.FileSize, limits.Size)
	at := c.URL
	if u, err := url.Parse(at); at == "" || err == nil && u.Scheme == "file" && u.RawQuery == "" {
		folder := filepath.Join(data, "artifacts")
		if at != "" {
			folder = u.Path
		}
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
