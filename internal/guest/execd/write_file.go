package execd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// maxWritePiece is the largest message of WriteFile, in bytes.
const maxWritePiece = 4 << 20

// WriteFile creates or replaces a file of any size atomically.
func (s *Server) WriteFile(_ context.Context, stream *connect.ClientStream[agentv1.WriteFileRequest]) (*connect.Response[agentv1.WriteFileResponse], error) {
	if !stream.Receive() {
		if err := stream.Err(); err != nil {
			return nil, err
		}
		return nil, fault.Invalid("the stream has no message").At("path")
	}
	first := stream.Msg()
	want, mode := first.GetSizeBytes(), fs.FileMode(first.GetMode())
	if mode == 0 {
		mode = 0o644
	}
	if mode&^fs.ModePerm != 0 {
		return nil, fault.Invalid("the mode %#o has other bits than permissions", uint32(mode)).At("mode")
	}
	path, err := s.path(first.GetPath())
	if err != nil {
		return nil, err
	}
	must := condition{sha256: strings.ToLower(first.GetIfSha256()), absent: first.GetIfAbsent()}
	if err := must.check(path); err != nil { // fail early, before all of it is received
		return nil, err
	}
	file, err := replaceFile(path, mode)
	if err != nil {
		return nil, err
	}
	size, digest, err := receive(stream, file, path)
	if err == nil && want >= 0 && size != want {
		err = fault.Invalid("received %d bytes but size_bytes is %d", size, want).At("size_bytes")
	}
	if err != nil {
		return nil, errors.Join(err, file.drop())
	}
	if err := file.commit(must); err != nil {
		return nil, err
	}
	return connect.NewResponse(&agentv1.WriteFileResponse{SizeBytes: size, Sha256: digest}), nil
}

// receive writes the pieces that arrive, starting with the first message, which
// has been received already.
func receive(stream *connect.ClientStream[agentv1.WriteFileRequest], w io.Writer, path string) (size int64, digest string, err error) {
	sum := sha256.New()
	for again := true; again; again = stream.Receive() {
		b := stream.Msg().GetContents()
		if len(b) > maxWritePiece {
			return 0, "", fault.Exhausted("a piece is longer than %d MiB", maxWritePiece>>20).At("contents")
		}
		if other := stream.Msg().GetPath(); size > 0 && other != "" {
			return 0, "", fault.Invalid("only the first message may set path").At("path")
		}
		if _, err := w.Write(b); err != nil {
			return 0, "", fileFault(path, err)
		}
		_, _ = sum.Write(b) // never fails
		size += int64(len(b))
	}
	return size, hex.EncodeToString(sum.Sum(nil)), stream.Err()
}
