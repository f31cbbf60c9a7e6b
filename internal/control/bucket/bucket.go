// Package bucket opens object stores. A store is trusted with the data in it, and not
// with the memory of the server: its replies are limited.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // supports file:// URLs
	_ "gocloud.dev/blob/s3blob"   // supports s3:// URLs
)

// maxDocument is the maximum size in bytes of a reply that is not an object. Lists
// are the largest: 1,000 keys of at most 1 KiB. The SDK reads these replies to their end,
// and needs up to 50 times as much memory.
const maxDocument = 2 << 20

// Open opens the bucket at a URL: file:///folder or s3://name?region=….
func Open(ctx context.Context, rawURL string) (*blob.Bucket, error) {
	b, err := blob.OpenBucket(ctx, rawURL)
	if err != nil {
		return nil, err
	}
	var client *s3.Client
	if b.As(&client) {
		// A URL cannot name the HTTP client, and opening the bucket with a client of
		// its own would lose the other parameters of the URL.
		*client = *s3.New(client.Options(), func(o *s3.Options) { o.HTTPClient = bounded{o.HTTPClient} })
	}
	return b, nil
}

// bounded limits the replies of a store.
type bounded struct{ next s3.HTTPClient }

// Do implements [s3.HTTPClient].
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.next.Do(r)
	if err != nil || isObject(r, resp) {
		return resp, err
	}
	resp.Body = &document{resp.Body, maxDocument}
	return resp, nil
}

// isObject reports whether a reply contains an object, which its reader limits.
func isObject(r *http.Request, resp *http.Response) bool {
	return r.Method == http.MethodGet && resp.StatusCode/100 == 2 && !r.URL.Query().Has("list-type")
}

// errTooLarge is the error for a reply above maxDocument.
var errTooLarge = errors.New("the object store's reply is too large")

type document struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (d *document) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	if d.left -= n; d.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// Next returns the next object of a list, or [io.EOF]. A list that lacks required
// fields is an error: the driver would panic.
func Next(ctx context.Context, list *blob.ListIterator) (object *blob.ListObject, err error) {
	defer func() {
		if p := recover(); p != nil {
			object, err = nil, fmt.Errorf("the object store's list is invalid: %v", p)
		}
	}()
	return list.Next(ctx)
}
