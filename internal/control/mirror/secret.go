package mirror

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"aloft/internal/redact"
)

// maxScan is the maximum unpacked size in bytes of all objects of one push.
const maxScan = 64 << 30

// maxFindings is how many findings are reported to the pushing user.
const maxFindings = 5

// maxPath is how many bytes of a path are kept.
const maxPath = 4 << 10

// location is the location of an object: a file, a folder, or a commit itself.
type location struct {
	id, commit string
	path       string // "" for a commit and for the root folder
	kind       string // commit, tree or blob
}

// String describes the location for the pushing user. The caller redacts it.
func (p location) String() string {
	commit := "commit " + p.commit[:min(len(p.commit), 12)]
	switch p.kind {
	case "commit":
		return "the message or the author of " + commit
	case "tree":
		return "a file's name in the folder /" + p.path + " in " + commit
	}
	return p.path + " in " + commit
}

// secrets searches the file contents, file names and commit messages of a push
// for secrets. It streams the objects from git once and keeps none in memory.
func (m *Mirror) secrets(ctx context.Context, u Update, objects string) (Outcome, error) {
	if u.Secrets.Empty() {
		return Outcome{}, nil
	}
	// Stop both commands on every return.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// List objects after their commit and the oldest commit first, since that is
	// the one to fix.
	listed, list := io.Pipe()
	defer listed.Close()
	running.Go(func() {
		args := []string{"rev-list", "--objects", "--in-commit-order", "--reverse", "--stdin", "--not", "--all"}
		_, _, err := m.git(ctx, invocation{args: args, objects: objects, stdin: strings.NewReader(u.New + "\n"), stdout: list})
		list.CloseWithError(err)
	})
	asked, ask := io.Pipe()
	defer asked.Close()
	told, tell := io.Pipe()
	defer told.Close()
	running.Go(func() {
		_, _, err := m.git(ctx, invocation{args: []string{"cat-file", "--batch"}, objects: objects, stdin: asked, stdout: tell})
		tell.CloseWithError(err)
	})
	s := &scan{secrets: u.Secrets, objects: bufio.NewReaderSize(told, 64<<10), left: maxScan, locations: make(chan location, 256)}
	running.Go(func() { ask.CloseWithError(s.list(ctx, listed, ask)) })
	err := s.run()
	switch {
	case ctx.Err() != nil:
		return Outcome{}, context.Cause(ctx)
	case err != nil:
		return Outcome{}, fmt.Errorf("look for secrets in a push: %w", err)
	case s.left < 0:
		return rejected("too_large", "push unpacks to too much",
			fmt.Sprintf("The push contains more than %d GiB, the most that this server scans for secrets.", maxScan>>30)), nil
	case len(s.found) > 0:
		return refuseSecret(u, s.found), nil
	}
	return Outcome{}, nil
}

// refuseSecret returns a refusal that names the places but not the values.
func refuseSecret(u Update, found []location) Outcome {
	words := []string{"The push contains a secret, so it was refused:"}
	for _, p := range found {
		words = append(words, "  "+Plain(u.Secrets.String(p.String())))
	}
	words = append(words,
		"Remove the value from every commit that contains it (git commit --amend, git rebase -i), and push again.",
		"Where the value is needed, use the variable that contains it.")
	return rejected(CodeSecretInPush, "secret in push", strings.Join(words, "\n"))
}

// scan reads objects one by one.
type scan struct {
	secrets   *redact.Redactor
	locations chan location // locations of the requested objects, with a small buffer
	listErr   error         // error of the listing; read it after locations is closed
	objects   *bufio.Reader // output of git cat-file
	left      int64         // bytes that may still be read; negative once the limit is exceeded
	found     []location
}

// list requests each object listed by git rev-list from git cat-file.
func (s *scan) list(ctx context.Context, listed io.Reader, ask io.Writer) (err error) {
	defer func() {
		s.listErr = err
		close(s.locations)
	}()
	commit := ""
	for lines := bufio.NewReaderSize(listed, maxPath); ; {
		line, err := readLine(lines)
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
		case s.locations <- location{id: id, commit: commit, path: path}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := io.WriteString(ask, id+"\n"); err != nil {
			return err
		}
	}
}

// run reads every object until there are enough findings.
func (s *scan) run() error {
	for p := range s.locations {
		has, err := s.object(&p)
		if err != nil || s.left < 0 {
			return err
		}
		if has {
			if s.found = append(s.found, p); len(s.found) == maxFindings {
				return nil
			}
		}
	}
	return s.listErr
}

// object reads one object from git cat-file, and reports whether it contains a
// secret.
func (s *scan) object(p *location) (bool, error) {
	head, err := s.objects.ReadString('\n')
	if err != nil {
		return false, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 || fields[0] != p.id {
		return false, fmt.Errorf("git cat-file says %q", Plain(head))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return false, fmt.Errorf("git cat-file says %q", Plain(head))
	}
	if s.left -= size; s.left < 0 {
		return false, nil
	}
	p.kind = fields[1]
	finder := s.secrets.Finder()
	body := &io.LimitedReader{R: s.objects, N: size}
	// Scan trees in raw form, which contains the names verbatim.
	if _, err := io.Copy(found{finder}, body); err != nil {
		return false, err
	}
	if body.N > 0 {
		return false, io.ErrUnexpectedEOF
	}
	if _, err := s.objects.Discard(1); err != nil { // the line break after it
		return false, err
	}
	return finder.Found(nil), nil
}

// found is a writer that feeds a finder.
type found struct{ of *redact.Finder }

func (f found) Write(p []byte) (int, error) {
	f.of.Found(p)
	return len(p), nil
}

// readLine reads a line, and truncates a very long one.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	kept := string(bytes.TrimSuffix(line, []byte("\n")))
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && kept != "" {
		err = io.ErrUnexpectedEOF
	}
	return kept, err
}
