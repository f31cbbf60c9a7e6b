package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"aloft/internal/fault"
)

// SmallPack is the size in bytes up to which a pack is received in memory. A
// larger one is received in a file, so that git does not wait for a slow
// sender: a waiting git uses memory.
const SmallPack = 1 << 20

// roomEvery is how many bytes of a pack are received between two checks of the
// disk.
const roomEvery = 4 << 20

// spool receives a pack, in memory or in a file of dir. The caller closes it.
func spool(u Update, in io.Reader, dir string) (pack io.ReadCloser, size int64, out Outcome, err error) {
	head, err := io.ReadAll(io.LimitReader(in, SmallPack+1))
	switch {
	case err != nil:
		return nil, 0, unreadable(err), nil
	case int64(len(head)) > u.MaxPack:
		return nil, 0, tooLarge(u), nil
	case len(head) <= SmallPack:
		return io.NopCloser(bytes.NewReader(head)), int64(len(head)), Outcome{}, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, "pack"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, 0, Outcome{}, err
	}
	defer func() {
		if pack == nil {
			_ = f.Close() // the caller removes dir
		}
	}()
	src := &sourceReader{r: io.MultiReader(bytes.NewReader(head), in)}
	for {
		if u.Room != nil {
			if err := u.Room(); err != nil {
				return nil, 0, Outcome{}, err
			}
		}
		n, err := io.CopyN(f, src, roomEvery)
		size += n
		switch {
		case size > u.MaxPack:
			return nil, 0, tooLarge(u), nil
		case errors.Is(err, io.EOF):
			_, err = f.Seek(0, io.SeekStart)
			return f, size, Outcome{}, err
		case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
			return nil, 0, Outcome{}, fault.Exhausted("no space left on the server's disk for the push").Named(CodeDiskFull).Because(err)
		case err != nil && src.err != nil:
			return nil, 0, unreadable(src.err), nil
		case err != nil:
			return nil, 0, Outcome{}, err
		}
	}
}

func tooLarge(u Update) Outcome {
	return rejected("too_large", "pack exceeds maximum allowed size",
		fmt.Sprintf("The push is larger than %d MiB, which is this server's limit.", u.MaxPack>>20))
}

func unreadable(err error) Outcome {
	return rejected("invalid", "the pack could not be read", "The pack could not be read: "+Plain(err.Error())+".")
}

// A sourceReader keeps its reader's error, so that it can be distinguished from
// a writer's error.
type sourceReader struct {
	r   io.Reader
	err error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
