package stream

import (
	"encoding/json"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/api/agents"
	"aloft/internal/control/api/approvals"
	"aloft/internal/control/api/pulls"
	"aloft/internal/control/api/rest"
	"aloft/internal/conversation"
)

// A frame is one message of a run's stream. If its twin is not nil, the twin is
// sent as an interaction_update with the same id. A frame without an event is
// sent only as its twin.
type frame struct {
	event  string
	data   any
	twin   any
	status agent.Status // the status, if the event is a status event
}

// A projector turns a run's journal into frames. It is deterministic: the same
// events always give the same frames, so a client can resume from any frame's
// id. It must therefore see every event of the run from the first, even those
// whose frames the client already has.
type projector struct {
	agentID, runID string
	began          time.Time
	branches       agents.Branches
	usage          conversation.Usage
	text           strings.Builder // text of the reply that is being streamed
	thought        strings.Builder
	thinking       time.Time // start time; zero if the model is not thinking
	step           int       // number of the current step, from 1
	stepBegan      time.Time // zero if no step is open
	calls          map[string]*call
	order          []string              // ids of the calls, in the model's order
	open           int                   // number of calls without a result
	subagents      map[string]*projector // by the id of the call that started each
}

// A call is a tool call that the stream has shown or will show.
type call struct {
	id, name      string // the name in the public stream
	args          any
	cutArgs       bool
	started, done bool
}

func newProjector(agentID, runID string, all agents.Branches) *projector {
	return &projector{agentID: agentID, runID: runID, branches: all, calls: map[string]*call{}}
}

// frames returns the frames for one event. Machine events are not in the public
// stream; GET /v1/agents/{id}/events has them.
func (p *projector) frames(e agent.Event) []frame {
	switch b := e.Body.(type) {
	case *agent.RunCreated:
		p.began = e.Time
		return []frame{{twin: userMessageUpdate(p.agentID, b.Prompt.PlainText())}}
	case *agent.RunStarted:
		return []frame{{event: "status", status: agent.Running}}
	case *agent.ThinkingDelta:
		return append(p.beginStep(e.Time), p.think(b.Text, e.Time)...)
	case *agent.TextDelta:
		return append(p.beginStep(e.Time), p.say(b.Text, e.Time)...)
	case *agent.ModelRetry:
		p.text.Reset()
		p.thought.Reset()
		return p.endThinking(e.Time)
	case *agent.TurnReplied:
		return append(p.beginStep(e.Time), p.replied(b, e.Time)...)
	case *agent.Titled:
		p.usage = p.usage.Add(b.Usage)
	case *agent.Classified:
		p.usage = p.usage.Add(b.Usage)
	case *agent.ImageGenerated:
		p.usage = p.usage.Add(b.Usage)
	case *agent.CallSent:
		return p.tell(p.call(b.CallID))
	case *agent.CallDelta:
		return p.output(b)
	case *agent.Within:
		return p.showWithin(b, e)
	case *agent.CallDone:
		return p.callDone(b, e.Time)
	case *agent.ApprovalAsked:
		return []frame{{twin: update{"type": "approval-requested", "callId": b.Approval.CallID, "approval": approvals.ApprovalOf(p.agentID, b.Approval)}}}
	case *agent.ApprovalAnswered:
		return []frame{{twin: update{"type": "approval-answered", "approvalId": b.ApprovalID, "decision": string(b.Decision)}}}
	case *agent.Compacted:
		p.usage = p.usage.Add(b.Usage)
		return []frame{{twin: update{"type": "summary-started"}}, {twin: update{"type": "summary", "summary": b.Summary}},
			{twin: update{"type": "summary-completed"}}}
	case *agent.Pushed:
		run := agent.Run{Branches: append([]agent.Branch(nil), p.branches.Pushed...)}
		run.Apply(e)
		p.branches.Pushed = run.Branches
	case *agent.PullRequestFound, *agent.PullRequestOpened, *agent.PullRequestFailed:
		return p.pulled(e)
	case *agent.ChecksBegan:
		var commands []string
		for _, c := range b.Checks {
			commands = append(commands, c.Command)
		}
		return []frame{{twin: update{"type": "checks-started", "round": b.Round, "commands": commands}}}
	case *agent.GoalJudged:
		p.usage = p.usage.Add(b.Usage)
		return []frame{{twin: update{"type": "goal-judged", "goal": agents.EvidenceOf(&agent.Evidence{Goal: &b.Verdict}).Goal}}}
	case *agent.ChecksEnded:
		return []frame{{twin: update{"type": "checks-completed", "checks": agents.EvidenceOf(&agent.Evidence{Checks: b.Results}).Checks}}}
	case *agent.RunEnded:
		return p.runEnded(b, e.Time)
	}
	return nil
}

// showWithin shows an event of a subagent's conversation as an update of the call
// that started the subagent.
func (p *projector) showWithin(b *agent.Within, e agent.Event) []frame {
	sub := p.subagents[b.CallID]
	if sub == nil && b.CallID != agent.ChecksThread {
		sub = newProjector(p.agentID, p.runID, agents.Branches{})
		if p.subagents == nil {
			p.subagents = map[string]*projector{}
		}
		p.subagents[b.CallID] = sub
	}
	switch b := b.Body.(type) {
	case *agent.TurnReplied:
		p.usage = p.usage.Add(b.Usage)
	case *agent.Compacted:
		p.usage = p.usage.Add(b.Usage)
	case *agent.Classified:
		p.usage = p.usage.Add(b.Usage)
	}
	if b.CallID == agent.ChecksThread {
		return nil
	}
	c := p.call(b.CallID)
	out := p.tell(c)
	e.Body = b.Body
	for _, f := range sub.frames(e) {
		if f.twin != nil {
			out = append(out, frame{twin: update{"type": "tool-call-delta", "callId": c.id, "modelCallId": c.id, "taskUpdate": f.twin}})
		}
	}
	return out
}

func (p *projector) beginStep(at time.Time) []frame {
	if !p.stepBegan.IsZero() {
		return nil
	}
	p.step++
	p.stepBegan = at
	return []frame{{twin: update{"type": "step-started", "stepId": p.step}}}
}

func (p *projector) endStep(at time.Time) []frame {
	if p.stepBegan.IsZero() {
		return nil
	}
	took := milliseconds(at.Sub(p.stepBegan))
	p.stepBegan = time.Time{}
	return []frame{{twin: update{"type": "step-completed", "stepId": p.step, "stepDurationMs": took}}}
}

func (p *projector) think(text string, at time.Time) []frame {
	if text == "" {
		return nil
	}
	if p.thinking.IsZero() {
		p.thinking = at
	}
	p.thought.WriteString(text)
	return []frame{{event: "thinking", data: textJSON{text}, twin: update{"type": "thinking-delta", "text": text}}}
}

func (p *projector) endThinking(at time.Time) []frame {
	if p.thinking.IsZero() {
		return nil
	}
	took := milliseconds(at.Sub(p.thinking))
	p.thinking = time.Time{}
	return []frame{{twin: update{"type": "thinking-completed", "thinkingDurationMs": took}}}
}

func (p *projector) say(text string, at time.Time) []frame {
	if text == "" {
		return nil
	}
	p.text.WriteString(text)
	return append(p.endThinking(at),
		frame{event: "assistant", data: textJSON{text}, twin: update{"type": "text-delta", "text": text}})
}

// replied sends the token counts, and the text that the deltas lacked because
// of a crash or a provider without streaming. Calls are sent when they start.
func (p *projector) replied(b *agent.TurnReplied, at time.Time) []frame {
	var thought strings.Builder
	for _, block := range b.Message.Blocks {
		if block.Thinking != nil {
			thought.WriteString(block.Thinking.Text)
		}
	}
	out := p.think(untold(p.thought.String(), thought.String()), at)
	out = append(out, p.say(untold(p.text.String(), b.Message.PlainText()), at)...)
	out = append(out, p.endThinking(at)...)
	p.text.Reset()
	p.thought.Reset()
	p.usage = p.usage.Add(b.Usage)
	if b.Usage.Output > 0 {
		out = append(out, frame{twin: update{"type": "token-delta", "tokens": b.Usage.Output}})
	}
	for _, c := range b.Message.Calls() {
		if p.calls[c.ID] != nil {
			continue
		}
		args, cut := bounded(c.Args)
		p.calls[c.ID] = &call{id: c.ID, name: publicName(c.Name), args: args, cutArgs: cut}
		p.order = append(p.order, c.ID)
		p.open++
	}
	if p.open == 0 {
		out = append(out, p.endStep(at)...)
	}
	return out
}

// untold returns the part of whole that was not sent yet. told is the text that
// was sent. It may begin with an aborted reply that whole does not contain, so
// untold skips the longest prefix of whole that is a suffix of told. It uses
// Knuth-Morris-Pratt, because a model may repeat itself.
func untold(sentText, whole string) string {
	if rest, ok := strings.CutPrefix(whole, sentText); ok {
		return rest
	}
	if whole == "" {
		return ""
	}
	fall := make([]int, len(whole)+1) // fall[n] is the length of the longest proper prefix of whole[:n] that is also its suffix
	for i, n := 1, 0; i < len(whole); i++ {
		for n > 0 && whole[i] != whole[n] {
			n = fall[n]
		}
		if whole[i] == whole[n] {
			n++
		}
		fall[i+1] = n
	}
	n := 0
	for i := range len(sentText) {
		for n > 0 && (n == len(whole) || sentText[i] != whole[n]) {
			n = fall[n]
		}
		if sentText[i] == whole[n] {
			n++
		}
	}
	return whole[n:]
}

// call returns a call of the run. It creates calls that no reply contains, so
// that their results are not lost.
func (p *projector) call(id string) *call {
	c := p.calls[id]
	if c == nil {
		c = &call{id: id, name: publicName("")}
		p.calls[id] = c
		p.order = append(p.order, id)
		p.open++
	}
	return c
}

func (p *projector) tell(c *call) []frame {
	if c.started {
		return nil
	}
	c.started = true
	return []frame{c.frame("running", nil, false)}
}

func (p *projector) output(b *agent.CallDelta) []frame {
	c := p.call(b.CallID)
	out := p.tell(c)
	if b.Stdout != "" {
		out = append(out, frame{twin: outputUpdate(c, "stdout", b.Stdout)})
	}
	if b.Stderr != "" {
		out = append(out, frame{twin: outputUpdate(c, "stderr", b.Stderr)})
	}
	return out
}

func (p *projector) callDone(b *agent.CallDone, at time.Time) []frame {
	c := p.call(b.CallID)
	if c.done {
		return nil
	}
	return append(p.tell(c), p.complete(c, resultOf(b), at)...)
}

func (p *projector) complete(c *call, result json.RawMessage, at time.Time) []frame {
	c.done = true
	p.open--
	shown, cut := bounded(result)
	out := []frame{c.frame("completed", shown, cut)}
	c.args = nil // no longer needed
	if p.open == 0 {
		out = append(out, p.endStep(at)...)
	}
	return out
}

// runEnded closes everything that is still open, then sends the end of the run:
// status, error, result, done.
func (p *projector) runEnded(b *agent.RunEnded, at time.Time) []frame {
	out := p.endThinking(at)
	for _, id := range p.order {
		if c := p.calls[id]; !c.done && c.started {
			out = append(out, p.complete(c, interrupted, at)...)
		}
	}
	out = append(out, p.endStep(at)...)
	out = append(out, frame{twin: update{"type": "turn-ended", "usage": rest.TokensOf(p.usage)}})
	out = append(out, frame{event: "status", status: b.Status})
	if b.Failure != nil {
		out = append(out, frame{event: "error", data: rest.FailureOf(b.Failure)})
	}
	return append(out,
		frame{event: "result", data: resultJSON{
			RunID: p.runID, Status: string(b.Status), Text: b.Result,
			DurationMS: milliseconds(at.Sub(p.began)), Git: agents.GitOf(p.branches),
			Outcome: string(b.Outcome), Evidence: agents.EvidenceOf(b.Evidence),
		}},
		frame{event: "done", data: struct{}{}})
}

// pulled sends whether a pull request was opened, if one was requested.
func (p *projector) pulled(e agent.Event) []frame {
	a := agent.Agent{PullRequests: p.branches.Pulls}
	a.Apply(e)
	p.branches.Pulls = a.PullRequests
	var of *agent.PullRequest
	switch b := e.Body.(type) {
	case *agent.PullRequestOpened:
		of = a.PullRequest(b.PullRequest.RepoURL, b.PullRequest.Branch)
	case *agent.PullRequestFailed:
		of = a.PullRequest(b.RepoURL, b.Branch)
	}
	if of == nil {
		return nil
	}
	return []frame{{twin: update{"type": "pull-request", "pullRequest": pulls.PullRequestOf(*of)}}}
}

func milliseconds(d time.Duration) int64 { return max(d.Milliseconds(), 0) }
