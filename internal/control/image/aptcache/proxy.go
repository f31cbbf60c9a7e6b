// Package aptcache is an HTTP proxy for apt that keeps the packages it
// downloads, so that the next build of an image downloads only changed
// packages.
//
// apt sends several requests over a connection before it reads the first reply
// (pipelining). The proxy starts a download for each request at once, and
// replies in order, so packages arrive in parallel. A download that breaks off
// continues where it stopped, also in a later process. apt verifies what it
// receives against the digests that the distribution has signed, so the proxy
// need not trust a mirror.
package aptcache

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

const (
	maxAhead     = 16 // unanswered requests per connection; apt sends at most 10
	maxDownloads = 8  // concurrent downloads
	maxHeader    = 64 << 10
)

// Proxy is a running proxy on a loopback port.
type Proxy struct {
	*folder
	client   *http.Client
	slots    chan struct{}
	listener net.Listener
	password string
	stop     context.CancelFunc
	running  sync.WaitGroup
}

// Start runs a proxy that keeps packages in dir, which it creates. Packages that
// were not used for [KeptFor] are removed. Close must be called.
func Start(dir string) (*Proxy, error) {
	kept, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		stop()
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost = maxDownloads + 2 // two more for requests that are not for packages
	transport.DisableCompression = true
	p := &Proxy{
		folder: kept, client: &http.Client{Transport: transport}, slots: make(chan struct{}, maxDownloads),
		listener: l, password: rand.Text(), stop: stop,
	}
	p.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(ctx, conn) })
		}
	})
	return p, nil
}

// URL is the address for apt's http_proxy. It contains a password, so that
// other users of the host cannot use the proxy.
func (p *Proxy) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword("apt", p.password), Host: p.listener.Addr().String()}
	return u.String()
}

// Close stops the proxy and its downloads. The next proxy continues partial
// downloads.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.stop()
	p.running.Wait()
	p.client.CloseIdleConnections()
	return err
}

// serve answers the requests of a connection in order.
func (p *Proxy) serve(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // interrupts a blocked read or write
	defer func() { cancel(); _ = conn.Close() }()
	replies := make(chan chan *http.Response, maxAhead)
	p.running.Go(func() {
		defer close(replies)
		limited := &headerLimit{Conn: conn}
		in := bufio.NewReader(limited)
		for {
			limited.left = maxHeader
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			reply := make(chan *http.Response, 1)
			select {
			case replies <- reply:
			case <-ctx.Done():
				return
			}
			p.running.Go(func() { reply <- p.answer(req.WithContext(ctx)) }) //nolint:bodyclose // serve closes it
		}
	})
	failed := false
	for reply := range replies { // drain the channel, so that every body is closed
		resp := <-reply
		if !failed && resp.Write(conn) != nil {
			failed = true
			cancel()
		}
		_ = resp.Body.Close()
	}
}

// headerLimit ends a connection when the header of a request exceeds maxHeader.
type headerLimit struct {
	net.Conn
	left int
}

func (h *headerLimit) Read(b []byte) (int, error) {
	if h.left <= 0 {
		return 0, errors.New("the request is too long")
	}
	n, err := h.Conn.Read(b[:min(len(b), h.left)])
	h.left -= n
	return n, err
}

// answer returns the reply to a request. It is never nil.
func (p *Proxy) answer(req *http.Request) *http.Response {
	_, password, _ := basicAuth(req.Header.Get("Proxy-Authorization"))
	switch {
	case subtle.ConstantTimeCompare([]byte(password), []byte(p.password)) != 1:
		return refuse(req, http.StatusProxyAuthRequired, "the password is missing or wrong")
	case req.Method != http.MethodGet || req.URL.Scheme != "http" || req.URL.Host == "":
		return refuse(req, http.StatusMethodNotAllowed, "only GET of http:// URLs")
	}
	out, err := http.NewRequestWithContext(req.Context(), http.MethodGet, req.URL.String(), nil)
	if err != nil {
		return refuse(req, http.StatusBadRequest, err.Error())
	}
	out.Header = req.Header.Clone()
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "Connection"} {
		out.Header.Del(name)
	}
	var resp *http.Response
	if isPackage(req.URL) {
		resp, err = p.fetch(out)
	} else {
		resp, err = p.client.Do(out)
	}
	if err != nil {
		return refuse(req, http.StatusBadGateway, err.Error())
	}
	resp.Request, resp.Close = req, false
	return resp
}

// isPackage reports whether the URL names a package. The file at such a URL
// never changes, because its name contains the version and apt refuses a
// changed file.
func isPackage(u *url.URL) bool { return strings.HasSuffix(u.Path, ".deb") && u.RawQuery == "" }

func basicAuth(header string) (user, password string, ok bool) {
	text, ok := strings.CutPrefix(header, "Basic ")
	if !ok {
		return "", "", false
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", "", false
	}
	return strings.Cut(string(plain), ":")
}
