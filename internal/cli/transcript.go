package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/client"
)

// Transcript prints a journal as its events arrive: boot steps, messages, tool calls
// with their durations, and results. It must be used by one goroutine, except that
// another may call Tick.
type Transcript struct {
	out   *Output
	words Cleaner
	told  strings.Builder // text of the current reply as streamed so far
	calls map[string]*toolCall
	order []string // ids of calls without a result
	began time.Time
	// Output makes Show print the results of tool calls too.
	Output bool
	// Branches lists the pushed branches in order.
	Branches []client.Branch
	// Ended is the result of the run that ended last; nil before.
	Ended *RunEnd

	doing  activity
	indent string // indentation of the current lines
}

// RunEnd is the result of a run.
type RunEnd struct {
	RunID   string
	Status  string
	Result  string
	Failure *client.Failure
	Hint    string
	Took    time.Duration
}

type toolCall struct {
	name, about string
}

// NewTranscript returns a transcript that prints to out.
func NewTranscript(out *Output) *Transcript {
	return &Transcript{out: out, calls: map[string]*toolCall{}}
}

// body is the union of the fields of all events that are shown.
type body struct {
	Kind          string          `json:"kind"` // of a subagent's event
	Data          json.RawMessage `json:"data"` // likewise
	Type          string          `json:"type"` // of a subagent
	Description   string          `json:"description"`
	Background    bool            `json:"background"` // likewise
	Told          string          `json:"told"`       // likewise
	Name          string          `json:"name"`
	State         string          `json:"state"`
	DurationMS    int64           `json:"durationMs"`
	Detail        string          `json:"detail"`
	Code          string          `json:"code"`
	Reason        string          `json:"reason"`
	Text          string          `json:"text"`
	WaitMS        int64           `json:"waitMs"`
	From          json.RawMessage `json:"from"` // of a fallback: a string
	To            json.RawMessage `json:"to"`   // likewise
	Purpose       string          `json:"purpose"`
	Attempt       int             `json:"attempt"`
	Attempts      int             `json:"attempts"` // 0 if unknown
	Turn          int             `json:"turn"`
	CallID        string          `json:"callId"`
	Error         bool            `json:"error"`
	RepoURL       string          `json:"repoUrl"`
	EnvironmentID string          `json:"environmentId"`
	At            time.Time       `json:"at"`
	Script        string          `json:"script"`
	Branch        string          `json:"branch"`
	Made          bool            `json:"made"`
	PullRequest   struct {
		URL string `json:"url"`
	} `json:"pullRequest"`
	Results  []client.CheckResult `json:"results"` // of checks
	Verdict  client.GoalVerdict   `json:"verdict"` // on a goal
	Outcome  string               `json:"outcome"`
	Evidence *client.Evidence     `json:"evidence"`
	Commit   string               `json:"commit"`
	Unhooked string               `json:"unhooked"`
	Status   string               `json:"status"`
	Result   string               `json:"result"`
	Message  json.RawMessage      `json:"message"` // a string, or a model's message
	Prompt   message              `json:"prompt"`
	Approval client.Approval      `json:"approval"`
	Decision string               `json:"decision"`
	Failure  *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Hint    string `json:"hint"`
	} `json:"failure"`
}

type message struct {
	Blocks []struct {
		Text string `json:"text"`
		Call *struct {
			ID   string          `json:"id"`
			Name string          `json:"name"`
			Args json.RawMessage `json:"args"`
		} `json:"call"`
	} `json:"blocks"`
}

// Show prints one event. It ignores unknown kinds, which a newer server may send.
func (t *Transcript) Show(e client.Event) {
	var b body
	if json.Unmarshal(e.Data, &b) != nil {
		return
	}
	if t.began.IsZero() {
		t.began = e.Time // the transcript may start in the middle of the run
	}
	switch e.Kind {
	case "run.created":
		t.began = e.Time
		t.Ended = nil
		t.doing.set("waiting for a machine", e.Time)
		t.prompt(b.Prompt)
	case "run.started":
		t.doing.set("starting", e.Time)
	case "boot.step":
		t.bootStep(b, e.Time)
	case "machine.ready":
		t.doing.set("thinking", e.Time)
	case "text.delta":
		t.told.WriteString(b.Text)
		t.out.Text(t.words.Clean(b.Text))
		t.doing.set("thinking", e.Time)
	case "turn.replied":
		t.replied(b, e.Time)
	case "task.began":
		t.taskBegan(b, e.Time)
	case "task.ended":
		t.taskEnded(b)
	case "task.event":
		t.printSubagent(b, e.Time)
	case "approval.asked":
		t.printRequest(b)
	case "approval.answered":
		t.line(Yellow, "!", "answer", answers[b.Decision]+detail(text(b.Message)), 0)
		t.doing.set("thinking", e.Time)
	case "call.sent":
		t.sent(b.CallID, e.Time)
	case "call.done":
		t.done(b, e.Time)
	case "model.retry":
		t.told.Reset()
		what := t.retryReason(b) + attempt(b.Attempt, b.Attempts)
		if b.WaitMS > 0 { // otherwise another model answers
			what += "; retrying in " + Took(time.Duration(b.WaitMS)*time.Millisecond)
		}
		t.line(Yellow, "~", "retry", what, 0)
	case "model.fallback":
		t.line(Yellow, "!", "model", fallbackText(b), 0)
	case "machine.lost":
		t.line(Yellow, "!", "lost", "the machine stopped: "+b.Reason, 0)
	case "machine.out_of_memory":
		t.line(Yellow, "!", "memory", text(b.Message), 0)
	case "machine.disk_full":
		t.line(Yellow, "!", "disk", text(b.Message), 0)
	case "machine.hibernated":
		if b.Code == "failed" || b.Code == "no_room" { // unlike the configured disk-only sleep
			t.line(Yellow, "!", "asleep", "without its processes: "+b.Reason, 0)
		}
	case "machine.expiring":
		t.line(Yellow, "!", "unused", "the machine and its disk will be deleted at "+b.At.UTC().Format("2006-01-02 15:04 MST")+" unless somebody uses it", 0)
	case "machine.expired":
		t.line(Yellow, "!", "unused", "the machine and its disk were deleted; pushed branches are kept", 0)
	case "environment.script":
		t.line(Green, "+", "setup", "later machines use the install script of "+b.EnvironmentID+" (aloft env history "+b.EnvironmentID+"):", 0)
		t.out.Line("    %s", strings.ReplaceAll(strings.TrimSpace(Clean(b.Script)), "\n", "\n    "))
	case "notice":
		t.line(Yellow, "!", "note", b.Text, 0)
	case "agent.rewound":
		t.line(Yellow, "<", "back", fmt.Sprintf("to before turn %d: the turns from there on are replaced", b.Turn), 0)
	case "prompt.queued":
		for _, block := range b.Prompt.Blocks {
			if block.Text != "" {
				t.line(Dim, "+", "queued", block.Text, 0)
			}
		}
	case "prompt.unqueued":
		t.line(Dim, "-", "queued", "a queued prompt was removed", 0)
	case "compacted":
		t.line(Dim, "~", "note", "the conversation was long: summarized its beginning", 0)
	case "cancel.asked":
		t.line(Yellow, "!", "stop", "asked to stop "+b.Reason, 0)
	case "committed":
		t.line(Green, "+", "commit", short(b.Commit)+" "+text(b.Message), 0)
		t.unhooked(b)
	case "pushed":
		t.line(Green, "+", "push", b.Branch+" "+short(b.Commit)+" to "+b.RepoURL, 0)
		t.unhooked(b)
		t.pushed(b)
	case "pull_request.opened":
		what := "continuing "
		if b.Made {
			what = "opened "
		}
		t.line(Green, "+", "pull request", what+b.PullRequest.URL, 0)
	case "pull_request.failed":
		if b.Failure != nil {
			t.line(Yellow, "!", "pull request", "none: "+b.Failure.Message, 0)
			if b.Failure.Hint != "" {
				t.line(Dim, "", "", b.Failure.Hint, 0)
			}
		}
	case "goal.judged":
		style, mark, what := goalText(b.Verdict)
		t.line(style, mark, "goal", what, 0)
	case "checks.began":
		t.doing.set("running checks", e.Time)
	case "checks.ended":
		for _, r := range b.Results {
			t.check(r)
		}
		t.doing.set("thinking", e.Time)
	case "run.ended":
		t.ended(b, e)
	}
}

func (t *Transcript) prompt(m message) {
	for _, block := range m.Blocks {
		if block.Text != "" {
			t.line(Bold, ">", "prompt", block.Text, 0)
		}
	}
}

func (t *Transcript) bootStep(b body, at time.Time) {
	took := time.Duration(b.DurationMS) * time.Millisecond
	switch b.State {
	case "running":
		t.doing.set("boot: "+Line(b.Name, 40), at)
	case "done":
		t.line(Green, "+", "boot", b.Name+detail(b.Detail), took)
	case "failed":
		t.line(Red, "x", "boot", b.Name+" failed"+detail(b.Detail), took)
	}
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

// answers maps decisions to text.
var answers = map[string]string{
	client.AllowOnce: "allowed", client.AllowAgent: "allowed for this agent", client.AllowAlways: "allowed for all your agents", client.Deny: "denied", client.Answered: "answered",
}

// printRequest prints a request in full, and how to answer it.
func (t *Transcript) printRequest(b body) {
	q := b.Approval
	t.doing.set("", q.AskedAt) // no animation while somebody types
	by := ""
	if q.Subagent != "" {
		by = " of a subagent (" + q.Subagent + ")"
	}
	t.line(Yellow, "?", "asks", q.Tool+by+": "+q.Why, 0)
	t.out.Line("    %s", strings.ReplaceAll(strings.TrimSpace(Clean(q.Subject)), "\n", "\n    "))
	for _, line := range q.Lines() {
		t.out.Line("      %s", Clean(line))
	}
	if q.Tool == client.PlanTool {
		t.out.Line("\n    %s\n", strings.ReplaceAll(strings.TrimSpace(Clean(q.Change)), "\n", "\n    "))
	}
	if t.out.wide > 0 {
		return // the panel shows keys for this
	}
	id := Line(q.ID, 80)
	if len(q.Questions) > 0 {
		t.out.Line("    %s", t.out.Style(Dim, "aloft approvals answer "+id+" …"))
		return
	}
	t.out.Line("    %s", t.out.Style(Dim, "aloft approvals allow "+id+"   or   aloft approvals deny "+id))
}

// replied prints the part of a reply that was not streamed, and records its tool calls.
func (t *Transcript) replied(b body, at time.Time) {
	var m message
	if json.Unmarshal(b.Message, &m) != nil {
		return
	}
	var whole strings.Builder
	for _, block := range m.Blocks {
		whole.WriteString(block.Text)
	}
	t.calling(m)
	if rest, ok := strings.CutPrefix(whole.String(), t.told.String()); ok {
		t.out.Text(t.words.Clean(rest))
	}
	t.told.Reset()
	t.words = Cleaner{}
	t.doing.set("thinking", at)
}

func (t *Transcript) sent(id string, at time.Time) {
	if c := t.calls[id]; c != nil {
		t.order = append(t.order, id)
		t.doing.set(strings.TrimSpace(c.name+" "+c.about), at)
	}
}

func (t *Transcript) done(b body, at time.Time) {
	c := t.calls[b.CallID]
	if c == nil {
		return
	}
	delete(t.calls, b.CallID)
	for i, id := range t.order {
		if id == b.CallID {
			t.order = append(t.order[:i:i], t.order[i+1:]...)
			break
		}
	}
	style, mark, said := Green, "+", c.about
	if b.Error {
		style, mark, said = Red, "x", c.about+": "+Line(b.Text, 80)
	}
	t.line(style, mark, c.name, said, time.Duration(b.DurationMS)*time.Millisecond)
	if result := strings.TrimSpace(Clean(b.Text)); t.Output && result != "" {
		t.out.Line("%s", t.indent+"    "+strings.ReplaceAll(result, "\n", "\n    "+t.indent))
	}
	t.doing.set("thinking", at)
	if len(t.order) > 0 {
		c := t.calls[t.order[0]]
		t.doing.set(strings.TrimSpace(c.name+" "+c.about), at)
	}
}

// unhooked reports a commit or push that bypassed the project's git hooks.
func (t *Transcript) unhooked(b body) {
	if b.Unhooked != "" {
		t.line(Yellow, "!", "hooks", b.Unhooked, 0)
	}
}

func (t *Transcript) pushed(b body) {
	_, repo, ok := strings.Cut(b.RepoURL, "://")
	if !ok {
		repo = b.RepoURL
	}
	for _, old := range t.Branches {
		if old.RepoURL == repo && old.Branch == b.Branch {
			return
		}
	}
	t.Branches = append(t.Branches, client.Branch{RepoURL: repo, Branch: b.Branch})
}

func (t *Transcript) ended(b body, e client.Event) {
	t.doing.set("", e.Time)
	end := &RunEnd{RunID: e.RunID, Status: b.Status, Result: b.Result, Took: e.Time.Sub(t.began)}
	switch b.Status {
	case client.Finished:
		t.line(Green, "+", "done", "finished", end.Took)
	case client.Cancelled:
		t.line(Yellow, "!", "done", "stopped", end.Took)
	default:
		t.line(Red, "x", "done", "ended as "+b.Status, end.Took)
	}
	if b.Evidence != nil {
		t.line(Dim, "", "outcome", OutcomeText(b.Outcome, b.Evidence), 0)
	}
	if b.Failure != nil {
		end.Failure = &client.Failure{Code: b.Failure.Code, Message: b.Failure.Message}
		end.Hint = b.Failure.Hint
	}
	t.Ended = end
	clear(t.calls)
	t.order = nil
}

// retryReason returns the reason for a model retry.
func (t *Transcript) retryReason(b body) string {
	if s := text(b.Message); s != "" {
		return s
	}
	return b.Reason
}

// line prints an event, with a mark on a terminal and with its name in a pipe.
func (t *Transcript) line(style Style, mark, name, what string, took time.Duration) {
	suffix := ""
	if took > 0 {
		suffix = "  " + Took(took)
	}
	name = Line(name, 40)
	what = Line(what, max(t.out.width()-utf8.RuneCountInString(name)-len(suffix)-len(t.indent)-4, 20))
	if !t.out.live {
		t.out.Line("%s", t.indent+strings.TrimRight(name+": "+what, " ")+suffix)
		return
	}
	t.out.Line("%s%s %s %s%s", t.indent, t.out.Style(style, mark), t.out.Style(Bold, name), what, t.out.Style(Dim, suffix))
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func short(commit string) string { return commit[:min(len(commit), 10)] }

// telling lists the arguments that best describe a call, best first.
var telling = []string{"command", "path", "pattern", "glob_pattern", "query", "url", "description"}

// about summarizes a call's arguments.
func about(args json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return Line(string(args), 80)
	}
	for _, name := range telling {
		if s := text(fields[name]); s != "" {
			return Line(s, 80)
		}
	}
	return ""
}

// attempt returns which attempt failed, if the total is known.
func attempt(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d of %d)", n, of)
}
