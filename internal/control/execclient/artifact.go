package execclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"connectrpc.com/connect"

	"aloft/internal/control/artifact"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// Limits for a machine's list of artifacts.
const (
	maxArtifacts     = 10_000
	artifactPiece    = 4 << 20 // bytes of a reply
	maxArtifactReply = artifactPiece + 4<<20
)

// Artifacts is a machine's folder of artifacts. It implements
// [artifact.Source]. Its methods are safe for concurrent use.
type Artifacts struct {
	client[agentv1connect.ControlServiceClient]
}

var _ artifact.Source = (*Artifacts)(nil)

// NewArtifacts returns the machine's folder of artifacts. token is exec-daemon's.
// The caller must call Close. Secrets in the files are not redacted.
func NewArtifacts(conn Conn, token string) *Artifacts {
	return &Artifacts{newPlainClient(conn, maxArtifactReply, agentv1connect.NewControlServiceClient, withToken(token))}
}

var sha256Form = regexp.MustCompile(`^[0-9a-f]{64}$`)

// List implements [artifact.Source].
func (a *Artifacts) List(ctx context.Context) ([]artifact.Remote, bool, error) {
	res, err := a.service.ListArtifacts(ctx, connect.NewRequest(&agentv1.ListArtifactsRequest{}))
	if err != nil {
		return nil, false, fmt.Errorf("list artifacts: %w", a.conn.Lost(err))
	}
	list := res.Msg.GetArtifacts()
	more := res.Msg.GetTruncated() || len(list) > maxArtifacts
	files := make([]artifact.Remote, 0, min(len(list), maxArtifacts))
	for _, f := range list[:min(len(list), maxArtifacts)] {
		if !sha256Form.MatchString(f.GetSha256()) || f.GetSizeBytes() < 0 {
			return nil, false, errors.New("list artifacts: the machine sent an invalid digest or size")
		}
		files = append(files, artifact.Remote{Name: f.GetName(), Size: f.GetSizeBytes(), Modified: f.GetModifiedAt().AsTime(), SHA256: f.GetSha256()})
	}
	return files, more, nil
}

// Read implements [artifact.Source]. It fails if a message of the machine is
// not the next piece of the file.
func (a *Artifacts) Read(ctx context.Context, name string, to io.Writer) error {
	var offset int64
	for {
		res, err := a.service.UploadArtifacts(ctx, connect.NewRequest(&agentv1.UploadArtifactsRequest{
			Names: []string{name}, From: &agentv1.ArtifactPosition{Name: name, Offset: offset}, Limit: artifactPiece,
		}))
		if err != nil {
			return fmt.Errorf("read an artifact: %w", a.conn.Lost(err))
		}
		chunks := res.Msg.GetChunks()
		if len(chunks) != 1 || chunks[0].GetName() != name || chunks[0].GetOffset() != offset {
			return errors.New("read an artifact: the machine sent the wrong piece")
		}
		chunk := chunks[0]
		if words := chunk.GetError(); words != "" {
			return fmt.Errorf("the machine cannot read it: %s", text.Head(words, maxDetail))
		}
		if _, err := to.Write(chunk.GetContents()); err != nil {
			return err
		}
		if chunk.GetLast() {
			return nil
		}
		if len(chunk.GetContents()) == 0 {
			return errors.New("read an artifact: the machine sent no more data before the end")
		}
		offset += int64(len(chunk.GetContents()))
	}
}
