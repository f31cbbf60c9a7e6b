package aptcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	"aloft/internal/lockfile"
)

// maxTries is how many consecutive requests may return no data before a
// download fails.
const maxTries = 3

// fetch returns the reply to a request for a package. If the folder lacks the
// package, fetch downloads it from the mirror and stores it while apt receives
// it.
func (p *Proxy) fetch(req *http.Request) (*http.Response, error) {
	file := p.path(req.URL)
	if resp, err := open(file, req); !errors.Is(err, os.ErrNotExist) {
		return resp, err
	}
	part, err := os.OpenFile(file+partSuffix, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockfile.Exclusive(part, 0); errors.Is(err, lockfile.ErrHeld) {
		_ = part.Close()
		return p.client.Do(req) // another build downloads it
	} else if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	if resp, err := open(file, req); !errors.Is(err, os.ErrNotExist) {
		_ = part.Close() // another build has completed it meanwhile
		return resp, err
	}
	info, err := part.Stat()
	if err != nil {
		return nil, errors.Join(err, part.Close())
	}
	d := &download{client: p.client, req: req, part: part, have: info.Size()}
	d.changed = sync.NewCond(&d.mu)
	select {
	case p.slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, errors.Join(req.Context().Err(), part.Close())
	}
	resp, err := d.begin()
	var in *os.File
	if err == nil && d.size != unknown {
		if in, err = os.Open(part.Name()); err != nil {
			err = errors.Join(err, resp.Body.Close())
		}
	}
	switch {
	case err != nil:
		<-p.slots
		return nil, errors.Join(err, part.Close())
	case d.size == unknown: // an error such as 404, which apt reports
		<-p.slots
		_ = os.Remove(part.Name()) // if the removal fails, an empty file stays
		return resp, part.Close()
	}
	p.running.Go(func() {
		d.run(resp, file)
		<-p.slots
	})
	return reply(req, http.StatusOK, &body{d: d, in: in}, d.size), nil
}

// unknown stands for the size of a file that is not a package.
const unknown = -1

// download writes a package to a file. At the same time, a body reads the file.
type download struct {
	client *http.Client
	req    *http.Request
	part   *os.File
	size   int64 // size of the package in bytes

	mu      sync.Mutex
	changed *sync.Cond // signals changes of have, over, err and closed
	have    int64      // bytes in part
	over    bool
	err     error // why the download ended before the package was complete
	closed  bool  // the reader is gone
}

// request asks the mirror for the missing part of the package.
func (d *download) request() (*http.Response, error) {
	req := d.req.Clone(d.req.Context())
	for _, name := range []string{"If-Modified-Since", "If-Range", "Range"} {
		req.Header.Del(name)
	}
	if d.have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", d.have))
	}
	return d.client.Do(req)
}

// begin makes the first request and sets the package's size. If the mirror does
// not continue after the bytes that the file already has, begin restarts the
// download from the beginning.
func (d *download) begin() (*http.Response, error) {
	resp, err := d.request()
	if err == nil && d.have > 0 && !d.continues(resp) && resp.StatusCode != http.StatusOK {
		d.have = 0
		if err = resp.Body.Close(); err == nil {
			resp, err = d.request()
		}
	}
	if err != nil {
		return nil, err
	}
	if d.have > 0 && d.continues(resp) {
		_, d.size, _ = contentRange(resp.Header.Get("Content-Range"))
		return resp, nil
	}
	d.have, d.size = 0, unknown
	if resp.StatusCode == http.StatusOK {
		d.size = resp.ContentLength // unknown if the mirror does not say; then the package is not kept
	}
	if err := d.part.Truncate(0); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// continues reports whether a reply continues after the bytes that the file
// already has.
func (d *download) continues(resp *http.Response) bool {
	start, _, ok := contentRange(resp.Header.Get("Content-Range"))
	return ok && resp.StatusCode == http.StatusPartialContent && start == d.have
}

// contentRange parses "bytes START-END/SIZE".
func contentRange(text string) (start, size int64, ok bool) {
	text, _ = strings.CutPrefix(text, "bytes ")
	span, total, _ := strings.Cut(text, "/")
	first, _, ok := strings.Cut(span, "-")
	start, err := strconv.ParseInt(first, 10, 64)
	size, err2 := strconv.ParseInt(total, 10, 64)
	return start, size, ok && err == nil && err2 == nil && start >= 0 && size > start
}

// run copies replies to the file until the package is complete, and then
// renames the file to its final name.
func (d *download) run(resp *http.Response, file string) {
	defer func() { _ = d.part.Close() }()
	var err error
	for tries := 1; ; tries++ {
		n, failed := d.copy(resp.Body)
		_ = resp.Body.Close()
		if n > 0 {
			tries = 1
		}
		if err = failed; err == nil || tries > maxTries || d.req.Context().Err() != nil {
			break
		}
		if resp, err = d.request(); err != nil {
			break
		}
		if _, size, _ := contentRange(resp.Header.Get("Content-Range")); !d.continues(resp) || size != d.size {
			_ = resp.Body.Close()
			err = fmt.Errorf("the mirror does not continue the download: %s", resp.Status)
			break
		}
	}
	if err == nil {
		err = d.part.Sync()
		if e := os.Rename(d.part.Name(), file); !errors.Is(e, os.ErrNotExist) { // a user may have emptied the folder
			err = errors.Join(err, e)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over, d.err = true, err
	d.changed.Broadcast()
}

// copy appends a reply to the file and returns its length.
func (d *download) copy(in io.Reader) (n int64, err error) {
	buf := make([]byte, 64<<10)
	for {
		got, err := in.Read(buf)
		if got > 0 {
			if d.have+int64(got) > d.size {
				return n, errors.New("the mirror sent more than it announced")
			}
			if _, err := d.part.WriteAt(buf[:got], d.have); err != nil {
				return n, err
			}
			n += int64(got)
			d.mu.Lock()
			d.have += int64(got)
			d.changed.Broadcast()
			d.mu.Unlock()
		}
		switch {
		case errors.Is(err, io.EOF) && d.have < d.size:
			return n, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// body reads the bytes that a download has received, and waits for more.
type body struct {
	d    *download
	in   *os.File
	read int64
}

func (b *body) Read(p []byte) (int, error) {
	d := b.d
	d.mu.Lock()
	for d.have == b.read && !d.over && !d.closed {
		d.changed.Wait()
	}
	have, over, err, closed := d.have, d.over, d.err, d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return 0, context.Canceled
	case have == b.read && over && err != nil:
		return 0, err
	case have == b.read:
		return 0, io.EOF
	}
	n, err := b.in.ReadAt(p[:min(int64(len(p)), have-b.read)], b.read)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (b *body) Close() error {
	b.d.mu.Lock()
	defer b.d.mu.Unlock()
	b.d.closed = true
	b.d.changed.Broadcast()
	return b.in.Close()
}
