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
	"testing"
)

// TestServeWithoutConfiguration checks that a server without a configuration
// file uses the model provider whose API key is in its environment, and says
// so.
func TestServeWithoutConfiguration(t *testing.T) {
	data := t.TempDir()
	env := map[string]string{"OPENAI_API_KEY": "sk-very-secret", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, in := io.Pipe()
	var log strings.Builder
	ended := make(chan int, 1)
	go func() {
		defer in.Close()
		ended <- run(ctx, []string{"serve", "--data", data, "--listen", "127.0.0.1:0"}, func(name string) string { return env[name] }, strings.NewReader(""), in, &log)
	}()
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "git credentials") {
		said.WriteString(lines.Text() + "\n")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if !strings.Contains(said.String(), "Agents use the model gpt-5, with the key in OPENAI_API_KEY.") {
		t.Errorf("the server said:\n%s", said.String())
	}
	m := regexp.MustCompile(`listens at (\S+)`).FindStringSubmatch(said.String())
	if m == nil {
		stop()
		t.Fatalf("exit code %d; the server said:\n%s\n%s", <-ended, said.String(), log.String())
	}
	key, err := os.ReadFile(filepath.Join(data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m[1]+"/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	models, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(models), `"id":"gpt"`) || strings.Contains(string(models), "scripted") {
		t.Errorf("the models are %s", models)
	}
	stop()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d:\n%s", code, log.String())
	}
	if strings.Contains(said.String()+log.String(), "sk-very-secret") {
		t.Error("the key was printed")
	}
}
