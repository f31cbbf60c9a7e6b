package redact

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedText
		r := New(map[string]string{"a": token})
		l := NewLive(&out, func() *Redactor { return r })
		write := func(text string) {
			t.Helper()
			if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		}
		want := func(text string) {
			t.Helper()
			synctest.Wait()
			if got := out.String(); got != text {
				t.Errorf("written is %q, want %q", got, text)
			}
		}
		write("name: g")
		want("name: ")
		time.Sleep(Quiet - 1)
		write("h") // the text continues
		time.Sleep(Quiet - 1)
		want("name: ")
		time.Sleep(time.Nanosecond)
		want("name: gh")
		write("\n" + token[:20])
		time.Sleep(Quiet)
		want("name: gh\n" + token[:7])
		write(token[20:] + "\nlater-secret g")
		want("name: gh\n" + token[:7] + Marker + "\nlater-secret ")
		r = New(map[string]string{"a": token, "b": "later-secret"})
		write("h later-secret gh")
		want("name: gh\n" + token[:7] + Marker + "\nlater-secret gh " + Marker + " ")
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(Quiet)
		want("name: gh\n" + token[:7] + Marker + "\nlater-secret gh " + Marker + " gh")
	})
}

// lockedText is a buffer that timers write to concurrently.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestLiveWithoutSecrets(t *testing.T) {
	var out strings.Builder
	l := NewLive(&out, nil)
	if _, err := l.Write([]byte(token)); err != nil || out.String() != token {
		t.Errorf("%q, %v", out.String(), err)
	}
}

type broken struct{ error }

func (b broken) Write([]byte) (int, error) { return 0, b.error }

func TestLiveToABrokenWriter(t *testing.T) {
	gone := errors.New("gone")
	l := NewLive(broken{gone}, nil)
	if n, err := l.Write([]byte("x")); n != 0 || !errors.Is(err, gone) {
		t.Errorf("%d, %v", n, err)
	}
	if err := l.Close(); !errors.Is(err, gone) {
		t.Error(err)
	}
}
