package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Artifact is a file of an agent that is kept after its machine is removed.
type Artifact struct {
	Path      string    `json:"path"`
	SizeBytes int64     `json:"sizeBytes"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Artifacts returns an agent's artifacts, by path.
func (c *Client) Artifacts(ctx context.Context, id string) ([]Artifact, error) {
	var page struct{ Items []Artifact }
	err := c.call(ctx, http.MethodGet, agentPath(id)+"/artifacts", nil, &page)
	return page.Items, err
}

// DownloadArtifact writes an artifact to w. The download URL may be on another server,
// so it is requested without the API key.
func (c *Client) DownloadArtifact(ctx context.Context, id, path string, w io.Writer) error {
	var at struct{ URL string }
	if err := c.call(ctx, http.MethodGet, agentPath(id)+"/artifacts/download", url.Values{"path": {path}}, &at); err != nil {
		return err
	}
	u, err := url.Parse(at.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("download an artifact: the server returned an invalid URL")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.URL, nil)
	if err != nil {
		return err
	}
	reply, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return &UnreachableError{URL: u.Scheme + "://" + u.Host, Err: unwrapURL(err)}
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return readError(reply)
	}
	_, err = io.Copy(w, reply.Body)
	return err
}
