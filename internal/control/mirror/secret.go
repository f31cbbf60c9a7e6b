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

// maxScan bounds, in bytes, what one push may unfold to, all objects together.
const maxScan = 64 << 30

// maxFindings is how many places are named to the person who pushes.
const maxFindings = 5

// maxPath is how much of a path is kept, in bytes.
const maxPath = 4 << 10

// location is where an object stands: a file, a folder, or a commit itself.
type location struct {
	id, commit string
	path       string // "" for the commit, and for the topmost folder
	kind       string // commit, tree, blob
}

// String says it to the person who pushes, whose secrets are taken out of it.
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

// secrets looks for secrets in everything that the push brings: contents and
// names of files, and what commits say. It reads the objects once, as they come
// out of git, and holds none of them.
func (m *Mirror) secrets(ctx context.Context, u Update, env []string) (Outcome, error) {
	if u.Secrets.Empty() {
		return Outcome{}, nil
	}
	// When this returns, in whatever way, both commands end.
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	// Objects come after the commit that brings them, and the oldest commit
	// comes first: it is the one to mend.
	listed, list := io.Pipe()
	defer listed.Close()
	running.Go(func() {
		args := []string{"rev-list", "--objects", "--in-commit-order", "--reverse", "--stdin", "--not", "--all"}
		_, _, err := m.all.git(ctx, invocation{args: args, dir: m.dir, env: env, stdin: strings.NewReader(u.New + "\n"), stdout: list})
		list.CloseWithError(err)
	})
	asked, ask := io.Pipe()
	defer asked.Close()
	told, tell := io.Pipe()
	defer told.Close()
	running.Go(func() {
		_, _, err := m.all.git(ctx, invocation{args: []string{"cat-file", "--batch"}, dir: m.dir, env: env, stdin: asked, stdout: tell})
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
		return rejected("too_large", "push unfolds to too much",
			fmt.Sprintf("The push holds more than the %d GiB that this server looks through.", maxScan>>30)), nil
	case len(s.found) > 0:
		return refuseSecret(u, s.found), nil
	}
	return Outcome{}, nil
}

// refuseSecret names the places, and never the value.
func refuseSecret(u Update, found []location) Outcome {
	words := []string{"The push holds a secret, so it was refused:"}
	for _, p := range found {
		words = append(words, "  "+Plain(u.Secrets.String(p.String())))
	}
	words = append(words,
		"Take the value out of every commit that has it (git commit --amend, git rebase -i), and push again.",
		"Where it is needed, name the variable that holds it.")
	return rejected(CodeSecretInPush, "secret in push", strings.Join(words, "\n"))
}

// scan reads objects one by one.
type scan struct {
	secrets   *redact.Redactor
	locations chan location // of the objects that were asked for; few wait
	listErr   error         // why there are no more; read it when places is closed
	objects   *bufio.Reader // what cat-file says of them
	left      int64         // bytes that may still be read; less than none when there were too many
	found     []location
}

// list asks cat-file for each object of rev-list's list.
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
		if !named { // trees and files have a name, if an empty one
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

// run reads every object, until enough was found.
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

// object reads what cat-file says of an object, and reports whether it holds a
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
	// A tree is looked through as it is: names stand in it in full.
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

// found gives a finder what is written to it.
type found struct{ of *redact.Finder }

func (f found) Write(p []byte) (int, error) {
	f.of.Found(p)
	return len(p), nil
}

// readLine reads a line; of a very long one, its beginning.
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
