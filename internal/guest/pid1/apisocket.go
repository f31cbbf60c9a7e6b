package pid1

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/wire/mux"
)

// Limits on token requests.
const (
	maxTokenBody  = 64 << 10 // of the request and of the response
	tokenPatience = 15 * time.Second
	controlWait   = 2 * time.Second // wait for the control plane to connect
)

// serveAPI serves the metadata socket, which any program of the agent's user
// may use. The returned function stops it.
func (d *Daemon) serveAPI(ctx context.Context) (stop func(), err error) {
	if d.cfg.APISocket == "" {
		return func() {}, nil
	}
	dir := filepath.Dir(d.cfg.APISocket)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("metadata socket: %w", err)
	}
	if err := os.Remove(d.cfg.APISocket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("metadata socket: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", d.cfg.APISocket)
	if err == nil {
		err = errors.Join(os.Chmod(d.cfg.APISocket, 0o660), os.Lchown(d.cfg.APISocket, -1, int(d.user.Load().GID)))
	}
	if err != nil {
		return nil, fmt.Errorf("metadata socket: %w", err)
	}
	server := &http.Server{
		Handler: d.apiHandler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.cfg.Log.Error("cannot serve the metadata socket", "err", err)
		}
	}()
	return func() { _ = server.Close() }, nil
}

// apiHandler returns the handler of the metadata socket's HTTP API.
func (d *Daemon) apiHandler() http.Handler {
	routes := http.NewServeMux()
	get := func(w http.ResponseWriter, r *http.Request) {
		text, ok := d.meta.text(strings.Trim(r.PathValue("path"), "/"))
		if !ok {
			apiError(w, http.StatusNotFound, "not_found", errNoMetadata.Error())
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, text) // a broken connection cannot be reported to anyone
	}
	routes.HandleFunc("GET /v1/meta-data", get)
	routes.HandleFunc("GET /v1/meta-data/{path...}", get)
	routes.HandleFunc("POST /v1/tokens/oidc", func(w http.ResponseWriter, r *http.Request) {
		var ask tokenRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTokenBody)).Decode(&ask); err != nil || ask.Audience == "" {
			apiError(w, http.StatusBadRequest, "invalid_request", `the body must be JSON as {"aud":"https://example.com","nonce":"…"}`)
			return
		}
		status, body, err := d.askToken(r.Context(), ask)
		if err != nil {
			d.cfg.Log.Info("cannot get a token for a program in the machine", "err", err)
			apiError(w, http.StatusServiceUnavailable, "unavailable", noTokens)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		apiError(w, http.StatusNotFound, "not_found", "use GET /v1/meta-data or POST /v1/tokens/oidc")
	})
	return routes
}

const noTokens = "no tokens are available: the control plane is not connected, or its version does not issue them; try again later"

func apiError(w http.ResponseWriter, status int, code, message string) {
	body, err := json.Marshal(map[string]map[string]string{"error": {"code": code, "message": message}})
	if err != nil {
		body = nil // strings can always be encoded
	}
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}

// tokenRequest asks for a token that identifies this agent to an audience.
type tokenRequest struct {
	Audience string `json:"aud"`
	Nonce    string `json:"nonce,omitempty"`
}

// askToken sends the request to the control plane, which knows from the
// connection which machine is asking, and returns its reply.
func (d *Daemon) askToken(ctx context.Context, ask tokenRequest) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, tokenPatience)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, controlWait)
			defer cancel()
			return d.controls.open(ctx, mux.Token)
		},
	}}
	data, err := json.Marshal(ask)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://control/v1/tokens/oidc", bytes.NewReader(data))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(res.Body, maxTokenBody))
	return res.StatusCode, body, err
}
