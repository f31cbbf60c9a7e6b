package pid1

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/wire/podv1/podv1connect"
)

// Files with the credentials of the ports: 64 hex digits and a line feed. The
// credentials change at each start. Only root can read the management credential.
func (d *Daemon) manageTokenFile() string { return filepath.Join(d.cfg.RunDir, "management-token") }
func (d *Daemon) insideTokenFile() string { return filepath.Join(d.cfg.RunDir, "inside-token") }

// servePorts serves the TCP ports for programs in the machine, once loopback is
// up. It returns a message about ports that it could not open; the machine
// works without them.
func (d *Daemon) servePorts(ctx context.Context) (words string) {
	manageRoutes := http.NewServeMux()
	manageRoutes.Handle(podv1connect.NewManagementServiceHandler(&management{d}, connect.WithReadMaxBytes(maxRequest)))
	insideRoutes := http.NewServeMux()
	insideRoutes.Handle(podv1connect.NewInsideServiceHandler(&inside{d}, connect.WithReadMaxBytes(maxRequest)))
	var said []string
	for _, port := range []struct {
		addr, file string
		routes     http.Handler
		gid        int
	}{
		{d.cfg.ManageAddr, d.manageTokenFile(), manageRoutes, -1},
		{d.cfg.InsideAddr, d.insideTokenFile(), insideRoutes, int(d.user.Load().GID)},
	} {
		if port.addr == "" {
			continue
		}
		if err := d.servePort(ctx, port.addr, port.file, port.gid, port.routes); err != nil {
			d.cfg.Log.Warn("cannot listen on a port", "addr", port.addr, "err", err)
			said = append(said, fmt.Sprintf("cannot listen on %s: %v", port.addr, err))
		}
	}
	return strings.Join(said, "; ")
}

func (d *Daemon) servePort(ctx context.Context, addr, file string, gid int, routes http.Handler) error {
	token := &portToken{file: file, gid: gid}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	if err := token.renew(d); err != nil {
		return errors.Join(err, l.Close())
	}
	d.tokens = append(d.tokens, token)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: bearerOnly(token, routes), Protocols: &protocols, ReadHeaderTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.cfg.Log.Error("cannot serve a port", "addr", addr, "err", err)
		}
	}()
	return nil // the server runs as long as the machine
}

// portToken is the credential of a port, and the file that contains it.
type portToken struct {
	file   string
	gid    int // group that may read it in addition to root; -1 for none
	digest atomic.Pointer[[sha256.Size]byte]
}

// renew generates a new credential.
func (t *portToken) renew(d *Daemon) error {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token, mode := hex.EncodeToString(b[:]), os.FileMode(0o600)
	if t.gid >= 0 {
		mode = 0o640
	}
	if err := d.writeToken(t.file, token, mode, t.gid); err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(token))
	t.digest.Store(&digest)
	return nil
}

// changeTokens gives exec-daemon a new token and renews the credentials of the
// ports. A machine that is restored for another agent needs this: its processes
// continue, but the old credentials stop working.
func (d *Daemon) changeTokens(ctx context.Context, from, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+d.cfg.ExecAddr+"/token", strings.NewReader(to))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+from)
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: execStart}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("exec-daemon answered %s", res.Status)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.token = to
	for _, t := range d.tokens {
		if err := t.renew(d); err != nil {
			return err
		}
	}
	return nil
}

// bearerOnly forwards only requests with the token. It refuses others in a form
// that Connect and gRPC clients understand.
func bearerOnly(token *portToken, next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(given))
		want := token.digest.Load()
		if ok && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		err := connect.NewError(connect.CodeUnauthenticated, errors.New("this port requires its token: Authorization: Bearer TOKEN"))
		if refuse.IsSupported(r) {
			_ = refuse.Write(w, r, err) // a broken connection cannot be reported to anyone
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="pod-daemon"`)
		http.Error(w, err.Message(), http.StatusUnauthorized)
	})
}
