package panel

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"aloft/internal/cli"
	"aloft/internal/client"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// server is a Client that records its calls.
type server struct {
	asked  []string
	beyond []client.Agent // agents that only a search finds
	err    error
}

func (s *server) note(words ...string) error {
	s.asked = append(s.asked, strings.Join(words, " "))
	return s.err
}

// FindAgents filters and orders agents as a server does. The agents in beyond
// are on no page that a list without a search reaches.
func (s *server) FindAgents(_ context.Context, _ int, _ string, f client.AgentFilter) (client.AgentPage, error) {
	all := agents()
	if f.Search != "" {
		all = slices.DeleteFunc(append(all, s.beyond...), func(a client.Agent) bool {
			return slices.ContainsFunc(strings.Fields(f.Search), func(w string) bool { return !strings.Contains(strings.ToLower(a.Name), strings.ToLower(w)) })
		})
	}
	slices.SortStableFunc(all, func(a, b client.Agent) int {
		if f.AsksFirst && (a.Waiting > 0) != (b.Waiting > 0) {
			return b.Waiting - a.Waiting
		}
		return b.CreatedAt.Compare(a.CreatedAt)
	})
	return client.AgentPage{Items: all}, s.err
}
func (s *server) Approvals(context.Context) ([]client.Approval, error) { return questions(), s.err }
func (s *server) Approval(_ context.Context, agentID, id string) (client.Approval, error) {
	for _, q := range questions() {
		if q.AgentID == agentID && q.ID == id {
			return q, s.err
		}
	}
	return client.Approval{}, &client.Error{Code: "not_found", Message: "answered"}
}
func (s *server) Events(context.Context, string, int64, bool) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		for _, e := range journal() {
			if !yield(e, nil) {
				return
			}
		}
	}
}
func (s *server) Diff(context.Context, string) (client.Diff, error) {
	return client.Diff{Diff: "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+\tnew\x1b[2J\n"}, s.err
}
func (s *server) CreateRun(_ context.Context, id string, p client.Prompt, key string) (client.Run, error) {
	return client.Run{}, s.note("run", id, p.Text, key)
}
func (s *server) AnswerApproval(_ context.Context, id, question string, in client.Answer) error {
	return s.note("answer", id, question, in.Decision, in.Message)
}
func (s *server) Cancel(_ context.Context, id, runID string) error {
	return s.note("cancel", id, runID)
}
func (s *server) CreateAgent(_ context.Context, in client.NewAgent, key string) (client.Agent, client.Run, error) {
	repo := ""
	for _, r := range in.Repos {
		repo += r.URL
	}
	return client.Agent{ID: in.AgentID}, client.Run{}, s.note("create", in.AgentID, repo, in.Prompt.Text, key)
}
func (s *server) QueuePrompt(_ context.Context, id string, p client.Prompt, key string) (client.Queued, error) {
	return client.Queued{}, s.note("queue", id, p.Text, key)
}
func (s *server) Archive(_ context.Context, id string) error { return s.note("archive", id) }
func (s *server) Pause(_ context.Context, id string) error   { return s.note("pause", id) }
func (s *server) Resume(_ context.Context, id string) error  { return s.note("resume", id) }

func agents() []client.Agent {
	at := func(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }
	return []client.Agent{
		{ID: "bc-1", Name: "Move the tests to the new runner", Status: "ACTIVE", RunStatus: "RUNNING", LatestRunID: "run-1", Machine: "ready", Doing: "Shell make test", CreatedAt: at(3), UpdatedAt: at(1)},
		{ID: "bc-2", Name: "Fix \x1b[31mthe\x1b]0;evil\x07 login\npage", Status: "ACTIVE", RunStatus: "RUNNING", LatestRunID: "run-2", Waiting: 1, CreatedAt: at(50), UpdatedAt: at(1)},
		{ID: "bc-3", Name: "Write the docs", Repos: []client.Repo{{URL: "https://git.example.com/acme/docs"}}, URL: "https://aloft.example.com/agents/bc-3", Status: "ACTIVE", RunStatus: "FINISHED", LatestRunID: "run-3", CreatedAt: at(60 * 72), UpdatedAt: at(60)},
		{ID: "bc-4", Name: "Upgrade the compiler", Status: "ACTIVE", RunStatus: "ERROR", LatestRunID: "run-4", Doing: "there is no ref nosuch", CreatedAt: at(2), UpdatedAt: at(1)},
		{ID: "bc-5", Name: "日本語の名前がここにあります、とても長い名前です", Status: "ACTIVE", RunStatus: "RUNNING", LatestRunID: "run-5", Paused: true, CreatedAt: at(60 * 30), UpdatedAt: at(60)},
	}
}

func questions() []client.Approval {
	return []client.Approval{{
		ID: "apr-1", AgentID: "bc-2", RunID: "run-2", Tool: "Shell", Subject: "npm test\n\x1b[2Krm -rf x", Reason: "to see whether it works",
		Why: "no entry allows npm", Entries: []string{"npm test"}, AskedAt: noon,
	}}
}

func journal() []client.Event {
	var out []client.Event
	add := func(kind, data string) {
		out = append(out, client.Event{Seq: int64(len(out) + 1), Time: noon.Add(time.Duration(len(out)) * time.Second), RunID: "run-1", Kind: kind, Data: json.RawMessage(data)})
	}
	add("run.created", `{"prompt":{"blocks":[{"text":"Move the tests to the new runner"}]}}`)
	add("boot.step", `{"name":"machine","state":"done","durationMs":40}`)
	add("text.delta", `{"text":"I look at the \u001b]0;evil\u0007tests first, because there may be more of them than one would think, and each may want something else.\n\nThen I move them."}`)
	add("turn.replied", `{"message":{"blocks":[{"call":{"id":"c1","name":"Shell","args":{"command":"make test"}}}]}}`)
	add("call.sent", `{"callId":"c1"}`)
	add("call.done", `{"callId":"c1","text":"\u001b[2Jok","durationMs":1234}`)
	return out
}

// panelTest is a panel into which a test types.
type panelTest struct {
	*Model
	t      *testing.T
	server *server
}

func newPanel(t *testing.T) *panelTest {
	s := &server{}
	m := New(t.Context(), Options{
		Connect: func() (Client, error) { return s, nil }, Problem: cli.ProblemOf, Now: func() time.Time { return noon },
		Attach: func(id string) *exec.Cmd { return exec.Command("true", id) },
	})
	return &panelTest{m, t, s}
}

func (p *panelTest) loaded() *panelTest {
	p.Update(p.poll(false)())
	return p
}

var named = map[string]rune{
	"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp, "space": tea.KeySpace, "end": tea.KeyEnd,
	"home": tea.KeyHome, "left": tea.KeyLeft, "backspace": tea.KeyBackspace, "pgup": tea.KeyPgUp,
}

// press presses keys, and runs the last key's command if it is an action.
func (p *panelTest) press(keys ...string) tea.Cmd {
	p.t.Helper()
	var cmd tea.Cmd
	for _, k := range keys {
		key := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := named[k]; ok {
			key = tea.KeyPressMsg{Code: code}
		}
		_, cmd = p.Update(key)
	}
	return cmd
}

// TestAsksFirst uses an old agent that waits for an answer and newer agents
// that have failed. The old agent must come first, and the two kinds must be
// counted separately.
func TestAsksFirst(t *testing.T) {
	p := newPanel(t)
	p.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	p.loaded()
	lines := p.Lines()
	if !strings.Contains(lines[0], "1 asks you") || !strings.Contains(lines[0], "1 failed") {
		t.Errorf("the title is %q", lines[0])
	}
	if at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "bc-2") || strings.Contains(l, "login") }); at < 0 || !strings.Contains(lines[at], "Asks you") || strings.Contains(strings.Join(lines[:at], "\n"), "Failed") {
		t.Errorf("the agent that asks is not first:\n%s", p.screen())
	}
}

// TestSearchOfAll checks that a search finds an agent that the panel does not
// list.
func TestSearchOfAll(t *testing.T) {
	p := newPanel(t)
	p.server.beyond = []client.Agent{{ID: "bc-9", Name: "Old importer", Status: "ACTIVE", RunStatus: "FINISHED", CreatedAt: noon.AddDate(-1, 0, 0)}}
	p.Update(tea.WindowSizeMsg{Width: 100, Height: 24})
	p.loaded().press("/", "i", "m", "p", "o", "r", "t", "e", "r")
	if got := p.screen(); strings.Contains(got, "No agent") || !strings.Contains(got, "Searching all agents") {
		t.Errorf("before the server has answered the screen says:\n%s", got)
	}
	p.does(p.press("enter"))
	if got := p.screen(); !strings.Contains(got, "Old importer") {
		t.Errorf("the agent is not found:\n%s", got)
	}
}

// does runs a command and passes its message to the panel.
func (p *panelTest) does(cmd tea.Cmd) {
	p.t.Helper()
	if cmd == nil {
		p.t.Fatal("no command follows")
	}
	p.Update(cmd())
}

func (p *panelTest) screen() string {
	lines := p.Lines()
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// TestScreens compares each screen with a file.
func TestScreens(t *testing.T) {
	for name, lead := range map[string]func(p *panelTest){
		"search":        func(p *panelTest) { p.loaded().press("/", "r", "u", "n", "n", "e", "r", " ", "w", "o", "r", "k") },
		"nothing-found": func(p *panelTest) { p.loaded().press("/", "x", "y", "enter") },
		"new-agent":     func(p *panelTest) { p.loaded().press("G", "n", "enter", "d", "o") },
		"failed": func(p *panelTest) {
			p.loaded().press("down", "enter")
			p.Update(eventsArrived{p.open.feed, []client.Event{journal()[0], {Seq: 2, Time: noon, RunID: "run-4", Kind: "run.ended", Data: json.RawMessage(
				`{"status":"ERROR","failure":{"code":"ref_not_found","message":"there is no ref \u001b[2Jnosuch","hint":"name another"}}`)}}})
		},
		"sixty":   func(p *panelTest) { p.loaded().Update(tea.WindowSizeMsg{Width: 60, Height: 12}) },
		"loading": func(*panelTest) {},
		"no-server": func(p *panelTest) {
			p.Update(polled{err: &cli.Problem{Message: "there is no server to speak to", Hint: "start one with `aloft serve`, sign in to one with `aloft login URL`, or set ALOFT_URL and ALOFT_API_KEY"}})
		},
		"empty": func(p *panelTest) { p.Update(polled{client: p.server}) },
		"list":  func(p *panelTest) { p.loaded().press("down") },
		"offline": func(p *panelTest) {
			p.loaded().Update(polled{err: &client.UnreachableError{URL: "http://x", Err: errors.New("refused")}})
		},
		"help":        func(p *panelTest) { p.loaded().press("?") },
		"help-narrow": func(p *panelTest) { p.loaded().press("?"); p.Update(tea.WindowSizeMsg{Width: 40, Height: 40}) },
		"question":    func(p *panelTest) { p.loaded().press("a") },
		"deny":        func(p *panelTest) { p.loaded().press("a", "n", "n", "o", "!", "left") },
		"sure":        func(p *panelTest) { p.loaded().press("s") },
		"diff":        func(p *panelTest) { p.loaded(); p.does(p.press("d")) },
		"opening":     func(p *panelTest) { p.loaded().press("enter") },
		"conversation": func(p *panelTest) {
			p.loaded().press("down", "down", "enter")
			p.Update(eventsArrived{p.open.feed, journal()})
		},
		"follow-up": func(p *panelTest) {
			p.loaded().press("down", "down", "enter", "f", "n", "o", "w")
			p.Update(tea.PasteMsg{Content: " two\nlines\x1b[2J"})
		},
		"gone": func(p *panelTest) {
			p.loaded().press("enter")
			p.Update(feedEnded{p.open.feed, &client.Error{Status: 404, Code: "agent_not_found", Message: "no agent bc-2"}})
		},
		"tiny": func(p *panelTest) { p.loaded().Update(tea.WindowSizeMsg{Width: 20, Height: 5}) },
		"narrow": func(p *panelTest) {
			p.loaded().press("down", "down", "enter")
			p.Update(eventsArrived{p.open.feed, journal()})
			p.Update(tea.WindowSizeMsg{Width: 40, Height: 12})
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPanel(t)
			p.Update(tea.WindowSizeMsg{Width: 80, Height: 24})
			lead(p)
			fits(t, p)
			golden(t, filepath.Join("testdata", name+".golden"), p.screen())
			if p.View().Content != strings.Join(p.Lines(), "\n") || !p.View().AltScreen {
				t.Error("the view is not the lines, full screen")
			}
			if got := p.screen(); strings.ContainsAny(got, "\x1b\x07\u009b") {
				t.Errorf("without colour there is an escape sequence in %q", got)
			}
		})
	}
}

// fits fails unless every line fits the screen's width, and all lines fit its
// height.
func fits(t *testing.T, p *panelTest) {
	t.Helper()
	lines := p.Lines()
	if len(lines) > max(p.high, 1) {
		t.Errorf("%d lines; the screen has %d", len(lines), p.high)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > p.wide || strings.Contains(line, "\n") {
			t.Errorf("%q does not fit %d columns", line, p.wide)
		}
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

// TestKeysAskTheServer checks the requests that keys cause. In the list, bc-2
// is selected and waits for an answer. Below it are bc-4, bc-1, bc-5 and bc-3.
func TestKeysAskTheServer(t *testing.T) {
	for _, c := range []struct {
		keys string
		want string
		said string
	}{
		{"a y", "answer bc-2 apr-1 allow_once ", "Allowed once."},
		{"a Y", "answer bc-2 apr-1 allow_agent ", "Allowed for this agent, with similar calls."},
		{"a A", "answer bc-2 apr-1 allow_always ", "Allowed for all your agents, with similar calls. The rules were added to your permissions.json."},
		{"x y", "archive bc-2", "Archived. Restore it with `aloft agent unarchive bc-2`."},
		{"x n", "", ""},
		{"/ d o c s enter x y", "archive bc-3", "Archived. Restore it with `aloft agent unarchive bc-3`."},
		{"/ d o c s esc s y", "cancel bc-2 run-2", "Stopped. Its machine and its work are kept."},
		{"/ n o n e enter s", "", ""},
		{"G o", "", "Dashboard: https://aloft.example.com/agents/bc-3"},
		{"n enter enter", "", "Type something to send first."},
		{"a n enter", "answer bc-2 apr-1 deny ", "Denied."},
		{"a n n o x backspace enter", "answer bc-2 apr-1 deny no", "Denied."},
		{"enter a y", "answer bc-2 apr-1 allow_once ", "Allowed once."},
		{"s y", "cancel bc-2 run-2", "Stopped. Its machine and its work are kept."},
		{"down down enter p", "pause bc-1", "Paused before its next step. Press p to resume."},
		{"down down down p", "resume bc-5", "Resumed."},
		{"down s", "", "This agent is not running."},
		{"down p", "", "This agent is not running."},
		{"down a", "", "This agent is not waiting for an answer."},
		{"s n", "", ""},
		{"y", "", ""},
		{"f enter", "", "Type something to send first."},
	} {
		t.Run(c.keys, func(t *testing.T) {
			p := newPanel(t).loaded()
			if cmd := p.press(strings.Fields(c.keys)...); c.want != "" {
				p.does(cmd)
			} else if cmd != nil {
				t.Error("a command follows; want none")
			}
			if got := strings.Join(p.server.asked, "\n"); got != c.want {
				t.Errorf("asked %q; want %q", got, c.want)
			}
			if p.notice != c.said {
				t.Errorf("said %q; want %q", p.notice, c.said)
			}
		})
	}
}

// The text of a follow-up is kept after Esc and after a server error. A second attempt
// uses the same idempotency key.
func TestFollowUpIsKeptUntilItIsSent(t *testing.T) {
	p := newPanel(t).loaded()
	p.press("down", "f", "h", "i", "esc")
	p.press("f")
	if got := string(p.typed.text); got != "hi" {
		t.Fatalf("after Esc there is %q", got)
	}
	p.server.err = &client.Error{Status: 409, Code: "agent_busy", Message: "the agent works on another prompt"}
	p.does(p.press("enter"))
	if !p.bad || !strings.Contains(p.notice, "agent stop") || !strings.Contains(p.notice, "kept") {
		t.Errorf("said %q", p.notice)
	}
	p.server.err = nil
	p.does(p.press("f", "enter"))
	if len(p.server.asked) != 2 || p.server.asked[0] != p.server.asked[1] || !strings.HasPrefix(p.server.asked[0], "run bc-4 hi ") {
		t.Errorf("asked %q; want the same twice", p.server.asked)
	}
	if p.press("f"); len(p.typed.text) != 0 {
		t.Errorf("after it was sent there is %q", string(p.typed.text))
	}
}

// While an agent works, a follow-up is queued at the server.
func TestFollowUpIsQueued(t *testing.T) {
	p := newPanel(t).loaded()
	p.does(p.press("f", "h", "i", "enter"))
	if len(p.server.asked) != 1 || !strings.HasPrefix(p.server.asked[0], "queue bc-2 hi ") {
		t.Errorf("asked %q", p.server.asked)
	}
}

// A new agent works on the selected agent's repository. Its prompt is kept
// until the agent exists, a second attempt sends the same request, and then the
// agent is opened.
func TestNewAgent(t *testing.T) {
	p := newPanel(t).loaded()
	p.press("G", "n", "enter", "d", "o", "esc")
	p.press("n", "enter")
	if got := string(p.typed.text); got != "do" {
		t.Fatalf("after Esc there is %q", got)
	}
	p.server.err = errors.New("gone")
	p.does(p.press("enter"))
	if !p.bad || !strings.Contains(p.notice, "kept: press n") || p.open != nil {
		t.Errorf("said %q", p.notice)
	}
	p.server.err = nil
	p.does(p.press("n", "enter", "enter"))
	if len(p.server.asked) != 2 || p.server.asked[0] != p.server.asked[1] || !strings.HasPrefix(p.server.asked[0], "create bc-") ||
		!strings.Contains(p.server.asked[0], " https://git.example.com/acme/docs do ") {
		t.Errorf("asked %q; want the same twice", p.server.asked)
	}
	if p.open == nil || !strings.Contains(p.server.asked[0], p.open.agentID) {
		t.Error("the agent was not opened")
	}
	if p.press("esc", "n", "enter"); len(p.typed.text) != 0 {
		t.Errorf("after it was sent there is %q", string(p.typed.text))
	}
	p.does(p.press("x", "enter"))
	if other := p.server.asked[2]; strings.Fields(other)[1] == strings.Fields(p.server.asked[0])[1] {
		t.Errorf("another task makes the same agent: %s", other)
	}
}

// A person can allow a request only after the whole request was on the screen.
func TestLongQuestionIsReadToItsEnd(t *testing.T) {
	p := newPanel(t).loaded()
	p.questions[0].Subject = strings.Repeat("echo\n", 100) + "rm -rf /"
	p.press("a", "y")
	if p.page == nil || !strings.Contains(p.notice, "Read to the end") {
		t.Fatalf("said %q", p.notice)
	}
	p.does(p.press("end", "y"))
	if len(p.server.asked) != 1 {
		t.Errorf("asked %q", p.server.asked)
	}
}

// If somebody else answers a request, it disappears, so that a key cannot
// answer the next request.
func TestAnsweredQuestionGoes(t *testing.T) {
	p := newPanel(t).loaded()
	p.press("a")
	p.Update(polled{client: p.server, agents: agents()})
	if p.page != nil || !strings.Contains(p.screen(), "has been answered") {
		t.Errorf("the screen is\n%s", p.screen())
	}
}

// The conversation stays at its end until a person scrolls. Then it stays where it
// is.
func TestConversationScrolls(t *testing.T) {
	p := newPanel(t).loaded()
	p.press("enter")
	say := func(words string) {
		data, _ := json.Marshal(map[string]string{"text": words})
		p.Update(eventsArrived{p.open.feed, []client.Event{{Kind: "text.delta", Data: data}}})
	}
	say(strings.Repeat("old\n", 100) + "last")
	if !strings.Contains(p.screen(), "last") {
		t.Errorf("the newest is not shown:\n%s", p.screen())
	}
	p.press("pgup")
	was := p.Lines()[:20]
	say(" of all\nmore\nand more")
	if diff := cmp.Diff(was, p.Lines()[:20]); diff != "" {
		t.Errorf("what is read has moved: %s", diff)
	}
	p.press("end")
	if !strings.Contains(p.screen(), "and more") {
		t.Errorf("the newest is not shown:\n%s", p.screen())
	}
	say(strings.Repeat("x", 1<<20) + "\n" + strings.Repeat("line\n", 3*keptLines))
	if n := len(p.open.lines); n > 2*keptLines {
		t.Errorf("%d lines are kept", n)
	}
	fits(t, p)
}

// Events of an agent that was closed do not appear in another agent's
// conversation.
func TestLateEventsAreDropped(t *testing.T) {
	p := newPanel(t).loaded()
	p.press("enter")
	old := p.open.feed
	p.press("esc", "down", "enter")
	p.Update(eventsArrived{old, journal()})
	if old.ctx.Err() == nil || p.open.hasEvents {
		t.Error("the journal of the agent that was left goes on")
	}
}

// FuzzScreen checks that the screen contains no control sequences, whatever
// names, messages, requests and changes agents have, at any size.
func FuzzScreen(f *testing.F) {
	f.Add("\x1b]0;evil\x07name", "\x1b[31mtext\r\n\u202e", 80, 24)
	f.Add("日本語\u0301", "\tx\u200d👩‍👩‍👧", 31, 9)
	f.Fuzz(func(t *testing.T, name, text string, wide, high int) {
		p := newPanel(t).loaded()
		p.Update(tea.WindowSizeMsg{Width: int(uint(wide) % 300), Height: int(uint(high) % 100)})
		p.agents[0].Name, p.agents[0].Doing, p.questions[0].Subject, p.questions[0].Tool = name, text, text, name
		clean := func() {
			t.Helper()
			for _, line := range p.Lines() {
				if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
					t.Fatalf("%q is on the screen", line)
				}
			}
			if p.wide >= leastWide {
				fits(t, p)
			}
		}
		clean()
		p.press("a")
		clean()
		p.press("esc", "d")
		p.Update(diffRead{agentID: p.chosen, diff: client.Diff{Diff: text}})
		clean()
		p.press("esc", "enter")
		data, _ := json.Marshal(map[string]string{"text": text})
		p.Update(eventsArrived{p.open.feed, []client.Event{{Kind: "text.delta", Data: data}}})
		clean()
	})
}
