package execd

import (
	"context"
	"unicode/utf8"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// ReadTextFile returns part of a UTF-8 text file, at most 64 MiB, without
// splitting characters.
func (s *Server) ReadTextFile(_ context.Context, req *connect.Request[agentv1.ReadTextFileRequest]) (*connect.Response[agentv1.ReadTextFileResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	offset, limit := req.Msg.GetOffset(), req.Msg.GetLimit()
	if offset < 0 {
		return nil, fault.Invalid("offset must not be negative").At("offset")
	}
	back := min(offset, utf8.UTFMax-1) // offset may be inside a character
	if limit > 0 {
		limit = max(limit, utf8.UTFMax) // otherwise the reader would never advance
		limit += max(back, 0)
	}
	b, size, err := readPart(path, offset-back, limit)
	if err != nil {
		return nil, err
	}
	for back > 0 && int64(len(b)) > back && !utf8.RuneStart(b[back]) {
		back--
	}
	b, offset = b[min(back, int64(len(b))):], offset-(min(offset, utf8.UTFMax-1)-back)
	if limit > 0 {
		b = wholeCharacters(b)
	}
	if !utf8.Valid(b) {
		return nil, fault.Invalid("%s is not text in UTF-8", path).At("path").Hint("use ReadBinaryFile")
	}
	return connect.NewResponse(&agentv1.ReadTextFileResponse{Contents: string(b), Offset: offset, FileSizeBytes: size}), nil
}

// wholeCharacters drops an incomplete character at the end.
func wholeCharacters(b []byte) []byte {
	for i := len(b) - 1; i >= max(0, len(b)-utf8.UTFMax+1); i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}
