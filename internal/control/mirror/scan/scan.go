// Package scan searches the objects of a push for secrets. It reads a stream of
// git and keeps no object in memory.
package scan

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"aloft/internal/redact"
	"aloft/internal/text"
)

// maxFindings is how many findings are reported to the pushing user.
const maxFindings = 5

// maxHead is how many bytes of an unexpected answer are quoted.
const maxHead = 200

// maxPath is how many bytes of a path are kept in memory.
const maxPath = 4 << 10

// Location is the location of an object: a file, a folder, or a commit itself.
type Location struct {
	id, commit string
	path       string // "" for a commit and for the root folder
	kind       string // commit, tree or blob
}

// String describes the location for the pushing user. The caller redacts it.
func (p Location) String() string {
	commit := "commit " + p.commit[:min(len(p.commit), 12)]
	switch p.kind {
	case "commit":
		return "the message or the author of " + commit
	case "tree":
		return "a file's name in the folder /" + p.path + " in " + commit
	}
	return p.path + " in " + commit
}

// Scan reads objects one by one.
type Scan struct {
	secrets   *redact.Redactor
	locations chan Location // locations of the requested objects, with a small buffer
	listErr   error         // error of the listing; read it after locations is closed
	objects   *bufio.Reader // output of git cat-file
	left      int64         // bytes that may still be read
}

// ErrTooMuch is the error of a push whose objects are larger than the limit.
var ErrTooMuch = errors.New("the objects are larger than the limit")

// New returns a scan for secrets. objects is the output of "git cat-file
// --batch" for the requests that [Scan.List] writes, and the sizes of all
// objects may add up to at most most bytes.
func New(secrets *redact.Redactor, objects io.Reader, most int64) *Scan {
	return &Scan{secrets: secrets, objects: bufio.NewReaderSize(objects, 64<<10), left: most, locations: make(chan Location, 256)}
}

// List reads the output of "git rev-list --objects" and requests each object
// from git cat-file.
func (s *Scan) List(ctx context.Context, listed io.Reader, ask io.Writer) (err error) {
	defer func() {
		s.listErr = err
		close(s.locations)
	}()
	commit := ""
	for lines := bufio.NewReaderSize(listed, maxPath); ; {
		line, err := text.ReadLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, path, named := strings.Cut(line, " ")
		if !named { // trees and files have a name, possibly empty
			commit = id
		}
		select {
		case s.locations <- Location{id: id, commit: commit, path: path}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := io.WriteString(ask, id+"\n"); err != nil {
			return err
		}
	}
}

// Run reads every object until there are enough findings, and returns where
// secrets were found. List must run at the same time.
func (s *Scan) Run() (found []Location, err error) {
	for p := range s.locations {
		has, err := s.object(&p)
		if err != nil {
			return nil, err
		}
		if has {
			if found = append(found, p); len(found) == maxFindings {
				return found, nil
			}
		}
	}
	return found, s.listErr
}

// object reads one object from git cat-file, and reports whether it contains a
// secret.
func (s *Scan) object(p *Location) (bool, error) {
	head, err := s.objects.ReadString('\n')
	if err != nil {
		return false, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[0] != p.id {
		return false, fmt.Errorf("git cat-file says %q", text.Head(head, maxHead))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return false, fmt.Errorf("git cat-file says %q", text.Head(head, maxHead))
	}
	if s.left -= size; s.left < 0 {
		return false, ErrTooMuch
	}
	p.kind = fields[1]
	finder := s.secrets.Finder()
	body := &io.LimitedReader{R: s.objects, N: size}
	// Scan trees in raw form, which contains the names verbatim.
	if _, err := io.Copy(search{finder}, body); err != nil {
		return false, err
	}
	if body.N > 0 {
		return false, io.ErrUnexpectedEOF
	}
	if _, err := s.objects.Discard(1); err != nil { // the line break after the object
		return false, err
	}
	return finder.Found(nil), nil
}

// search is a writer that feeds a finder.
type search struct{ of *redact.Finder }

func (f search) Write(p []byte) (int, error) {
	f.of.Found(p)
	return len(p), nil
}
