package bucket

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"gocloud.dev/blob"
)

// open opens a bucket of an S3 server that answers with h.
func open(t *testing.T, h http.HandlerFunc) *blob.Bucket {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key", "AWS_EC2_METADATA_DISABLED": "true", "AWS_MAX_ATTEMPTS": "1"} {
		t.Setenv(name, value)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	b, err := Open(t.Context(), "s3://bucket?region=us-east-1&use_path_style=true&prefix=p/&endpoint="+s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestReplies checks that a store's replies are limited, and objects are not.
func TestReplies(t *testing.T) {
	endless := func(w http.ResponseWriter, status int, piece string) {
		if status != http.StatusOK {
			w.WriteHeader(status)
		}
		mebibyte := []byte(strings.Repeat(piece, (1<<20)/len(piece)))
		for range 64 {
			if _, err := w.Write(mebibyte); err != nil {
				return
			}
		}
	}
	read := func(ctx context.Context, b *blob.Bucket) error { return b.Download(ctx, "k", io.Discard, nil) }
	list := func(ctx context.Context, b *blob.Bucket) error {
		_, err := Next(ctx, b.List(nil))
		return err
	}
	for name, c := range map[string]struct {
		do  func(context.Context, *blob.Bucket) error
		h   http.HandlerFunc
		err string // part of the error; "" for none
	}{
		"object": {read, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/bucket/p/k" {
				t.Errorf("asked for %s", r.URL.Path)
			}
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("Content-Length", fmt.Sprint(64<<20))
			endless(w, http.StatusOK, "x")
		}, ""},
		"refusal":        {read, func(w http.ResponseWriter, _ *http.Request) { endless(w, http.StatusForbidden, "x") }, "too large"},
		"nested refusal": {read, func(w http.ResponseWriter, _ *http.Request) { endless(w, http.StatusForbidden, "<a>") }, "too large"},
		"list": {list, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult>")
			endless(w, http.StatusOK, "<Contents></Contents>")
		}, "too large"},
		"list without fields": {list, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<ListBucketResult><Contents/></ListBucketResult>")
		}, "is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, c.h)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := c.do(t.Context(), b)
			runtime.ReadMemStats(&after)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error is %.200v, want %q", err, c.err)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 150 {
				t.Errorf("it allocates %d MiB", used)
			}
		})
	}
}
