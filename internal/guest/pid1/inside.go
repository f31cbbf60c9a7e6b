package pid1

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/wire/podv1"
	"aloft/internal/wire/podv1/podv1connect"
)

// maxArtifact is the largest artifact that can be uploaded, in bytes.
const maxArtifact = 8 << 30

// inside implements pod.v1's InsideService.
type inside struct{ d *Daemon }

var _ podv1connect.InsideServiceHandler = (*inside)(nil)

// GetMetadata implements pod.v1's InsideService.
func (s *inside) GetMetadata(_ context.Context, req *connect.Request[podv1.GetMetadataRequest]) (*connect.Response[podv1.GetMetadataResponse], error) {
	path := strings.Trim(req.Msg.GetPath(), "/")
	values := s.d.meta.below(path)
	if len(values) == 0 && path != "" {
		return nil, connect.NewError(connect.CodeNotFound, errNoMetadata)
	}
	return connect.NewResponse(&podv1.GetMetadataResponse{Values: values}), nil
}

// RefreshToken implements pod.v1's InsideService.
func (s *inside) RefreshToken(ctx context.Context, req *connect.Request[podv1.RefreshTokenRequest]) (*connect.Response[podv1.RefreshTokenResponse], error) {
	if req.Msg.GetAudience() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("audience: name the audience of the token"))
	}
	status, body, err := s.d.askToken(ctx, tokenRequest{Audience: req.Msg.GetAudience(), Nonce: req.Msg.GetNonce()})
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New(noTokens))
	}
	var reply struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if status != 200 || json.Unmarshal(body, &reply) != nil || reply.Token == "" {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the control plane refused the token with status %d", status))
	}
	return connect.NewResponse(&podv1.RefreshTokenResponse{Token: reply.Token, ExpiresAt: timestamppb.New(reply.ExpiresAt)}), nil
}

// UploadArtifact implements pod.v1's InsideService. It writes the file
// atomically.
func (s *inside) UploadArtifact(_ context.Context, stream *connect.ClientStream[podv1.UploadArtifactRequest]) (*connect.Response[podv1.UploadArtifactResponse], error) {
	if !stream.Receive() {
		return nil, errors.Join(stream.Err(), connect.NewError(connect.CodeInvalidArgument, errors.New("name: the stream has no message")))
	}
	name := stream.Msg().GetName()
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) || len(name) > 512 {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("name: %.100q is not a path below the folder of artifacts", name))
	}
	if err := s.d.artifactsFolder(); err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	// The agent can write to the folder: use os.Root so that symbolic links
	// cannot lead outside it.
	root, err := os.OpenRoot(s.d.cfg.Artifacts)
	if err != nil {
		return nil, connect.NewError(connect.CodeUnavailable, err)
	}
	defer func() { _ = root.Close() }()
	size, digest, err := s.keep(root, name, stream)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&podv1.UploadArtifactResponse{SizeBytes: size, Sha256: digest}), nil
}

func (s *inside) keep(root *os.Root, name string, stream *connect.ClientStream[podv1.UploadArtifactRequest]) (size int64, digest string, err error) {
	if dir := path.Dir(name); dir != "." {
		if err := s.makeDirs(root, dir); err != nil {
			return 0, "", connect.NewError(connect.CodeInvalidArgument, err)
		}
	}
	var salt [6]byte
	_, _ = rand.Read(salt[:]) // never fails
	next := path.Join(path.Dir(name), ".upload-"+hex.EncodeToString(salt[:]))
	file, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return 0, "", connect.NewError(connect.CodeInvalidArgument, err)
	}
	defer func() {
		if err != nil {
			_ = root.Remove(next) // the first error is reported
		}
	}()
	sum := sha256.New()
	for again := true; again; again = stream.Receive() {
		b := stream.Msg().GetContents()
		if size += int64(len(b)); size > maxArtifact {
			err = connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("an artifact may have at most %d GiB", maxArtifact>>30))
			return 0, "", errors.Join(err, file.Close())
		}
		_, _ = sum.Write(b) // never fails
		if _, err = file.Write(b); err != nil {
			return 0, "", errors.Join(connect.NewError(connect.CodeResourceExhausted, err), file.Close())
		}
	}
	err = errors.Join(stream.Err(), file.Chown(int(s.d.user.Load().UID), int(s.d.user.Load().GID)), file.Close())
	if err == nil {
		err = root.Rename(next, name)
	}
	return size, hex.EncodeToString(sum.Sum(nil)), err
}

// makeDirs creates a folder and its missing parents, owned by the agent's user.
func (s *inside) makeDirs(root *os.Root, dir string) error {
	for i := range len(dir) + 1 {
		if i < len(dir) && dir[i] != '/' {
			continue
		}
		if err := root.Mkdir(dir[:i], 0o755); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := root.Lchown(dir[:i], int(s.d.user.Load().UID), int(s.d.user.Load().GID)); err != nil {
			return err
		}
	}
	return nil
}

// artifactsFolder creates the artifacts folder, owned by the agent's user.
func (d *Daemon) artifactsFolder() error {
	if exists(d.cfg.Artifacts) {
		return nil
	}
	if err := os.MkdirAll(d.cfg.Artifacts, 0o755); err != nil {
		return err
	}
	return d.user.Load().chown(d.cfg.Artifacts)
}
