package execd

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// Limits of one reply: the artifacts' bytes, and their number.
const (
	usualUpload = 4 << 20
	maxUpload   = 32 << 20
	maxChunks   = 1000
)

// UploadArtifacts returns pieces of artifacts until the reply is full. The
// caller says where to continue; the server keeps no state between calls.
func (s *Server) UploadArtifacts(ctx context.Context, req *connect.Request[agentv1.UploadArtifactsRequest]) (*connect.Response[agentv1.UploadArtifactsResponse], error) {
	room := min(cmp.Or(req.Msg.GetLimit(), usualUpload), maxUpload)
	from := req.Msg.GetFrom()
	if room < 0 || from.GetOffset() < 0 {
		return nil, fault.Invalid("limit and offset must not be negative").At("limit")
	}
	root, err := s.artifacts.root()
	if err != nil {
		return nil, err
	}
	if root != nil {
		defer root.Close()
	}
	names := slices.Compact(slices.Sorted(slices.Values(req.Msg.GetNames())))
	if len(names) == 0 && root != nil {
		if names, _, err = s.artifacts.names(root); err != nil {
			return nil, err
		}
	}
	res := &agentv1.UploadArtifactsResponse{}
	for _, name := range names {
		var offset int64
		if from.GetName() == name {
			offset = from.GetOffset()
		}
		switch {
		case name < from.GetName():
			continue
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case room <= 0, len(res.GetChunks()) == maxChunks:
			res.Next = &agentv1.ArtifactPosition{Name: name, Offset: offset}
			return connect.NewResponse(res), nil
		}
		chunk := s.artifactChunk(root, name, offset, room)
		res.Chunks = append(res.Chunks, chunk)
		room -= int64(len(chunk.GetContents()))
		if !chunk.GetLast() && chunk.GetError() == "" {
			res.Next = &agentv1.ArtifactPosition{Name: name, Offset: offset + int64(len(chunk.GetContents()))}
			return connect.NewResponse(res), nil
		}
	}
	return connect.NewResponse(res), nil
}

// artifactChunk reads a piece of an artifact. If it cannot be read, the piece
// carries the error, and the other artifacts are still returned.
func (s *Server) artifactChunk(root *os.Root, name string, offset, room int64) *agentv1.ArtifactChunk {
	chunk := &agentv1.ArtifactChunk{Name: name, Offset: offset}
	file, _, err := s.artifacts.open(root, name)
	if err != nil {
		chunk.Error = fault.Of(err).Message
		return chunk
	}
	defer file.Close()
	b := make([]byte, room)
	n, err := file.ReadAt(b, offset)
	chunk.Contents = b[:n]
	switch {
	case errors.Is(err, io.EOF):
		chunk.Last, chunk.SizeBytes = true, offset+int64(n)
	case err != nil:
		chunk.Error = fault.Of(fileFault(name, err)).Message
	}
	return chunk
}
