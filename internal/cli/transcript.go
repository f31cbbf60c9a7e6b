package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/client"
	"aloft/internal/conversation"
)

// Transcript prints a journal as its events arrive: boot steps, messages, tool
// calls with their durations, and results. Only one goroutine may use it, but
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
	// Ended is the result of the last run that ended, or nil if none has ended.
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

// Show prints one event. It ignores unknown kinds, which a newer server may send.
func (t *Transcript) Show(e client.Event) {
	if t.began.IsZero() {
		t.began = e.Time // the transcript may start in the middle of the run
	}
	body, err := agent.Decode(e.Kind, e.Data)
	if err != nil {
		return
	}
	switch b := body.(type) {
	case *agent.RunCreated:
		t.began = e.Time
		t.Ended = nil
		t.doing.set("waiting for a machine", e.Time)
		t.prompt(b.Prompt)
	case *agent.RunStarted:
		t.doing.set("starting", e.Time)
	case *agent.BootStep:
		t.bootStep(b, e.Time)
	case *agent.MachineReady:
		t.doing.set("thinking", e.Time)
	case *agent.TextDelta:
		t.told.WriteString(b.Text)
		t.out.Text(t.words.Clean(b.Text))
		t.doing.set("thinking", e.Time)
	case *agent.TurnReplied:
		t.replied(b.Message, e.Time)
	case *agent.TaskBegan:
		t.taskBegan(b, e.Time)
	case *agent.TaskEnded:
		t.taskEnded(b)
	case *agent.Within:
		t.printSubagent(b.Body, e.Time)
	case *agent.ApprovalAsked:
		t.printRequest(ApprovalOf(b.Approval))
	case *agent.ApprovalAnswered:
		t.line(Yellow, "!", "answer", answers[b.Decision]+detail(b.Message), 0)
		t.doing.set("thinking", e.Time)
	case *agent.CallSent:
		t.sent(b.CallID, e.Time)
	case *agent.CallDone:
		t.done(b, e.Time)
	case *agent.ModelRetry:
		t.told.Reset()
		what := retryReason(b) + attempt(b.Attempt, b.Attempts)
		if b.WaitMS > 0 { // without a wait, another model answers
			what += "; retrying in " + Took(time.Duration(b.WaitMS)*time.Millisecond)
		}
		t.line(Yellow, "~", "retry", what, 0)
	case *agent.ModelFallback:
		t.line(Yellow, "!", "model", fallbackText(b), 0)
	case *agent.MachineLost:
		t.line(Yellow, "!", "lost", "the machine stopped: "+b.Reason, 0)
	case *agent.MachineOutOfMemory:
		t.line(Yellow, "!", "memory", b.Message, 0)
	case *agent.MachineDiskFull:
		t.line(Yellow, "!", "disk", b.Message, 0)
	case *agent.MachineHibernated:
		if b.Code == "failed" || b.Code == "no_room" { // unlike the configured disk-only sleep
			t.line(Yellow, "!", "asleep", "without its processes: "+b.Reason, 0)
		}
	case *agent.MachineExpiring:
		t.line(Yellow, "!", "unused", "the machine and its disk will be deleted at "+b.At.UTC().Format("2006-01-02 15:04 MST")+" unless somebody uses it", 0)
	case *agent.MachineExpired:
		t.line(Yellow, "!", "unused", "the machine and its disk were deleted; pushed branches are kept", 0)
	case *agent.ScriptKept:
		t.line(Green, "+", "setup", "later machines use the install script of "+b.EnvironmentID+" (aloft env history "+b.EnvironmentID+"):", 0)
		t.out.Line("    %s", strings.ReplaceAll(strings.TrimSpace(Clean(b.Script)), "\n", "\n    "))
	case *agent.Notice:
		t.line(Yellow, "!", "note", b.Text, 0)
	case *agent.Rewound:
		t.line(Yellow, "<", "back", fmt.Sprintf("to before turn %d: the turns from there on are replaced", b.Turn), 0)
	case *agent.Queued:
		for _, block := range b.Prompt.Blocks {
			if block.Text != "" {
				t.line(Dim, "+", "queued", block.Text, 0)
			}
		}
	case *agent.Unqueued:
		t.line(Dim, "-", "queued", "a queued prompt was removed", 0)
	case *agent.Compacted:
		t.line(Dim, "~", "note", "the conversation was long: summarized its beginning", 0)
	case *agent.CancelAsked:
		t.line(Yellow, "!", "stop", "asked to stop "+b.Reason, 0)
	case *agent.Committed:
		t.line(Green, "+", "commit", short(b.Commit)+" "+b.Message, 0)
		t.unhooked(b.Unhooked)
	case *agent.Pushed:
		t.line(Green, "+", "push", b.Branch+" "+short(b.Commit)+" to "+b.RepoURL, 0)
		t.unhooked(b.Unhooked)
		t.pushed(b)
	case *agent.PullRequestOpened:
		what := "continuing "
		if b.Made {
			what = "opened "
		}
		t.line(Green, "+", "pull request", what+b.PullRequest.URL, 0)
	case *agent.PullRequestFailed:
		t.line(Yellow, "!", "pull request", "none: "+b.Failure.Message, 0)
		if b.Failure.Hint != "" {
			t.line(Dim, "", "", b.Failure.Hint, 0)
		}
	case *agent.GoalJudged:
		style, mark, what := goalText(client.GoalVerdict(b.Verdict))
		t.line(style, mark, "goal", what, 0)
	case *agent.ChecksBegan:
		t.doing.set("running checks", e.Time)
	case *agent.ChecksEnded:
		for _, r := range b.Results {
			t.check(checkOf(r))
		}
		t.doing.set("thinking", e.Time)
	case *agent.RunEnded:
		t.ended(b, e)
	}
}

func (t *Transcript) prompt(m conversation.Message) {
	for _, block := range m.Blocks {
		if block.Text != "" {
			t.line(Bold, ">", "prompt", block.Text, 0)
		}
	}
}

func (t *Transcript) bootStep(b *agent.BootStep, at time.Time) {
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
var answers = map[agent.Decision]string{
	agent.AllowOnce: "allowed", agent.AllowAgent: "allowed for this agent", agent.AllowAlways: "allowed for all your agents", agent.Deny: "denied", agent.Answered: "answered",
}

// printRequest prints a request in full, and how to answer it.
func (t *Transcript) printRequest(q client.Approval) {
	t.doing.set("", q.AskedAt) // stop the animation while somebody types
	by := ""
	if q.Subagent != "" {
		by = " of a subagent (" + q.Subagent + ")"
	}
	t.line(Yellow, "?", "asks", q.Tool+by+": "+q.Why, 0)
	t.out.Line("    %s", strings.ReplaceAll(strings.TrimSpace(Exact(q.Subject)), "\n", "\n    "))
	for _, line := range q.Lines() {
		t.out.Line("      %s", Exact(line))
	}
	if q.Tool == client.PlanTool {
		t.out.Line("\n    %s\n", strings.ReplaceAll(strings.TrimSpace(Exact(q.Change)), "\n", "\n    "))
	}
	if t.out.wide > 0 {
		return // the panel shows keys for answering
	}
	id := Line(q.ID, 80)
	if len(q.Questions) > 0 {
		t.out.Line("    %s", t.out.Style(Dim, "aloft approvals answer "+id+" …"))
		return
	}
	t.out.Line("    %s", t.out.Style(Dim, "aloft approvals allow "+id+"   or   aloft approvals deny "+id))
}

// replied prints the part of a reply that was not streamed, and records its tool calls.
func (t *Transcript) replied(m conversation.Message, at time.Time) {
	t.calling(m)
	if rest, ok := strings.CutPrefix(m.PlainText(), t.told.String()); ok {
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

func (t *Transcript) done(b *agent.CallDone, at time.Time) {
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
	switch code, exited := agent.ExitCode(b.Output); {
	case b.Error:
		style, mark, said = Red, "x", c.about+": "+Line(b.Text, 80)
	case exited && code != 0:
		style, mark, said = Red, "x", fmt.Sprintf("exit code %d: %s", code, c.about)
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

// unhooked reports why a commit or push bypassed the project's git hooks. It prints
// nothing if why is "".
func (t *Transcript) unhooked(why string) {
	if why != "" {
		t.line(Yellow, "!", "hooks", why, 0)
	}
}

func (t *Transcript) pushed(b *agent.Pushed) {
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

func (t *Transcript) ended(b *agent.RunEnded, e client.Event) {
	t.doing.set("", e.Time)
	end := &RunEnd{RunID: e.RunID, Status: string(b.Status), Result: b.Result, Took: e.Time.Sub(t.began)}
	switch b.Status {
	case agent.Finished:
		t.line(Green, "+", "done", "finished", end.Took)
	case agent.Cancelled:
		t.line(Yellow, "!", "done", "stopped", end.Took)
	default:
		t.line(Red, "x", "done", "ended as "+end.Status, end.Took)
	}
	if b.Evidence != nil {
		t.line(Dim, "", "outcome", OutcomeText(string(b.Outcome), evidenceOf(b.Evidence)), 0)
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
func retryReason(b *agent.ModelRetry) string { return cmp.Or(b.Message, b.Reason) }

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

// telling lists the names of the arguments that best describe a call, the most
// helpful first.
var telling = []string{"command", "pattern", "glob_pattern", "path", "query", "url", "description"}

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

// attempt returns the number of the failed attempt as text, if the total is
// known.
func attempt(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf(" (attempt %d of %d)", n, of)
}
