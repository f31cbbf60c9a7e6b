package machinerpc

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// A reply that nobody reads is not buffered beyond a small window.
func TestUnreadReplyHoldsLittle(t *testing.T) {
	t.Parallel()
	wrote := make(chan int64, 1)
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Protocols: &protocols, ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			n, _ := io.Copy(w, io.LimitReader(zeros{}, 16<<20))
			wrote <- n
		}),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client := NewClient(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", l.Addr().String())
	})
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://pod/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := <-wrote; n > 1<<20 {
		t.Errorf("the machine could send %d KiB that nobody read", n>>10)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
