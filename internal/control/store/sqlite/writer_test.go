package sqlite

import (
	"context"
	"errors"
	"testing"

	"aloft/internal/account"
	"aloft/internal/control/store/table"
	"aloft/internal/control/store/table/query"
)

// hold blocks the writer until release is called. Writes that are requested in
// the meantime become one batch.
func hold(t *testing.T, s *Store) (release func()) {
	t.Helper()
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Write(context.Background(), "", func(*table.Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	return func() {
		close(end)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// queue requests a write, and returns when the write is in the queue.
func queue(ctx context.Context, s *Store, do func(*table.Tx) error) <-chan error {
	s.writer.mu.Lock()
	before := len(s.writer.queue)
	s.writer.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- s.Write(ctx, "", do) }()
	for {
		s.writer.mu.Lock()
		n := len(s.writer.queue)
		s.writer.mu.Unlock()
		if n > before {
			return done
		}
	}
}

func TestFaultOfOneIsNotTheOthers(t *testing.T) {
	s := openTest(t, t.TempDir())
	add := func(name string, err error) func(*table.Tx) error {
		return func(tx *table.Tx) error {
			tx.Wrote = true
			_, adding := tx.Q.AddUser(tx.Ctx, query.AddUserParams{Email: name})
			return errors.Join(adding, err)
		}
	}
	fault := errors.New("half done")
	release := hold(t, s)
	first := queue(t.Context(), s, add("first", nil))
	bad := queue(t.Context(), s, add("bad", fault))
	last := queue(t.Context(), s, add("last", nil))
	release()
	if err := errors.Join(<-first, <-last); err != nil {
		t.Errorf("the others failed: %v", err)
	}
	if err := <-bad; !errors.Is(err, fault) {
		t.Errorf("error is %v; want the fault", err)
	}
	var names []string
	for id := range int64(10) {
		u, err := s.User(t.Context(), id)
		if err == nil {
			names = append(names, u.Email)
		}
	}
	if len(names) != 2 || names[0] != "first" || names[1] != "last" {
		t.Errorf("users are %v; want first and last", names)
	}
}

func TestRequestThatWasGivenUpIsNotWritten(t *testing.T) {
	s := openTest(t, t.TempDir())
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	release := hold(t, s)
	given := queue(ctx, s, func(*table.Tx) error {
		t.Error("it was written though its caller was told that it was not")
		return nil
	})
	cancel(why)
	if err := <-given; !errors.Is(err, why) {
		t.Errorf("error is %v; want the cause", err)
	}
	release()
	if _, err := s.AddUser(t.Context(), account.User{}); err != nil {
		t.Error(err)
	}
}
