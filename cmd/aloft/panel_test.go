package main

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aloft/internal/need"
)

// terminal is a real terminal, 80 by 24, in which a program runs.
type terminal struct {
	t      *testing.T
	tmux   string
	socket string
}

func openTerminal(t *testing.T, env []string, command string) *terminal {
	term := &terminal{t: t, tmux: need.Command(t, "tmux"), socket: filepath.Join(t.TempDir(), "tmux")}
	start := []string{"-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24"}
	for _, e := range env {
		start = append(start, "-e", e)
	}
	term.do(append(start, command)...)
	t.Cleanup(func() { _ = exec.Command(term.tmux, "-S", term.socket, "kill-server").Run() }) // the terminal may have ended with its program
	return term
}

func (term *terminal) do(args ...string) string {
	term.t.Helper()
	out, err := exec.Command(term.tmux, append([]string{"-S", term.socket}, args...)...).CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

func (term *terminal) press(keys ...string) {
	term.t.Helper()
	term.do(append([]string{"send-keys"}, keys...)...)
}

// shows waits until the screen contains all of the texts.
func (term *terminal) shows(words ...string) string {
	term.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(2 * time.Minute); ; {
		screen := term.do("capture-pane", "-p")
		missing := ""
		for _, w := range words {
			if !strings.Contains(screen, w) {
				missing = w
			}
		}
		if missing == "" {
			return screen
		}
		select {
		case <-tick.C:
		case <-end:
			term.t.Fatalf("%q does not come; the screen is\n%s", missing, screen)
		}
	}
}

// TestPanel presses keys as a person does, in a real terminal.
func TestPanel(t *testing.T) {
	s := newFakeServer()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections) // the panel follows a journal until the connection is closed
	aloft, err := exec.LookPath("aloft")
	if err != nil {
		t.Fatal(err)
	}
	term := openTerminal(t, []string{
		"ALOFT_URL=" + s.URL, "ALOFT_API_KEY=" + fakeKey, "HOME=" + t.TempDir(), "ALOFT_DATA=" + t.TempDir(),
	}, aloft+"; echo left with $?; exec cat")
	term.shows("No agents yet")

	post(t, s, "/v1/agents", `{"prompt":{"text":"mend it"},"repos":[{"url":"https://git.example.com/a/b"}]}`)
	term.shows("mend it", "Finished", "1 agent")
	term.press("/", "nosuch")
	term.shows("No matching agents", "0 with “nosuch”")
	term.press("Escape")
	term.shows("mend it", "n new")
	term.press("Enter")
	term.shows("I fix it.", "Shell make test", "aloft/fix-c0de", "Esc back")

	term.press("a")
	term.shows("npm test", "rm x", "y allow once")
	term.press("n", "no", "Enter")
	term.shows("Denied.", "Esc back")
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer["decision"] != "deny" || answer["message"] != "no" {
		t.Errorf("the answer is %v", answer)
	}

	term.press("d")
	term.shows("+new", "-old")
	term.press("Escape")
	term.shows("Esc back", "f reply")
	term.press("f")
	term.shows("Enter send to")
	term.press("slow", "Enter")
	term.shows("prompt slow", "Working on it", "Working")
	term.do("resize-window", "-x", "60", "-y", "20")
	term.shows("Working on it")
	term.press("s")
	term.shows("Stop “")
	term.press("y")
	term.shows("stopped", "Stopped")
	if !s.cancelled() {
		t.Error("the run was not stopped")
	}
	term.press("t") // the server does not support this; the panel returns with a message
	term.shows("! the server answered", "Esc back")
	term.press("?")
	term.shows("Keys", "search names")
	term.press("q", "Escape")
	term.shows("Enter open")
	term.press("n")
	term.shows("> https://git.example.com/a/b")
	term.press("Enter")
	term.shows("Enter start this task on")
	term.press("fail", "Enter")
	term.shows("there is no ref nosuch", "name another with --ref", "Esc back")
	term.press("q")
	term.shows("left with 0")
}

func post(t *testing.T, s *fakeServer, path, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+fakeKey)
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = reply.Body.Close(); reply.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s", path, reply.Status)
	}
}
