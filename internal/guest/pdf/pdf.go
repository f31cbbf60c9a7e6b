// Package pdf reads PDF files: their text by a Go library, their pages as
// pictures by poppler where the machine has it. A PDF is hostile, and its readers
// are not proof against that: the library can loop, panic and fill memory, so it
// works in a process of its own, with bounds on its time and memory. It draws no
// page itself and knows no passwords.
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
	maxPageText = 200 << 10 // bytes of one page
	maxPages    = 1 << 20   // that a file may say it has
	longSide    = 1568      // pixels of a page's picture
)

// ErrNoPoppler says that pages cannot be had as pictures.
var ErrNoPoppler = errors.New("poppler's pdftoppm is not in this machine: install poppler-utils to see pages as pictures")

// Reader reads PDF files. Its methods are safe for concurrent use.
type Reader struct {
	// Command runs [Main]. The number of the first page and that of pages are
	// added to it; it gets the file as its standard input.
	Command []string
}

// Page is the text of one page.
type Page struct {
	Text string `json:"text"`
}

// header is the first line of what Main prints, before a line for each page.
type header struct {
	Total int    `json:"total"`
	Error string `json:"error,omitempty"`
}

// Text returns the text of up to most pages from the first on, counted from
// 1, and how many the file has. A first page beyond the end gives none.
func (r Reader) Text(ctx context.Context, file *os.File, first, most int) ([]Page, int, error) {
	ctx, stop := context.WithTimeoutCause(ctx, timeLimit, fmt.Errorf("the PDF could not be read within %v", timeLimit))
	defer stop()
	args := append(slices.Clone(r.Command), strconv.Itoa(first), strconv.Itoa(most))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = file
	cmd.Env = []string{} // it needs none, and is not to know any
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, fmt.Errorf("read the PDF: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("read the PDF: %w", err)
	}
	pages, total, err := parse(out, most)
	stopped := context.Cause(ctx)
	stop() // what is not read is not wanted
	_ = cmd.Wait()
	switch {
	case err == nil:
		return pages, total, nil
	case stopped != nil:
		return nil, 0, stopped
	}
	return nil, 0, err
}

// parse reads what Main prints.
func parse(out io.Reader, most int) ([]Page, int, error) {
	in := bufio.NewReaderSize(io.LimitReader(out, int64(most+1)*(6*maxPageText+1000)), 64<<10)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, 0, errors.New("the PDF is damaged, or took too much to read")
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return nil, 0, errors.New("the PDF is damaged, or took too much to read")
	}
	if h.Error != "" || h.Total < 0 || h.Total > maxPages {
		return nil, 0, fmt.Errorf("the PDF cannot be read: %s", clean(h.Error, 200))
	}
	return readPages(in, most), h.Total, nil
}

// readPages reads as many pages as came whole.
func readPages(in *bufio.Reader, most int) []Page {
	var pages []Page
	for len(pages) < most {
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

func clean(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD")
}

// Pictures returns pages as JPEG pictures, the first counted from 1. The error
// is ErrNoPoppler where there is nothing that draws them.
func Pictures(ctx context.Context, path string, first, last int) ([][]byte, error) {
	program, err := exec.LookPath("pdftoppm")
	if err != nil {
		return nil, ErrNoPoppler
	}
	dir, err := os.MkdirTemp("", "aloft-pdf-")
	if err != nil {
		return nil, fmt.Errorf("draw pages: %w", err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeoutCause(ctx, timeLimit, fmt.Errorf("the pages could not be drawn within %v", timeLimit))
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
		return nil, errors.New("pdftoppm drew no page")
	}
	slices.Sort(files) // it pads the numbers
	var pictures [][]byte
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("draw pages: %w", err)
		}
		pictures = append(pictures, data)
	}
	return pictures, nil
}

// limited keeps the first bytes of what is written.
type limited struct {
	to   *bytes.Buffer
	room int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.room-l.to.Len())
	l.to.Write(p[:n])
	return len(p), nil
}
