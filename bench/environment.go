package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// environments measures the time from creating an agent to the end of its first prompt,
// in a repository with an environment.json. The model answers at once. It measures the
// first agent, which waits for the build, and a later agent on that build.
func environments() (rows []row, err error) {
	fmt.Fprintln(os.Stderr, "measuring environments")
	dir, err := os.MkdirTemp("", "aloft-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	repo := filepath.Join(dir, "repo")
	if err := os.MkdirAll(filepath.Join(repo, ".aloft"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(repo, ".aloft", "environment.json"), []byte(`{"install": "echo installed > ~/installed"}`), 0o600); err != nil {
		return nil, err
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-qm", "Begin"}} {
		if out, err := exec.Command("git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	s, err := serveWith(dir, "scripts:\n  - turns:\n      - text: Hello.\n", "git: {allow_file: ["+repo+"]}\n")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	cold, err := s.prompt("file://" + repo)
	if err != nil {
		return nil, err
	}
	warm, err := s.prompt("file://" + repo)
	if err != nil {
		return nil, err
	}
	return []row{
		{"environment.json → first prompt answered, built before", ms(float64(warm)), ms(float64(cold)), times(float64(warm), float64(cold)) + " with the build", ""},
	}, nil
}

// prompt creates an agent, waits until its run has ended, deletes it, and
// returns the time to the end of the run.
func (s *server) prompt(repo string) (took time.Duration, err error) {
	begun := time.Now()
	var made struct{ Run struct{ ID, AgentID string } }
	body := map[string]any{"prompt": map[string]string{"text": "Say hello"}, "repos": []map[string]string{{"url": repo}}}
	if err := s.do(http.MethodPost, "/v1/agents", body, &made); err != nil {
		return 0, err
	}
	path := "/v1/agents/" + made.Run.AgentID
	if _, err := s.ask(http.MethodGet, path+"/runs/"+made.Run.ID+"/stream", nil); err != nil { // the stream ends with the run
		return 0, err
	}
	took = time.Since(begun)
	var run struct{ Status string }
	if err := s.do(http.MethodGet, path+"/runs/"+made.Run.ID, nil, &run); err != nil {
		return 0, err
	}
	if run.Status != "FINISHED" {
		return 0, fmt.Errorf("the run ended %s", run.Status)
	}
	_, err = s.ask(http.MethodDelete, path, nil)
	return took, err
}
