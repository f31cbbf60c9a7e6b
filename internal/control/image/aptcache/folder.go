package aptcache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// KeptFor is how long an unused package is kept.
const KeptFor = 30 * 24 * time.Hour

// partSuffix marks packages that are not complete.
const partSuffix = ".part"

// folder holds packages. A package's file name is the digest of its URL and its
// own name.
type folder struct {
	dir string
	mu  sync.Mutex
	// used holds the files that this process has served.
	used map[string]struct{}
}

func openFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > KeptFor {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	return &folder{dir: dir, used: map[string]struct{}{}}, nil
}

// path returns the path for the package of a URL, and marks it as used.
func (f *folder) path(u *url.URL) string {
	sum := sha256.Sum256([]byte(u.String()))
	name := path.Base(u.Path)
	file := filepath.Join(f.dir, hex.EncodeToString(sum[:8])+"-"+name[max(0, len(name)-200):])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[file] = struct{}{}
	return file
}

// Forget removes all packages that this proxy has served to apt. It is called
// when one of them was damaged.
func (f *folder) Forget() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	for file := range f.used {
		for _, name := range []string{file, file + partSuffix} {
			if e := os.Remove(name); !errors.Is(e, os.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}

// open returns the complete package at file, as a reply.
func open(file string, req *http.Request) (*http.Response, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		now := time.Now()
		err = os.Chtimes(file, now, now)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return reply(req, http.StatusOK, f, info.Size()), nil
}

func reply(req *http.Request, status int, body io.ReadCloser, size int64) *http.Response {
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: body, ContentLength: size, Request: req,
	}
}

func refuse(req *http.Request, status int, why string) *http.Response {
	r := reply(req, status, io.NopCloser(strings.NewReader(why+"\n")), int64(len(why)+1))
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	return r
}
