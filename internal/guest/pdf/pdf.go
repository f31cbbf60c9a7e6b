// Package pdf reads PDF files: their text with a Go library, and images of
// their pages with poppler, if it is installed. A PDF is untrusted, and the
// library may loop, panic or use up memory on a malicious one. It therefore
// runs in a separate process with limits on time and memory. Encrypted files
// are not supported.
package pdf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	timeLimit   = 30 * time.Second
	maxPageText = 200 << 10 // bytes of text of one page
	maxPages    = 1 << 20   // maximum number of pages that a file may claim to have
	longSide    = 1568      // pixels of a page's image
)

// ErrNoPoppler says that pages cannot be rendered as images.
var ErrNoPoppler = errors.New("poppler's pdftoppm is not installed in this machine: install poppler-utils to see pages as images")

// Reader reads PDF files. Its methods are safe for concurrent use.
type Reader struct {
	// Command runs [Main]. The first page and the number of pages are appended;
	// the file is its standard input.
	Command []string
}

// Page is the text of one page.
type Page struct {
	Text string `json:"text"`
}

// header is the first line of Main's output; a line for each page follows.
type header struct {
	Total int    `json:"total"`
	Error string `json:"error,omitempty"`
}

// Text returns the text of at most limit pages, starting at page first (counted
// from 1), and the number of pages in the file. If first is beyond the end, it
// returns no pages.
func (r Reader) Text(ctx context.Context, file *os.File, first, limit int) ([]Page, int, error) {
	ctx, stop := context.WithTimeoutCause(ctx, timeLimit, fmt.Errorf("reading the PDF took longer than %v", timeLimit))
	defer stop()
	args := append(slices.Clone(r.Command), strconv.Itoa(first), strconv.Itoa(limit))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = file
	cmd.Env = []string{} // the process needs no variables and should see none
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, fmt.Errorf("read the PDF: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("read the PDF: %w", err)
	}
	pages, total, err := parse(out, limit)
	stopped := context.Cause(ctx)
	stop() // kill it: the rest is not needed
	_ = cmd.Wait()
	switch {
	case err == nil:
		return pages, total, nil
	case stopped != nil:
		return nil, 0, stopped
	}
	return nil, 0, err
}

// parse parses Main's output.
func parse(out io.Reader, limit int) ([]Page, int, error) {
	in := bufio.NewReaderSize(io.LimitReader(out, int64(limit+1)*(6*maxPageText+1000)), 64<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, 0, errors.New("the PDF is damaged, or reading it took too much time or memory")
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, 0, errors.New("the PDF is damaged, or reading it took too much time or memory")
	}
	if h.Error != "" || h.Total < 0 || h.Total > maxPages {
		return nil, 0, fmt.Errorf("cannot read the PDF: %s", clean(h.Error, 200))
	}
	return readPages(in, limit), h.Total, nil
}

// readPages returns the pages that arrived completely.
func readPages(in *bufio.Reader, limit int) []Page {
	var pages []Page
	for len(pages) < limit {
		line, err := in.ReadBytes('\n')
		var p Page
		if err != nil || json.Unmarshal(line, &p) != nil {
			return pages
		}
		p.Text = clean(p.Text, maxPageText)
		pages = append(pages, p)
	}
	return pages
}

func clean(text string, limit int) string {
	return strings.ToValidUTF8(text[:min(len(text), limit)], "\uFFFD")
}

// Pictures renders pages as JPEG images; first counts from 1. If poppler is
// missing, the error is ErrNoPoppler.
func Pictures(ctx context.Context, path string, first, last int) ([][]byte, error) {
	program, err := exec.LookPath("pdftoppm")
	if err != nil {
		return nil, ErrNoPoppler
	}
	dir, err := os.MkdirTemp("", "aloft-pdf-")
	if err != nil {
		return nil, fmt.Errorf("render pages: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeoutCause(ctx, timeLimit, fmt.Errorf("rendering the pages took longer than %v", timeLimit))
	defer stop()
	cmd := exec.CommandContext(ctx, program, "-jpeg", "-jpegopt", "quality=80", "-scale-to", strconv.Itoa(longSide),
		"-f", strconv.Itoa(first), "-l", strconv.Itoa(last), path, filepath.Join(dir, "page"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	var words bytes.Buffer
	cmd.Stderr = &limited{&words, 4096}
	if err := cmd.Run(); err != nil {
		if context.Cause(ctx) != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("pdftoppm: %w: %s", err, clean(strings.TrimSpace(words.String()), 300))
	}
	files, err := filepath.Glob(filepath.Join(dir, "page*.jpg"))
	if err != nil || len(files) == 0 {
		return nil, errors.New("pdftoppm rendered no page")
	}
	slices.Sort(files) // pdftoppm pads the page numbers with zeros
	var pictures [][]byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("render pages: %w", err)
		}
		pictures = append(pictures, data)
	}
	return pictures, nil
}

// limited keeps the first bytes that are written.
type limited struct {
	to   *bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.room-l.to.Len())
	l.to.Write(p[:n])
	return len(p), nil
}
