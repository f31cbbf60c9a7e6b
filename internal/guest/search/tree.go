package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"aloft/internal/guest/ripgrep"
)

const (
	maxFiles    = 200_000
	maxListing  = 64 << 20 // bytes of names
	maxFileSize = 1 << 20  // bytes; a larger file is indexed by its path only
)

// found is a file in the current tree.
type found struct {
	name  string
	stamp stamp
}

// listFiles returns the regular files under dir that git does not ignore, and
// how many exceeded maxFiles.
func listFiles(ctx context.Context, rg, dir string) (files []found, beyond int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	command := append(ripgrep.Command(rg), "--no-config", "--no-messages", "--hidden", "--no-require-git", "--glob=!.git", "--null", "--files", "./")
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, err
	}
	if err := cmd.Start(); err != nil {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		return nil, 0, fmt.Errorf("list the files of %s: %w", dir, err)
	}
	raw, readErr := io.ReadAll(io.LimitReader(out, maxListing+1))
	if len(raw) > maxListing {
		stop()
		raw = raw[:bytes.LastIndexByte(raw[:maxListing], 0)+1]
	}
	waitErr := cmd.Wait()
	if err := context.Cause(ctx); err != nil && len(raw) <= maxListing && !errors.Is(err, context.Canceled) {
		return nil, 0, err
	}
	// Exit status 1 means no files; 2 also occurs with unreadable folders.
	if exit, ok := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && (!ok || exit.ExitCode() < 0) && len(raw) == 0 || readErr != nil {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		return nil, 0, fmt.Errorf("list the files of %s: %w", dir, errors.Join(waitErr, readErr))
	}
	for name := range bytes.SplitSeq(raw, []byte{0}) {
		if len(name) == 0 || len(name) > 4000 || !indexable(string(name)) {
			continue
		}
		if len(files) == maxFiles {
			beyond++
			continue
		}
		files = append(files, found{name: strings.TrimPrefix(string(name), "./")})
	}
	return statAll(dir, files), beyond, nil
}

// data is the set of file extensions whose files contain no searchable text.
var data = map[string]bool{
	".png": true, ".jpg": true, ".jpeg": true, ".gif": true, ".webp": true, ".ico": true, ".pdf": true, ".zip": true, ".gz": true,
	".xz": true, ".zst": true, ".bz2": true, ".tar": true, ".tgz": true, ".jar": true, ".class": true, ".o": true, ".a": true, ".so": true,
	".exe": true, ".dll": true, ".wasm": true, ".woff": true, ".woff2": true, ".ttf": true, ".otf": true, ".eot": true, ".mp3": true,
	".mp4": true, ".webm": true, ".mov": true, ".pyc": true, ".bin": true, ".map": true, ".syso": true, ".lock": true, ".sum": true,
}

func indexable(name string) bool {
	switch path.Base(name) {
	case "package-lock.json", "pnpm-lock.yaml", "npm-shrinkwrap.json":
		return false
	}
	return !data[strings.ToLower(path.Ext(name))] && !strings.HasSuffix(name, ".min.js") && !strings.HasSuffix(name, ".min.css")
}

// statAll sets the stamp of each file, and drops files that no longer exist.
func statAll(dir string, files []found) []found {
	const share = 2048
	var wg sync.WaitGroup
	free := make(chan struct{}, 4)
	for from := 0; from < len(files); from += share {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			for i := from; i < min(from+share, len(files)); i++ {
				var st unix.Stat_t
				if unix.Lstat(filepath.Join(dir, files[i].name), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
					files[i].stamp = stampOf(&st)
				}
			}
		})
	}
	wg.Wait()
	here := files[:0]
	for _, f := range files {
		if f.stamp != (stamp{}) {
			here = append(here, f)
		}
	}
	return here
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(), size: st.Size, inode: st.Ino}
}

// read returns a file's text and its stamp from before reading; the text is nil
// if it is binary or too large.
func read(name string) ([]byte, stamp, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, stamp{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, stamp{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, stamp{}, errors.New("not a file")
	}
	s := stampOf(&st)
	if s.size > maxFileSize {
		return nil, s, nil
	}
	text := make([]byte, s.size)
	n, err := io.ReadFull(f, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, s, err
	}
	text = text[:n]
	if bytes.IndexByte(text[:min(n, 8000)], 0) >= 0 {
		return nil, s, nil
	}
	return text, s, nil
}
