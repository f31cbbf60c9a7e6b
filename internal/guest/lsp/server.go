package lsp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startTime = 30 * time.Second // for a server to initialize
	stopTime  = 2 * time.Second  // for the server to exit when asked
	maxOpen   = 100              // documents
	maxSource = 1 << 20          // bytes of a document
)

// server is a running language server for one root. lint must not be called
// concurrently; the other methods may be.
type server struct {
	linter *linter
	root   string
	cmd    *exec.Cmd
	conn   *conn
	exited chan struct{} // closed once the process has exited
	stderr *tail
	pulls  bool // it supports pull diagnostics

	// The following fields belong to lint.
	open map[string]*document // by path
	turn int
	seen map[string]int64 // modification times of changed files that the server was notified of

	mu          sync.Mutex
	diagnostics map[string][]Diagnostic // by path, for open documents
	reported    map[string]bool         // documents with diagnostics since they last changed
	versions    map[string]int          // versions of the documents in heard
	working     map[string]bool         // tasks that the server reports as in progress
	spoke       time.Time               // when the server last published diagnostics or ended a task
	trouble     string                  // the last error that the server logged since the last request
	lastUsed    time.Time
}

type document struct {
	sum     [sha256.Size]byte // of its text
	version int
	turn    int // when it was last linted
}

// start starts a server and initializes it for the root.
func start(ctx context.Context, l *linter, path, root string, env []string) (*server, error) {
	ctx, stop := context.WithTimeoutCause(ctx, startTime, errors.New("it did not start in time"))
	defer stop()
	cmd := exec.Command(path, l.args...) //nolint:noctx // it outlives this call; stop and the pool end it
	cmd.Dir = root
	cmd.Env = append(append([]string(nil), env...), l.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	s := &server{
		linter: l, root: root, cmd: cmd, exited: make(chan struct{}), stderr: &tail{},
		open: make(map[string]*document), seen: make(map[string]int64),
		diagnostics: make(map[string][]Diagnostic), reported: make(map[string]bool), versions: make(map[string]int), working: make(map[string]bool),
		lastUsed: time.Now(),
	}
	cmd.Stderr = s.stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// Do not use StdoutPipe: Wait would close the pipe while it is still being read.
	out, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	cmd.Stdout = w
	err = cmd.Start()
	_ = w.Close() // the server has its own copy
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	s.conn = newConn(out, in, s.handle)
	go func() {
		// If the connection ends, kill the process, and vice versa.
		<-s.conn.done
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have exited already
	}()
	go func() {
		_ = cmd.Wait() // the process state has the result
		_ = in.Close()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = out.Close()
		s.conn.end(fmt.Errorf("it exited: %s", cmd.ProcessState))
		close(s.exited)
	}()
	if err := s.initialize(ctx); err != nil {
		s.kill()
		return nil, s.explain(err)
	}
	return s, nil
}

// explain adds the server's last error output to an error.
func (s *server) explain(err error) error {
	if words := s.stderr.lastLine(); words != "" {
		return fmt.Errorf("%w (%s)", err, words)
	}
	return err
}

func (s *server) initialize(ctx context.Context) error {
	var can struct {
		Capabilities struct {
			DiagnosticProvider json.RawMessage
		}
	}
	folder := map[string]string{"uri": uri(s.root), "name": filepath.Base(s.root)}
	err := s.conn.call(ctx, "initialize", map[string]any{
		"processId":  os.Getpid(),
		"clientInfo": map[string]string{"name": "aloft"},
		"rootUri":    uri(s.root), "rootPath": s.root, "workspaceFolders": []any{folder},
		"initializationOptions": s.linter.options(s.root),
		"capabilities": map[string]any{
			"general":   map[string]any{"positionEncodings": []string{"utf-16"}},
			"window":    map[string]any{"workDoneProgress": true},
			"workspace": map[string]any{"configuration": true, "workspaceFolders": true, "didChangeWatchedFiles": map[string]any{"dynamicRegistration": true}},
			"textDocument": map[string]any{
				"synchronization":    map[string]any{},
				"diagnostic":         map[string]any{},
				"publishDiagnostics": map[string]any{"versionSupport": true},
			},
		},
	}, &can)
	if err != nil {
		return err
	}
	s.pulls = len(can.Capabilities.DiagnosticProvider) > 0 && string(can.Capabilities.DiagnosticProvider) != "null" && string(can.Capabilities.DiagnosticProvider) != "false"
	if err := s.conn.notify(ctx, "initialized", struct{}{}); err != nil {
		return err
	}
	if s.linter.settings == nil {
		return nil
	}
	return s.conn.notify(ctx, "workspace/didChangeConfiguration", map[string]any{"settings": s.linter.settings(s.root)})
}

// handle answers the server's requests and processes its notifications.
func (s *server) handle(method string, params json.RawMessage) (any, error) {
	switch method {
	case "textDocument/publishDiagnostics":
		s.publish(params)
		return nil, nil
	case "$/progress":
		s.progress(params)
		return nil, nil
	case "window/logMessage", "window/showMessage":
		s.logged(params)
		return nil, nil
	case "workspace/configuration":
		var p struct{ Items []struct{ Section string } }
		if json.Unmarshal(params, &p) != nil || len(p.Items) > 1000 {
			return nil, errors.New("malformed")
		}
		answers := make([]any, len(p.Items))
		if s.linter.settings != nil {
			for i := range answers {
				answers[i] = section(s.linter.settings(s.root), p.Items[i].Section)
			}
		}
		return answers, nil
	case "workspace/workspaceFolders":
		return []any{map[string]string{"uri": uri(s.root), "name": filepath.Base(s.root)}}, nil
	case "client/registerCapability", "client/unregisterCapability", "window/workDoneProgress/create", "window/showMessageRequest",
		"workspace/diagnostic/refresh", "workspace/semanticTokens/refresh", "workspace/inlayHint/refresh", "workspace/codeLens/refresh":
		return nil, nil
	case "workspace/applyEdit":
		return map[string]any{"applied": false, "failureReason": "edits are not supported"}, nil
	case "window/showDocument":
		return map[string]any{"success": false}, nil
	}
	if answer, ok := s.linter.answers[method]; ok {
		return answer, nil
	}
	return nil, fmt.Errorf("%.100s is not supported", method)
}

// section returns the part of the settings that a dotted name refers to.
func section(settings map[string]any, name string) any {
	if name == "" {
		return settings
	}
	var now any = settings
	for part := range strings.SplitSeq(name, ".") {
		m, ok := now.(map[string]any)
		if !ok {
			return nil
		}
		now = m[part]
	}
	return now
}

func (s *server) publish(params json.RawMessage) {
	var p struct {
		URI         string
		Version     *int
		Diagnostics []item
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	path := pathOf(p.URI)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoke = time.Now()
	if _, wanted := s.reported[path]; wanted && (p.Version == nil || *p.Version >= s.versions[path]) {
		s.diagnostics[path] = diagnostics(p.Diagnostics, path, s.linter.name)
		s.reported[path] = true
	}
}

// logged records an error that the server logged, because some servers report problems
// only in their log.
func (s *server) logged(params json.RawMessage) {
	const severe = 1
	var p struct {
		Type    int
		Message string
	}
	if json.Unmarshal(params, &p) != nil || p.Type != severe {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trouble = clip(p.Message, 300)
}

func (s *server) progress(params json.RawMessage) {
	var p struct {
		Token json.RawMessage
		Value struct{ Kind string }
	}
	if json.Unmarshal(params, &p) != nil || len(p.Token) > 200 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p.Value.Kind {
	case "begin":
		if len(s.working) < 100 {
			s.working[string(p.Token)] = true
		}
	case "end":
		delete(s.working, string(p.Token))
		s.spoke = time.Now()
	}
}

// alive reports whether the server is running.
func (s *server) alive() bool {
	select {
	case <-s.conn.done:
		return false
	default:
		return true
	}
}

// kill kills the server and waits for it to exit.
func (s *server) kill() {
	s.conn.end(errors.New("it was stopped"))
	<-s.exited
}

// stop asks the server to exit, and kills it if it does not.
func (s *server) stop() {
	ctx, done := context.WithTimeout(context.Background(), stopTime)
	defer done()
	if s.conn.call(ctx, "shutdown", nil, nil) == nil && s.conn.notify(ctx, "exit", nil) == nil {
		select {
		case <-s.exited:
			return
		case <-ctx.Done():
		}
	}
	s.kill()
}

// tail is a writer that keeps the last bytes. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2048

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-tailSize):]...)
	if over := len(t.text) - tailSize; over > 0 {
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(p), nil
}

func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	return clip(text[strings.LastIndexByte(text, '\n')+1:], 300)
}
