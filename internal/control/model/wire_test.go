package model

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answer is a transport that replies to every request with the same body.
type answer struct{ body io.ReadCloser }

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: a.body, Request: r}, nil
}

func body(t *testing.T, b io.ReadCloser) io.ReadCloser {
	t.Helper()
	w := NewWire(&http.Client{Transport: answer{b}}, "secret")
	res, err := w.Client.Get("http://model.invalid/")
	if err != nil {
		t.Fatal(err)
	}
	return res.Body
}

func TestASilentStreamIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		b := body(t, ours)
		go func() {
			for range 3 {
				<-time.After(idleTimeout - time.Second) // slow, but never silent for longer than the timeout
				_, _ = theirs.Write([]byte("x"))
			}
		}()
		begun := time.Now()
		got, err := io.ReadAll(b)
		if string(got) != "xxx" || ReasonOf(err) != Cut {
			t.Errorf("%q, %v", got, err)
		}
		if d := time.Since(begun); d != 4*idleTimeout-3*time.Second {
			t.Errorf("cut after %v", d)
		}
	})
}

type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) { e.read += int64(len(p)); return len(p), nil }
func (e *endless) Close() error               { return nil }

func TestAnEndlessAnswerEnds(t *testing.T) {
	src := &endless{}
	_, err := io.Copy(io.Discard, body(t, src))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != BadReply || e.Temporary() {
		t.Errorf("%v", err)
	}
	if src.read > maxReply {
		t.Errorf("%d bytes were read", src.read)
	}
}

func TestTheDialIsHasty(t *testing.T) {
	if d := dialTimeout; d > 5*time.Second {
		t.Errorf("dial timeout %v", d)
	}
	w := NewWire(nil)
	_, err := w.Client.Get("http://no-such-host.invalid/")
	if e, ok := errors.AsType[*Error](w.Error(t.Context(), err)); !ok || e.Reason != Unreachable || !strings.Contains(e.Message, "base_url") {
		t.Errorf("%v", w.Error(t.Context(), err))
	}
}

func TestErrorIsTheCauseOfAnEndedContext(t *testing.T) {
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := NewWire(nil).Error(ctx, io.EOF); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func TestTheKeyIsInNoError(t *testing.T) {
	const key = "sk/secret+key=="
	w := NewWire(nil, key)
	for _, err := range []error{
		errors.New("malformed HTTP response \"" + key + "\""),
		StreamFailure([]byte(`{"error":{"message":"you sent sk/secret+key== and sk%2Fsecret%2Bkey%3D%3D"}}`)),
		&net.OpError{Op: "dial", Err: errors.New(key)},
	} {
		for err := w.Error(t.Context(), err); err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
	}))
	defer s.Close()
	if res, err := NewWire(nil, "secret").Client.Get(s.URL); err == nil {
		_ = res.Body.Close()
		t.Error("a header of 1 MiB was accepted")
	}
}
