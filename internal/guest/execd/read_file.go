package execd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// filePiece is how many bytes of a file one message contains.
const filePiece = 256 << 10

// maxDigested is the largest file that is read with its digest, in bytes.
const maxDigested = 16 << 20

// ReadFile streams a file of any size.
func (s *Server) ReadFile(ctx context.Context, req *connect.Request[agentv1.ReadFileRequest], stream *connect.ServerStream[agentv1.ReadFileResponse]) error {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return err
	}
	offset, limit := req.Msg.GetOffset(), req.Msg.GetLimit()
	if offset < 0 || limit < 0 {
		return fault.Invalid("offset and limit must not be negative").At("offset")
	}
	file, info, err := openFile(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if offset > 0 {
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return fileFault(path, err)
		}
	}
	var from io.Reader = file
	if limit > 0 {
		from = io.LimitReader(file, limit)
	}
	message := &agentv1.ReadFileResponse{FileSizeBytes: info.Size()}
	if req.Msg.GetWithSha256() {
		b, err := io.ReadAll(io.LimitReader(from, maxDigested+1))
		if err != nil {
			return fileFault(path, err)
		}
		if len(b) > maxDigested {
			return fault.Exhausted("%s is longer than %d MiB", path, maxDigested>>20).Hint("read it without its digest")
		}
		sum := sha256.Sum256(b)
		message.FileSizeBytes, message.Sha256 = max(info.Size(), offset+int64(len(b))), hex.EncodeToString(sum[:])
		from = bytes.NewReader(b)
	}
	b := make([]byte, filePiece)
	for first := true; ; first = false {
		n, err := io.ReadFull(from, b)
		over := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case err != nil && !over:
			return fileFault(path, err)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if n > 0 || first {
			message.Contents = b[:n] // Send does not keep b
			if err := stream.Send(message); err != nil {
				return err
			}
			message.FileSizeBytes, message.Sha256 = 0, ""
		}
		if over {
			return nil
		}
	}
}
