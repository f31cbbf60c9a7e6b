package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/oauthtest"
	"aloft/internal/need"
)

const watched = `
scripts:
  - match: Find out how to set up
    turns:
      - calls:
          - tool: AskQuestion
            args: {title: Tests, questions: [{id: run, prompt: Are the tests to run?, options: [{id: all, label: Run them}, {id: none, label: Leave them}]}]}
      - calls: [{tool: Write, args: {path: .aloft/environment.json, contents: "{\"install\": \"echo by-an-agent\"}\n"}}]
      - text: I propose to install it.
  - match: shorter
    turns:
      - text: It is shorter.
  - match: Record
    turns:
      - calls: [{tool: RecordScreen, args: {mode: START_RECORDING}}]
      - calls: [{tool: RecordScreen, args: {mode: SAVE_RECORDING, save_as_filename: painted}}]
      - calls: [{tool: Read, args: {path: /opt/cursor/artifacts/painted.mp4}}]
      - text: It is recorded.
  - match: Try the window
    turns:
      - calls: [{tool: Task, args: {description: Press q, prompt: Give it the key, subagent_type: computerUse}}]
      - text: The window has heard it.
  - match: Give it the key
    turns:
      - calls: [{tool: ComputerUse, args: {actions: [{screenshot: {}}]}}]
      - calls: [{tool: ComputerUse, args: {actions: [{click: {coordinate: {x: 640, y: 400}}}, {type: {text: q}}]}}]
      - text: I gave it.
  - match: terminal
    turns:
      - calls: [{tool: Shell, args: {command: "tmux list-sessions -F '#{session_name}' | xargs -n 1 tmux capture-pane -pt", description: "look at the terminals"}}]
      - text: I see it.
  - match: polite
    turns:
      - text: It is polite.
  - match: Greet
    turns:
      - text: "I'll write it **now**."
        calls: [{tool: Write, args: {path: greeting.txt, contents: "hello\n"}}]
      - calls: [{tool: Shell, args: {command: "cat greeting.txt", description: "read it back"}}]
      - text: The greeting is there.
  - match: Look up
    turns:
      - calls: [{tool: McpAuth, args: {server: tickets}}]
      - calls: [{tool: CallMcpTool, args: {server: tickets, tool_name: search}}]
      - text: Ticket 7 is open.
  - match: louder
    turns:
      - calls:
          - tool: AskQuestion
            args: {title: Loudness, questions: [{id: how, prompt: How loud is it to be?, options: [{id: bit, label: A little}, {id: very, label: In capitals}]}]}
      - calls: [{tool: StrReplace, args: {path: greeting.txt, old_string: hello, new_string: HELLO}}]
      - text: It is louder.
`

// A person signs in, creates an agent with the keyboard, watches it, sends a
// follow-up, reads its changes, and types into its machine so that the agent
// sees it. web/test/person.ts does this in a browser, under the server's
// content security policy.
func TestDashboardInABrowser(t *testing.T) {
	t.Parallel()
	need.Command(t, "chromium")
	need.Command(t, "Xtigervnc")
	need.Command(t, "x-window-manager")
	need.Command(t, "xev")
	need.Command(t, "ffmpeg")
	npm := need.Command(t, "npm")
	web, err := filepath.Abs("../../web")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "the dashboard's packages", filepath.Join(web, "node_modules", ".package-lock.json"))
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	provider := oauthtest.New(t)
	tickets, called := ticketServer("nobody")
	a := start(t, scripted(t, watched)+"outbound: {open: [127.0.0.1/32]}\n")
	cmd := exec.CommandContext(t.Context(), npm, "run", "--silent", "--prefix", web, "person")
	cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key, "ALOFT_TEST_REPO="+url,
		"ALOFT_TEST_MCP="+provider.Guard(tickets), "ALOFT_TEST_PROVIDER="+provider.URL)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if called.Load() != 1 {
		t.Errorf("the agent has called its tool %d times", called.Load())
	}
	a.Stop()
	sent := provider.Sent()
	if len(sent) < 6 {
		t.Errorf("the provider has given %d tokens and codes", len(sent))
	}
	for _, secret := range sent {
		if strings.Contains(a.log.String(), secret) {
			t.Error("a token, a code or a verifier is in the log")
		}
	}
	nowhere(t, a.Data, sent, func(string) bool { return false })
}
