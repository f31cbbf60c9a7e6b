package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"aloft/internal/redact"
)

// A Source is the artifacts folder of a machine. Its data is untrusted; this
// package limits it.
type Source interface {
	// List returns files. more is true if there are further files that it left
	// out.
	List(ctx context.Context) (files []Remote, more bool, err error)
	// Read writes the contents of a file to the writer to.
	Read(ctx context.Context, name string, to io.Writer) error
}

// Remote is a file in a machine, as the machine reports it.
type Remote struct {
	Name     string
	Size     int64
	Modified time.Time
	SHA256   string
}

// Left is a file that was not stored, and why.
type Left struct{ Name, Why string }

// errTooLong is the reason for a file that exceeds the limits.
var errTooLong = errors.New("it exceeds the size limit")

// Collect copies new and changed files from the machine. It keeps files that
// were deleted in the machine, because artifacts outlive machines. left lists
// the files that it could not store.
func (s *Store) Collect(ctx context.Context, agentID string, from Source, secrets *redact.Redactor) (left []Left, err error) {
	unlock, err := s.changing.Lock(ctx, agentID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	there, more, err := from.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("artifacts of %s: %w", agentID, err)
	}
	if len(there) == 0 {
		return nil, nil
	}
	list, err := s.List(ctx, agentID)
	if err != nil {
		return nil, err
	}
	kept := map[string]File{}
	var size int64
	for _, f := range list {
		kept[f.Name] = f
		size += f.Size
	}
	leave := func(name string, why error) { left = append(left, Left{name, why.Error()}) }
	if more {
		leave("…", errors.New("there are too many files to list"))
	}
	var replaced []string
	changed := false
	for _, r := range there {
		old, found := kept[r.Name]
		room := min(s.limits.FileSize, s.limits.Size-size+old.Size)
		switch err := checkName(r.Name); {
		case found && old.Seen == r.SHA256:
			continue
		case err != nil:
			leave(r.Name, err)
		case secrets.Contains([]byte(r.Name)):
			leave("[REDACTED]", errors.New("its name contains a secret"))
		case !found && len(kept) >= s.limits.Files:
			leave(r.Name, fmt.Errorf("the limit of %d files is reached", s.limits.Files))
		case r.Size > room:
			leave(r.Name, errTooLong)
		default:
			f, err := s.copy(ctx, agentID, r, from, secrets, room)
			if ctx.Err() != nil {
				return left, context.Cause(ctx)
			}
			if err != nil {
				leave(r.Name, err)
				continue
			}
			kept[r.Name], changed = f, true
			size += f.Size - old.Size
			if found && old.Key != f.Key {
				replaced = append(replaced, old.Key)
			}
		}
	}
	if !changed {
		return left, nil
	}
	if err := s.writeIndex(ctx, agentID, kept); err != nil {
		return left, fmt.Errorf("artifacts of %s: %w", agentID, err)
	}
	for _, key := range replaced {
		_ = s.bucket.Delete(ctx, agentID+"/"+key) // on failure, the old file is removed with the agent
	}
	return left, nil
}

func (s *Store) writeIndex(ctx context.Context, agentID string, kept map[string]File) error {
	list := make([]File, 0, len(kept))
	for _, f := range kept {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return s.bucket.WriteAll(ctx, indexKey(agentID), text, &blob.WriterOptions{ContentType: "application/json"})
}

// copy copies one file to a key that is derived from its name and contents.
func (s *Store) copy(ctx context.Context, agentID string, r Remote, from Source, secrets *redact.Redactor, room int64) (File, error) {
	id := sha256.Sum256([]byte(r.Name + "\x00" + r.SHA256))
	f := File{Name: r.Name, Modified: r.Modified.UTC(), Seen: r.SHA256, Key: hex.EncodeToString(id[:])}
	if now := time.Now().UTC(); f.Modified.After(now) || f.Modified.Before(time.Unix(0, 0)) {
		f.Modified = now // replace an impossible time: the machine's clock is not trusted
	}
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	object, err := s.bucket.NewWriter(ctx, agentID+"/"+f.Key, &blob.WriterOptions{
		ContentType: "application/octet-stream", DisableContentTypeDetection: true,
	})
	if err != nil {
		return File{}, err
	}
	to := &sieve{to: object, secrets: secrets, room: room}
	err = from.Read(ctx, r.Name, to)
	if err == nil {
		err = to.flush()
	}
	if err != nil {
		abort() // after abort, Close does not create the object
		_ = object.Close()
		return File{}, err
	}
	f.Size = to.written
	return f, object.Close()
}

// peek is how many bytes of a file are examined to distinguish text from binary
// data.
const peek = 8 << 10

// sieve redacts secrets in text files, and limits the length.
type sieve struct {
	to      io.Writer
	secrets *redact.Redactor
	room    int64 // remaining bytes

	head    []byte         // buffered until the type of the file is known
	known   bool           // whether the type is known
	stream  *redact.Stream // redacts text; nil for binary data
	written int64
}

// Write implements [io.Writer].
func (s *sieve) Write(b []byte) (int, error) {
	n := len(b)
	if !s.known {
		s.head = append(s.head, b...)
		if len(s.head) < peek {
			return n, nil
		}
		b = s.know()
	}
	return n, s.pass(b)
}

// know detects whether the file is text, as git does: text has no NUL byte at
// the beginning.
func (s *sieve) know() (head []byte) {
	head, s.head, s.known = s.head, nil, true
	if bytes.IndexByte(head[:min(len(head), peek)], 0) < 0 {
		s.stream = s.secrets.Stream()
	}
	return head
}

func (s *sieve) pass(b []byte) error {
	if s.stream != nil {
		b = s.stream.Next(b)
	}
	return s.write(b)
}

func (s *sieve) write(b []byte) error {
	if s.written += int64(len(b)); s.written > s.room {
		return errTooLong
	}
	_, err := s.to.Write(b)
	return err
}

// flush writes the buffered bytes.
func (s *sieve) flush() error {
	if !s.known {
		if err := s.pass(s.know()); err != nil {
			return err
		}
	}
	if s.stream == nil {
		return nil
	}
	return s.write(s.stream.Flush())
}
