package execd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// maxEntries is the most entries that ListDirectory returns.
const maxEntries = 20_000

// ListDirectory returns a folder's entries, sorted by name.
func (s *Server) ListDirectory(_ context.Context, req *connect.Request[agentv1.ListDirectoryRequest]) (*connect.Response[agentv1.ListDirectoryResponse], error) {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	entries, err := readDirectory(path)
	if err != nil {
		return nil, err
	}
	res := &agentv1.ListDirectoryResponse{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // removed meanwhile
		}
		e := &agentv1.DirectoryEntry{
			Name:        strings.ToValidUTF8(entry.Name(), "\uFFFD"),
			IsDirectory: entry.IsDir(),
			IsSymlink:   entry.Type()&fs.ModeSymlink != 0,
			SizeBytes:   info.Size(),
			ModifiedAt:  timestamppb.New(info.ModTime()),
		}
		if e.IsSymlink {
			target, err := os.Stat(filepath.Join(path, entry.Name()))
			e.LeadsToDirectory = err == nil && target.IsDir()
		}
		res.Entries = append(res.Entries, e)
	}
	return connect.NewResponse(res), nil
}

func readDirectory(path string) ([]fs.DirEntry, error) {
	info, err := os.Stat(path) // before opening it: opening a pipe would block
	if err != nil {
		return nil, fileFault(path, err)
	}
	if !info.IsDir() {
		return nil, fault.Invalid("%s is not a folder", path).At("path")
	}
	folder, err := os.Open(path)
	if err != nil {
		return nil, fileFault(path, err)
	}
	defer folder.Close()
	entries, err := folder.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fileFault(path, err)
	}
	if len(entries) > maxEntries {
		return nil, fault.Exhausted("%s has more than %d entries", path, maxEntries).Hint("use a command such as ls | head")
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
