// Package standin is a minimal guest for testing runtimes. It serves the
// multiplexed connection as pod-daemon does, counts its starts on its disk and
// runs commands for the test.
package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"aloft/internal/wire/mux"
)

// Stream is the name of the stream that carries one JSON [Request] and one JSON
// [Reply].
const Stream = "standin"

// A Request is a test's request to the guest.
type Request struct {
	Argv []string // command to run in the machine; if empty, only Starts is returned
}

// A Reply is the guest's answer.
type Reply struct {
	Starts int    // how many guests have started on this disk, including this one
	Output string // the output of the command
	Code   int    // its exit code, or -1 if it did not run
}

// Serve runs a guest with its disk at dir. It closes its connections and
// returns when ctx ends.
func Serve(ctx context.Context, dir string, l net.Listener) error {
	starts, err := countStart(filepath.Join(dir, "starts"))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		wg.Go(func() { serveConn(ctx, conn, starts) })
	}
}

func serveConn(ctx context.Context, conn net.Conn, starts int) {
	c, err := mux.Server(conn)
	if err != nil {
		_ = conn.Close()
		return
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	_ = c.Serve(func(name string, s net.Conn) {
		defer func() { _ = s.Close() }()
		var req Request
		if name != Stream || json.NewDecoder(s).Decode(&req) != nil {
			return
		}
		_ = json.NewEncoder(s).Encode(answer(ctx, req, starts))
	})
}

func answer(ctx context.Context, req Request, starts int) Reply {
	r := Reply{Starts: starts}
	if len(req.Argv) == 0 {
		return r
	}
	out, err := exec.CommandContext(ctx, req.Argv[0], req.Argv[1:]...).CombinedOutput()
	r.Output = string(out)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code, r.Output = -1, err.Error()
	}
	return r
}

func countStart(path string) (int, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(data))) // a missing file means 0
	n++
	return n, os.WriteFile(path, fmt.Append(nil, n), 0o600)
}

// Ask sends one request to a guest and returns its reply.
func Ask(ctx context.Context, c *mux.Conn, req Request) (Reply, error) {
	s, err := c.Open(ctx, Stream)
	if err != nil {
		return Reply{}, err
	}
	defer func() { _ = s.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := json.NewEncoder(s).Encode(req); err != nil {
		return Reply{}, err
	}
	var r Reply
	err = json.NewDecoder(s).Decode(&r)
	return r, err
}
