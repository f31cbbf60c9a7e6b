package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/store"
	"aloft/internal/control/store/sqlite"
	"aloft/internal/conversation"
)

// once is a model script that calls Shell with `true` and ends.
const once = `
scripts:
  - repeat: true
    turns:
      - calls: [{tool: Shell, args: {command: "true"}}]
      - text: Done.
`

// server is a running bin/aloft serve with its own data folder.
type server struct {
	dir, url, key string
	cmd           *exec.Cmd
	started       time.Duration // time to the first successful response of /healthz
}

// product measures bin/aloft as a whole.
func product() (rows []row, err error) {
	fmt.Fprintln(os.Stderr, "measuring bin/aloft")
	dir, err := os.MkdirTemp("", "aloft-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if info, err := os.Stat("bin/aloft"); err == nil {
		rows = append(rows, row{"bin/aloft, machine binaries inside", mib(info.Size()), "", "", "≤ 100 MiB"})
	}
	if err := fill(filepath.Join(dir, "data"), 10_000); err != nil {
		return rows, err
	}
	s, err := serveWith(dir, once, "quotas: {agents: 0}\n") // all stored agents belong to one person
	if err != nil {
		return rows, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	bare, err := bareStart()
	if err != nil {
		return rows, err
	}
	rows = append(rows,
		row{"server start, 10,000 agents stored", ms(float64(s.started)), ms(float64(bare)), times(float64(s.started), float64(bare)) + " aloft version", "≤ 1 s"},
		row{"idle server, resident", mib(memory(s.cmd.Process.Pid) + memory(serverOf(s.cmd.Process.Pid))), "", "", ""})
	begun := time.Now()
	if err := s.list(1000); err != nil {
		return rows, err
	}
	rows = append(rows, row{"1,000 agents listed, 100 a page", ms(float64(time.Since(begun))), "", "", ""})
	idle, err := s.atRest()
	if err != nil {
		return rows, err
	}
	return append(rows, row{"a machine's processes, resident", mib(idle), "", "", "≤ 40 MiB"}), nil
}

// atRest returns the memory usage of a machine whose agent has run one command
// and finished its run.
func (s *server) atRest() (int64, error) {
	var made struct {
		Agent struct{ ID string }
		Run   struct{ ID string }
	}
	if err := s.do(http.MethodPost, "/v1/agents", map[string]any{"prompt": map[string]string{"text": "go"}}, &made); err != nil {
		return 0, err
	}
	path := "/v1/agents/" + made.Agent.ID
	if _, err := s.ask(http.MethodGet, path+"/runs/"+made.Run.ID+"/stream", nil); err != nil { // the stream ends with the run
		return 0, err
	}
	time.Sleep(settled)
	idle := guests(made.Agent.ID)
	var none any
	return idle, s.do(http.MethodDelete, path, nil, &none)
}

// settled is how long after a run's end its machine counts as idle. Two seconds after
// the start, the machine's daemons free memory that they needed only for the start.
const settled = 5 * time.Second

// fill creates a store of n agents, each with a finished run.
func fill(dir string, n int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := sqlite.Open(ctx, filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	zero := int64(0)
	for range n {
		run := agent.NewRunID()
		_, err := s.Append(ctx, store.Append{AgentID: agent.NewID(), IfHead: &zero, Events: []agent.Event{
			{Body: &agent.Created{Name: "stored", UserID: 1, Env: agent.Env{Type: "cloud"}}},
			{RunID: run, Body: &agent.RunCreated{Prompt: conversation.Text(conversation.User, "stored")}},
			{RunID: run, Body: &agent.RunEnded{Status: agent.Cancelled}},
		}})
		if err != nil {
			return errors.Join(err, s.Close())
		}
	}
	return s.Close()
}

func serve(dir string) (*server, error) { return serveWith(dir, once, "") }

// serveWith starts a server with a model that plays the script, and additional
// configuration.
func serveWith(dir, plays, more string) (*server, error) {
	config := filepath.Join(dir, "aloft.yaml")
	script := filepath.Join(dir, "script.yaml")
	for file, text := range map[string]string{
		script: plays, config: "models:\n  - {id: scripted, provider: scripted, script: script.yaml}\n" + more,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	s := &server{dir: dir, cmd: exec.Command("bin/aloft", "serve", "--config", config, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0")}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	first, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("bin/aloft serve: %w", err)
	}
	_, s.url, _ = strings.Cut(strings.TrimSpace(first), "listens at ")
	for ready := false; !ready; {
		resp, err := http.Get(s.url + "/healthz")
		if err != nil {
			return nil, err
		}
		ready = resp.StatusCode == http.StatusOK
		_ = resp.Body.Close() // the body is empty, or tells the client to wait
	}
	s.started = time.Since(begun)
	key, err := os.ReadFile(filepath.Join(dir, "data", "admin.key"))
	s.key = strings.TrimSpace(string(key))
	return s, err
}

// bareStart returns how long the program takes to start and do nothing.
func bareStart() (time.Duration, error) {
	begun := time.Now()
	err := exec.Command("bin/aloft", "version").Run()
	return time.Since(begun), err
}

func (s *server) stop() error {
	return errors.Join(s.cmd.Process.Signal(syscall.SIGTERM), s.cmd.Wait())
}

func (s *server) do(method, path string, body, into any) error {
	text, err := s.ask(method, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// ask sends a request and returns the whole response body.
func (s *server) ask(method, path string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return text, err
}

// list reads the first n agents of all users. The first start creates an admin key whose
// own user has no agents, and only non-empty pages are worth measuring.
func (s *server) list(n int) error {
	var page struct {
		Items      []struct{ ID string }
		NextCursor string
	}
	for got := 0; got < n; got += len(page.Items) {
		path := "/v1/agents?limit=100"
		if page.NextCursor != "" {
			path += "&cursor=" + page.NextCursor
		}
		page.Items, page.NextCursor = nil, ""
		if err := s.do(http.MethodGet, path, nil, &page); err != nil {
			return err
		}
		if len(page.Items) == 0 {
			return fmt.Errorf("the list ends after %d agents", got)
		}
	}
	return nil
}

// guests returns the memory usage of the processes in the agent's machine. It finds them
// by their cgroup; the egress process is in another cgroup.
func guests(agentID string) int64 {
	var sum int64
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range dirs {
		cgroup, err := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || !strings.Contains(string(cgroup), agentID) || strings.Contains(string(cgroup), "/egress\n") {
			continue
		}
		var pid int
		if _, err := fmt.Sscan(filepath.Base(dir), &pid); err == nil {
			sum += memory(pid)
		}
	}
	return sum
}

// memory returns the process's proportional set size in bytes. It divides each shared
// page among the processes that share it.
func memory(pid int) int64 {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0
	}
	for text := range strings.Lines(string(rollup)) {
		var kib int64
		if n, _ := fmt.Sscanf(text, "Pss: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// serverOf returns the child process that is the server, or 0: aloft serve starts the
// server as another user.
func serverOf(pid int) (child int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f) // a thread may have ended
		for field := range strings.FieldsSeq(string(text)) {
			args, _ := os.ReadFile("/proc/" + field + "/cmdline") // a process may have ended
			if strings.Contains(string(args), "\x00serve\x00") {
				_, _ = fmt.Sscan(field, &child)
				return child
			}
		}
	}
	return 0
}
