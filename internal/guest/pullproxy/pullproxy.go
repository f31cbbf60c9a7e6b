// Package pullproxy is the HTTP proxy of a machine's Docker. For the registries
// that the control plane serves, it terminates TLS with a certificate of its own
// and forwards the requests to the control plane, which adds the server's
// credentials. All other connections leave from the machine.
//
// Only root can use the proxy: Docker gets its address, a password and the
// certificate's issuer from a file that only root can read.
package pullproxy

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"aloft/internal/atomicfile"
	"aloft/internal/wire/mux"
)

// Config is the configuration of a proxy.
type Config struct {
	Addr     string // host:port to listen on; port 0 is any free port
	Dir      string // folder for the files that Docker reads
	Bundle   string // file of the machine's CA certificates
	Defaults string // shell script that configures the service of Docker: /etc/default/docker
	// Open opens a stream to the control plane.
	Open func(ctx context.Context) (net.Conn, error)
	Log  *slog.Logger
}

// A Proxy is the running proxy of a machine. Its methods are safe for concurrent
// use.
type Proxy struct {
	conf     Config
	listener net.Listener
	server   *http.Server
	password string
	issuer   *issuer

	mu    sync.Mutex
	hosts []string // registries of the control plane, as host:port
}

const user = "docker"

// Timeouts of a connection.
const (
	dialTimeout      = 30 * time.Second
	handshakeTimeout = 10 * time.Second
)

// New starts a proxy and configures the service of Docker to use it.
func New(ctx context.Context, conf Config) (*Proxy, error) {
	ca, err := newIssuer()
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 16)
	_, _ = rand.Read(secret) // never fails
	p := &Proxy{conf: conf, password: hex.EncodeToString(secret), issuer: ca}
	var lc net.ListenConfig
	if p.listener, err = lc.Listen(ctx, "tcp", conf.Addr); err != nil {
		return nil, err
	}
	if err := p.configure(); err != nil {
		return nil, errors.Join(err, p.listener.Close())
	}
	p.server = &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		if err := p.server.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			conf.Log.Error("cannot serve the proxy of Docker", "err", err)
		}
	}()
	return p, nil
}

// Close stops the proxy. Connections that it has opened continue.
func (p *Proxy) Close() error { return p.server.Close() }

// SetHosts replaces the registries that the control plane serves, each as host
// or host:port.
func (p *Proxy) SetHosts(hosts []string) {
	var all []string
	for _, h := range hosts {
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), "443")
		}
		all = append(all, strings.ToLower(h))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts = all
}

func (p *Proxy) serves(addr string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.hosts, strings.ToLower(addr))
}

// configure writes the files that Docker reads.
func (p *Proxy) configure() error {
	bundle, err := os.ReadFile(p.conf.Bundle)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	certs, script := filepath.Join(p.conf.Dir, "docker-ca.pem"), filepath.Join(p.conf.Dir, "docker.env")
	if err := atomicfile.WriteUnsynced(certs, append(append(bundle, '\n'), p.issuer.pem...), 0o644); err != nil {
		return err
	}
	text := fmt.Sprintf("export HTTPS_PROXY=http://%s:%s@%s SSL_CERT_FILE=%s\n", user, p.password, p.listener.Addr(), certs)
	if err := atomicfile.WriteUnsynced(script, []byte(text), 0o600); err != nil {
		return err
	}
	line := "\n# Added by Aloft: Docker pulls through the server from registries for which the\n# server has credentials.\n" +
		"[ ! -r " + script + " ] || . " + script + "\n"
	old, err := os.ReadFile(p.conf.Defaults)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if strings.Contains(string(old), line) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(p.conf.Defaults), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteUnsynced(p.conf.Defaults, append(old, line...), 0o644)
}

// ServeHTTP serves the method CONNECT.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+p.password))
	if subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1 {
		w.Header().Set("Proxy-Authenticate", `Basic realm="docker"`)
		http.Error(w, "this proxy is for Docker, whose service has its password", http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		http.Error(w, "this proxy only supports CONNECT", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
	defer cancel()
	own := p.serves(r.Host)
	up, err := p.dial(ctx, r.Host, own)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	down, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = up.Close()
		return
	}
	// The client may not send before the reply, so nothing is buffered.
	if buffered.Reader.Buffered() > 0 || reply(down) != nil {
		_ = errors.Join(down.Close(), up.Close())
		return
	}
	if own {
		host, _, _ := net.SplitHostPort(r.Host) // equal to an element of p.hosts
		if down, err = p.handshake(down, host); err != nil {
			p.conf.Log.Warn("Docker does not accept the certificate of the proxy", "registry", r.Host, "err", err)
			_ = up.Close()
			return
		}
	}
	mux.Join(down, up)
}

func reply(conn net.Conn) error {
	_, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n")
	return errors.Join(err, conn.SetDeadline(time.Time{}))
}

// dial connects to the control plane, or from the machine to addr.
func (p *Proxy) dial(ctx context.Context, addr string, own bool) (net.Conn, error) {
	if own {
		return p.conf.Open(ctx)
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", addr)
}

// handshake makes a TLS connection of conn, as the host. If it fails, it closes
// conn.
func (p *Proxy) handshake(conn net.Conn, host string) (net.Conn, error) {
	cert, err := p.issuer.certificate(host)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}
