package server

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/s3blob"   // s3://

	machineapi "aloft/internal/control/api/machines"
	"aloft/internal/control/artifact"
	"aloft/internal/control/schedule"
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

// artifacts combines stored artifacts with those of running machines.
type artifacts struct {
	*artifact.Store

	schedule *schedule.Scheduler
}

var _ machineapi.Artifacts = artifacts{}

// keepLive is how long List waits for a running machine's newest artifacts.
const keepLive = 10 * time.Second

// List implements [machineapi.Artifacts]. It first stores the newest artifacts of a running
// machine. If that fails, it lists what was stored before.
func (a artifacts) List(ctx context.Context, agentID string) ([]artifact.File, error) {
	live, cancel := context.WithTimeout(ctx, keepLive)
	defer cancel()
	if err := a.schedule.KeepArtifacts(live, agentID); err != nil {
		a.schedule.Logger.Info("cannot list a machine's newest artifacts yet", "agent", agentID, "why", err)
	}
	return a.Store.List(ctx, agentID)
}
