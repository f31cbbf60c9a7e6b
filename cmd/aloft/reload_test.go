package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/forge/forgetest"
	"aloft/internal/control/model/modeltest"
)

// served is a server that runs in this process.
type served struct {
	t    *testing.T
	url  string
	key  string
	said string        // first line of standard output
	log  <-chan string // lines of standard error
	stop func() (code int)
}

// startServe runs `aloft serve` with the arguments. It waits until the server listens.
func startServe(t *testing.T, env map[string]string, args ...string) *served {
	t.Helper()
	data := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	logOut, logIn := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		defer in.Close()
		defer logIn.Close()
		args := append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, args...)
		ended <- run(ctx, args, func(name string) string { return env[name] }, strings.NewReader(""), in, logIn)
	}()
	log := make(chan string, 1000)
	go func() {
		defer close(log)
		for lines := bufio.NewScanner(logOut); lines.Scan(); {
			log <- lines.Text()
		}
	}()
	buffer := make([]byte, 1<<16)
	n, _ := out.Read(buffer) // read all lines, which the server writes at once
	go func() { _, _ = io.Copy(io.Discard, out) }()
	s := &served{t: t, said: string(buffer[:n]), log: log}
	m := regexp.MustCompile(`listens at (\S+)`).FindStringSubmatch(s.said)
	if m == nil {
		cancel()
		t.Fatalf("exit code %d; the server said:\n%s", <-ended, s.said)
	}
	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.key = m[1], strings.TrimSpace(string(key))
	s.stop = func() int {
		cancel()
		return <-ended
	}
	return s
}

// call returns the status and body of the reply.
func (s *served) call(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// await reads the log up to a line that contains the text, and returns all
// lines that it has read.
func (s *served) await(text string) string {
	s.t.Helper()
	var read strings.Builder
	for line := range s.log {
		read.WriteString(line + "\n")
		if strings.Contains(line, text) {
			return read.String()
		}
	}
	s.t.Fatalf("the server ended without %q in its log:\n%s", text, read.String())
	return ""
}

const reloaded = "has reloaded"

// TestConnectModelsAndGitServers connects a model and a git server to a server that was
// started without configuration. Both must be usable at once, at the same address, and
// after the server's parts restart.
func TestConnectModelsAndGitServers(t *testing.T) {
	provider := modeltest.NewAnthropic(t, modeltest.Reply{Text: "ready"})
	forge := forgetest.NewGitea(t)
	s := startServe(t, nil)
	if !strings.Contains(s.said, "No real model is configured") || !strings.Contains(s.said, "sign in and follow the steps") {
		t.Errorf("at the start the server said:\n%s", s.said)
	}
	if _, body := s.call("GET", "/v1/server", ""); !strings.Contains(body, `"models":[],"gitServers":[]`) {
		t.Errorf("at first the server has %s", body)
	}
	const model = "/v1/server/models/claude"
	body := func(key string) string {
		return `{"provider":"anthropic","name":"` + modeltest.Model + `","baseUrl":"` + provider.URL + `","apiKey":"` + key + `"}`
	}
	if status, says := s.call("PUT", model, body("sk-wrong-key")); status != 400 || !strings.Contains(says, "check the API key") {
		t.Errorf("a wrong key: %d %s", status, says)
	}
	if status, says := s.call("PUT", model, body(modeltest.Key)); status != 200 {
		t.Fatalf("the right key: %d %s", status, says)
	}
	log := s.await(reloaded)
	if _, models := s.call("GET", "/v1/models", ""); !strings.Contains(models, `"id":"claude"`) || strings.Contains(models, "scripted") {
		t.Errorf("models after the model was connected: %s", models)
	}
	host := strings.TrimPrefix(forge.URL, "http://")
	if status, says := s.call("PUT", "/v1/server/git-servers/"+host, `{"scheme":"http","forge":"gitea","token":"wrong"}`); status != 400 || !strings.Contains(says, "token") {
		t.Errorf("a wrong token: %d %s", status, says)
	}
	if status, says := s.call("PUT", "/v1/server/git-servers/"+host, `{"scheme":"http","forge":"gitea","token":"`+forgetest.Token+`"}`); status != 200 {
		t.Fatalf("the right token: %d %s", status, says)
	}
	log += s.await(reloaded)
	if _, repos := s.call("GET", "/v1/repositories", ""); !strings.Contains(repos, host) {
		t.Errorf("repositories after the git server was connected: %s", repos)
	}
	_, shown := s.call("GET", "/v1/server", "")
	_, exported := s.call("GET", "/v1/server/configuration", "")
	for _, text := range []string{shown, exported, log} {
		if strings.Contains(text, modeltest.Key) || strings.Contains(text, forgetest.Token) {
			t.Errorf("a secret is in %s", text)
		}
	}
	for _, want := range []string{"id: claude", "api_key_env: MODEL_KEY_CLAUDE", "default_model: claude", "forge: gitea", "token_env: GIT_TOKEN_127_0_0_1_"} {
		if !strings.Contains(exported, want) {
			t.Errorf("no %q in the exported configuration:\n%s", want, exported)
		}
	}
	if status, says := s.call("DELETE", model, ""); status != 200 {
		t.Fatalf("disconnect: %d %s", status, says)
	}
	s.await(reloaded)
	if _, models := s.call("GET", "/v1/models", ""); !strings.Contains(models, "scripted") {
		t.Errorf("models after the model was disconnected: %s", models)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestReload checks that SIGHUP makes a server read its configuration again,
// and that the server keeps the old configuration if the new one is invalid.
func TestReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "aloft.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("models: [{id: first, provider: scripted}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, nil, "--config", file)
	defer s.stop()
	write("models: [{id: second, provider: scripted}]\n")
	s.await(reloaded)
	if _, models := s.call("GET", "/v1/models", ""); !strings.Contains(models, `"id":"second"`) || strings.Contains(models, "first") {
		t.Errorf("models after a change of the file: %s", models)
	}
	write("models: [{id: third, provider: nobody}]\n")
	if log := s.await(reloaded); !strings.Contains(log, "nobody") {
		t.Errorf("the log about a configuration that is not valid:\n%s", log)
	}
	if _, models := s.call("GET", "/v1/models", ""); !strings.Contains(models, `"id":"second"`) {
		t.Errorf("models after a mistake in the file: %s", models)
	}
}
