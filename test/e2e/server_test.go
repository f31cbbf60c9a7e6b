package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"aloft/internal/need"
)

// aloft is a server process with its own data folder.
type aloft struct {
	t      *testing.T
	URL    string
	Key    string
	Data   string
	config string
	cmd    *exec.Cmd
	log    *screen // its log output
	env    []string
	died   chan struct{}
	attr   *syscall.SysProcAttr // user and group of the process; nil means root
}

// binary returns the path of bin/aloft, which "make test" builds.
func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../bin/aloft")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "aloft", path)
	return path
}

// start starts a server with the configuration. When the test ends, start's
// cleanup destroys the server's machines, and fails the test if anything is
// left of them.
func start(t *testing.T, config string, env ...string) *aloft {
	t.Helper()
	need.Root(t)
	if !strings.Contains(config, "outbound:") {
		config = strings.TrimSuffix(config, "\n") + "\noutbound: {open: [127.0.0.1/32]}\n"
	}
	dir := t.TempDir()
	a := &aloft{t: t, Data: filepath.Join(dir, "data"), config: filepath.Join(dir, "aloft.yaml"), env: env}
	if err := os.WriteFile(a.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Start()
	t.Cleanup(a.cleanUp)
	return a
}

var listens = regexp.MustCompile(`listens at (\S+)`)

// Start starts the process and waits until it is ready. It may be called again
// after Kill or Stop.
func (a *aloft) Start() {
	a.t.Helper()
	a.log = new(screen)
	a.cmd = exec.Command(binary(a.t), "serve", "--config", a.config, "--data", a.Data, "--listen", "127.0.0.1:0")
	a.cmd.Stderr, a.cmd.SysProcAttr = a.log, a.attr
	a.cmd.Env = append(os.Environ(), a.env...)
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	m := listens.FindStringSubmatch(line)
	if err != nil || m == nil {
		_ = a.cmd.Wait()
		a.t.Fatalf("the server said %q (%v):\n%s", line, err, a.log)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	a.URL = m[1]
	a.died = make(chan struct{})
	go func(cmd *exec.Cmd, died chan struct{}) {
		_ = cmd.Wait()
		close(died)
	}(a.cmd, a.died)
	key, err := os.ReadFile(filepath.Join(a.Data, "admin.key"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.Key = strings.TrimSpace(string(key))
	eventually(a.t, "the server is ready", func() bool {
		resp, err := http.Get(a.URL + "/healthz")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Kill kills the server with SIGKILL.
func (a *aloft) Kill() {
	a.t.Helper()
	if err := a.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		a.t.Fatal(err)
	}
	<-a.died
}

// Stop ends the server with SIGTERM and returns how long the server took to
// end.
func (a *aloft) Stop() time.Duration {
	a.t.Helper()
	begin := time.Now()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		a.t.Fatal(err)
	}
	<-a.died
	return time.Since(begin)
}

func (a *aloft) cleanUp() {
	select {
	case <-a.died:
		a.Start()
	default:
	}
	for {
		var list struct{ Items []struct{ ID string } }
		a.get("/v1/agents?limit=100&all=true", &list)
		if len(list.Items) == 0 {
			break
		}
		for _, i := range list.Items {
			if a.t.Failed() {
				a.t.Logf("the last of %s:\n%s", i.ID, last(a.events(i.ID)))
			}
			if status, body := a.do("DELETE", "/v1/agents/"+i.ID, nil); status != http.StatusOK {
				a.t.Errorf("delete %s: %d %s", i.ID, status, body)
				return
			}
		}
	}
	a.Stop()
	if a.t.Failed() { // keep the remains of a failed test for inspection
		a.tellLog()
		return
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		a.t.Error(err)
	}
	if strings.Contains(string(mounts), a.Data) {
		a.t.Errorf("mounts are left below %s", a.Data)
	}
	left, _ := filepath.Glob(filepath.Join(a.Data, "machines", "machines", "*"))
	if len(left) > 0 {
		a.t.Errorf("machines are left: %v", left)
	}
}

// tellLog prints the warnings in the server's log, and keeps the whole log as
// an artifact of the test (go test -artifacts).
func (a *aloft) tellLog() {
	log := a.log.String()
	if err := os.WriteFile(filepath.Join(a.t.ArtifactDir(), "server.log"), []byte(log), 0o600); err != nil {
		a.t.Error(err)
	}
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=INFO") {
			a.t.Logf("the server: %s", line)
		}
	}
}

// do makes a request and returns the status and the body.
func (a *aloft) do(method, path string, body any) (int, string) {
	a.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = strings.NewReader(b)
	default:
		data, err := json.Marshal(b)
		if err != nil {
			a.t.Fatal(err)
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, a.URL+path, in)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp.StatusCode, string(out)
}

func (a *aloft) get(path string, into any) {
	a.t.Helper()
	status, body := a.do("GET", path, nil)
	if status != http.StatusOK {
		a.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		a.t.Fatal(err)
	}
}

// run is a run as the API returns it.
type run struct {
	ID, AgentID, Status, Result string
	DurationMS                  int64 `json:"durationMs"`
	Error                       struct{ Code, Message string }
	Git                         struct {
		Branches []struct{ RepoURL, Branch string }
	}
}

type object = map[string]any

// create creates an agent on the repository.
func (a *aloft) create(repo, prompt string, more object) run {
	a.t.Helper()
	body := object{"prompt": object{"text": prompt}}
	if repo != "" {
		body["repos"] = []object{{"url": repo}}
	}
	for k, v := range more {
		body[k] = v
	}
	status, reply := a.do("POST", "/v1/agents", body)
	if status != http.StatusCreated {
		a.t.Fatalf("create: %d %s", status, reply)
	}
	var created struct{ Run run }
	if err := json.Unmarshal([]byte(reply), &created); err != nil {
		a.t.Fatal(err)
	}
	return created.Run
}

func (r run) path() string { return "/v1/agents/" + r.AgentID + "/runs/" + r.ID }

func (r run) ended() bool { return r.Status != "CREATING" && r.Status != "RUNNING" }

// wait waits until the run has ended, and returns its final state.
func (a *aloft) wait(r run) run {
	a.t.Helper()
	eventually(a.t, "run "+r.ID+" has ended", func() bool {
		a.get(r.path(), &r)
		return r.ended()
	})
	return r
}

// finish waits until the run has ended, and fails unless it is FINISHED.
func (a *aloft) finish(r run) run {
	a.t.Helper()
	if r = a.wait(r); r.Status != "FINISHED" {
		a.t.Fatalf("the run is %s; the last of its events:\n%s", r.Status, last(a.events(r.AgentID)))
	}
	return r
}

// patience is the timeout for a single step; machines are slow when the host is
// busy.
const patience = 4 * time.Minute

// eventually waits until the condition is true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // t.Context ends before cleanups run
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("not in %s: %s", patience, what)
		case <-tick.C:
		}
	}
}

// frame is one frame of a stream.
type frame struct{ ID, Event, Data string }

// stream reads the run's stream from the event after the given id, or from the
// start if the id is "". It calls on for each frame until on returns false or
// the stream ends. A lost connection is not an error: the caller can resume
// with the last id.
func (a *aloft) stream(r run, after string, on func(frame) bool) {
	a.t.Helper()
	req, err := http.NewRequest("GET", a.URL+r.path()+"/stream", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		a.t.Fatalf("stream: %d %s", resp.StatusCode, body)
	}
	var f frame
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			f.ID = value
		case "event":
			f.Event = value
		case "data":
			f.Data = value
		case "":
			if f.Event != "" && !on(f) {
				return
			}
			f = frame{}
		}
	}
}

// data decodes the frame's data.
func (f frame) data(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal([]byte(f.Data), &o); err != nil {
		t.Fatalf("%s: %q: %v", f.Event, f.Data, err)
	}
	return o
}

// events returns the agent's journal as lines of JSON objects.
func (a *aloft) events(agentID string) string {
	a.t.Helper()
	status, body := a.do("GET", "/v1/agents/"+agentID+"/events", nil)
	if status != http.StatusOK {
		a.t.Fatalf("events: %d %s", status, body)
	}
	return body
}

// last returns the end of a journal, which usually shows the reason for a
// failure.
func last(events string) string {
	lines := strings.Split(strings.TrimSpace(events), "\n")
	lines = lines[max(0, len(lines)-5):]
	for i, line := range lines {
		if len(line) > 500 {
			lines[i] = line[:250] + " … " + line[len(line)-250:]
		}
	}
	return strings.Join(lines, "\n")
}

func (f frame) String() string { return fmt.Sprintf("%s %s %s", f.ID, f.Event, f.Data) }

// followUp sends a follow-up prompt.
func (a *aloft) followUp(r run, prompt string) run {
	a.t.Helper()
	status, reply := a.do("POST", "/v1/agents/"+r.AgentID+"/runs", object{"prompt": object{"text": prompt}})
	if status != http.StatusCreated {
		a.t.Fatalf("follow up: %d %s", status, reply)
	}
	var created struct{ Run run }
	if err := json.Unmarshal([]byte(reply), &created); err != nil {
		a.t.Fatal(err)
	}
	return created.Run
}
