package execd

import (
	"archive/tar"
	"bufio"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/fault"
	"aloft/internal/wire/agentv1"
)

// ReadFolder streams a folder as a tar archive, under the folder's own name.
func (s *Server) ReadFolder(ctx context.Context, req *connect.Request[agentv1.ReadFolderRequest], stream *connect.ServerStream[agentv1.ReadFolderResponse]) error {
	path, err := s.path(req.Msg.GetPath())
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileFault(path, err)
	}
	if !info.IsDir() {
		return fault.Invalid("%s is not a folder", path).At("path")
	}
	out := bufio.NewWriterSize(folderPieces{stream}, filePiece)
	packed := tar.NewWriter(out)
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fileFault(name, err)
		}
		below, err := filepath.Rel(path, name)
		if err != nil {
			return err
		}
		return packFile(packed, name, filepath.Join(filepath.Base(path), below), d)
	})
	if err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return out.Flush()
}

type folderPieces struct {
	stream *connect.ServerStream[agentv1.ReadFolderResponse]
}

func (p folderPieces) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), filePiece)
		if err := p.stream.Send(&agentv1.ReadFolderResponse{Contents: rest[:n]}); err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// packFile adds a file, a folder or a link to a tar archive. It skips other
// kinds of files, and files that were removed meanwhile. A file that changes
// meanwhile is stored with its initial size.
func packFile(packed *tar.Writer, path, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fileFault(path, err)
	}
	var link string
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(path); err != nil {
			return fileFault(path, err)
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Format = tar.FormatPAX // allows names of any length
	if info.IsDir() {
		h.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return packed.WriteHeader(h)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return fileFault(path, err)
	}
	defer file.Close()
	if err := packed.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(packed, io.LimitReader(file, h.Size))
	if err != nil {
		return fileFault(path, err)
	}
	_, err = io.CopyN(packed, zeros{}, h.Size-n)
	return err
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
