package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"unicode/utf8"
)

// FuzzRing checks that a read returns the bytes that were written at its
// offset, and that missing bytes are older than those that the ring keeps.
func FuzzRing(f *testing.F) {
	f.Add([]byte("hello"), 3, 4, 2)
	f.Add(bytes.Repeat([]byte("0123456789"), 20), 7, 16, 5)
	f.Fuzz(func(t *testing.T, all []byte, piece, size, read int) {
		piece, size, read = 1+abs(piece)%50, 4+abs(size)%64, 4+abs(read)%50
		r := newRing(size)
		var from int64
		buf := make([]byte, read)
		for i := 0; i < len(all); i += piece {
			part := all[i:min(i+piece, len(all))]
			if n, err := r.Write(part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
			n, at, err := r.read(t.Context(), from, buf)
			if err != nil || at < from || !bytes.Equal(buf[:n], all[at:at+int64(n)]) {
				t.Fatalf("%d bytes at %d from %d, %v", n, at, from, err)
			}
			if at > from && int64(i+len(part))-at > int64(size) {
				t.Fatalf("at %d of %d: more than the ring holds", at, i+len(part))
			}
			from = at + int64(n)
			if start, end := r.offsets(); end != int64(i+len(part)) || end-start > int64(size) {
				t.Fatalf("offsets %d, %d", start, end)
			}
		}
		r.close()
		for {
			n, at, err := r.read(t.Context(), from, buf)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil || !bytes.Equal(buf[:n], all[at:at+int64(n)]) {
				t.Fatal(n, at, err)
			}
			from = at + int64(n)
		}
	})
}

func abs(n int) int {
	if n < 0 {
		return -(n + 1)
	}
	return n
}

func TestRingWaits(t *testing.T) {
	t.Parallel()
	r := newRing(8)
	got := make(chan string)
	go func() {
		b := make([]byte, 8)
		n, _, err := r.read(t.Context(), 0, b)
		if err != nil {
			t.Error(err)
		}
		got <- string(b[:n])
	}()
	_, _ = r.Write([]byte("late"))
	if s := <-got; s != "late" {
		t.Errorf("%q", s)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrNoProgress)
	if _, _, err := r.read(ctx, 4, make([]byte, 1)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v, want the cause", err)
	}
	// Truncated output begins with a whole character.
	_, _ = r.Write([]byte("ääääää"))
	b := make([]byte, 8)
	n, at, err := r.read(t.Context(), 0, b)
	if err != nil || !utf8.Valid(b[:n]) || at < 8 {
		t.Errorf("%q at %d, %v", b[:n], at, err)
	}
}
