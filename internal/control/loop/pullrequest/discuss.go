package pullrequest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/pull"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// Timeouts of waits for checks and replies.
const (
	pullWait    = 10 * time.Minute // default
	maxPullWait = time.Hour
)

// subjects are the parts of a pull request that the reading actions of
// PrManagement read.
var subjects = map[string]pull.Subject{
	"PR_ACTION_COMMENTS": pull.Comments, "PR_ACTION_REVIEWS": pull.Reviews, "PR_ACTION_THREADS": pull.Threads,
	"PR_ACTION_CHECKS": pull.Checks, "PR_ACTION_LOG": pull.Log,
}

// pullSuccess is the output of a PrManagement call, in the form of the message
// PrManagementSuccess.
type pullSuccess struct {
	URL        string        `json:"url"`
	Number     int64         `json:"number"`
	CommentURL string        `json:"commentUrl,omitempty"`
	Remarks    []pull.Remark `json:"remarks,omitempty"`
	Checks     []pull.Check  `json:"checks,omitempty"`
	Log        string        `json:"log,omitempty"`
	TimedOut   bool          `json:"timedOut,omitempty"`
}

// discuss runs a PrManagement call about the pull request p, or nil if there is
// none.
func (r *Requests) discuss(ctx context.Context, callID string, in pullArgs, p *agent.PullRequest) (tool.Result, error) {
	switch {
	case p == nil || p.URL == "" || p.Number == 0:
		return tool.Failed("your branch has no pull request: use PR_ACTION_CREATE"), nil
	case r.Pulls == nil:
		return notDiscussed(errNoForges()), nil
	}
	out := pullSuccess{URL: p.URL, Number: p.Number}
	text, err := r.discussed(ctx, callID, in, *p, &out)
	if ctx.Err() != nil {
		return tool.Result{}, context.Cause(ctx)
	}
	if err != nil {
		if !fault.Has(err) {
			return tool.Result{}, err
		}
		return notDiscussed(err), nil
	}
	output, err := json.Marshal(map[string]any{"success": out})
	return tool.Result{Text: text, Output: output}, err
}

func (r *Requests) discussed(ctx context.Context, callID string, in pullArgs, p agent.PullRequest, out *pullSuccess) (string, error) {
	a := r.Recorder.Snapshot().Agent
	switch in.Action {
	case "PR_ACTION_WAIT_CHECKS", "PR_ACTION_WAIT_REPLY":
		answer, err := r.waitFor(ctx, callID, in, p)
		return out.take(answer), err
	case "PR_ACTION_COMMENT", "PR_ACTION_REPLY":
		return r.say(ctx, callID, in, p, out)
	case "PR_ACTION_RESOLVE":
		if in.ThreadID == "" {
			return "", fault.Invalid("thread_id is missing: PR_ACTION_THREADS lists the threads")
		}
		if err := r.Pulls.Resolve(ctx, a, p, in.ThreadID); err != nil {
			return "", err
		}
		return "The thread is resolved.", nil
	}
	subject, ok := subjects[in.Action]
	if !ok {
		return "", fault.Invalid("there is no action %q", in.Action)
	}
	answer, err := r.Pulls.Read(ctx, a, p, pull.Question{Subject: subject, Check: in.Check, Commit: r.commitOf(p.RepoURL)})
	return out.take(answer), err
}

// take stores the part that was read, and returns its text.
func (out *pullSuccess) take(answer pull.Answer) string {
	out.Remarks, out.Checks, out.Log, out.TimedOut = answer.Remarks, answer.Checks, answer.Log, answer.TimedOut
	return answer.Text
}

// say adds a comment that the model wrote. It is journaled with a key before it
// is sent, so that after a crash the comment is sent again only if the forge
// lacks it.
func (r *Requests) say(ctx context.Context, callID string, in pullArgs, p agent.PullRequest, out *pullSuccess) (string, error) {
	if in.Action == "PR_ACTION_COMMENT" {
		in.ThreadID = ""
	} else if in.ThreadID == "" {
		return "", fault.Invalid("thread_id is missing: PR_ACTION_THREADS lists the threads")
	}
	if strings.TrimSpace(in.Body) == "" {
		return "", fault.Invalid("body is missing: write the text of the comment")
	}
	s := r.Recorder.Snapshot()
	if r.HoldsSecret(s, in.Body) {
		return "", fault.Invalid("body contains a secret, so it was not sent: write it without the secret")
	}
	var comment agent.PullRequestSaid
	known, _ := r.Recorder.Call(callID)
	again := known.Said != nil
	if again {
		comment = *known.Said
	} else {
		var err error
		if comment, err = r.Pulls.Compose(ctx, s, p, callID, in.ThreadID, in.Body); err != nil {
			return "", err
		}
		if err := r.Recorder.Record(ctx, &comment); err != nil {
			return "", err
		}
	}
	within, cancel := context.WithTimeout(ctx, proposeWithin)
	defer cancel()
	url, err := r.Pulls.Say(within, s.Agent, p, comment, again)
	if err != nil {
		return "", err
	}
	out.CommentURL = url
	text := fmt.Sprintf("The comment is at %s.", cmp.Or(url, p.URL))
	if private, err := r.Privacy(ctx); err != nil {
		return "", err
	} else if private {
		text += " Privacy mode is on: your text was not sent; the comment has a generic text."
	}
	return text, nil
}

// waitFor waits for checks, or for comments of others that are newer than the
// agent's last comment and were not reported by an earlier wait. The deadline
// of the wait is journaled first, so that another server that continues the
// wait uses the same deadline.
func (r *Requests) waitFor(ctx context.Context, callID string, in pullArgs, p agent.PullRequest) (pull.Answer, error) {
	a := r.Recorder.Snapshot().Agent
	q := pull.Question{Subject: pull.Checks}
	if in.Action == "PR_ACTION_WAIT_REPLY" {
		q.Subject = pull.Replies
	}
	known, _ := r.Recorder.Call(callID)
	w := known.Awaited
	if w == nil {
		length := pullWait
		if in.Timeout != nil {
			length = min(max(time.Duration(*in.Timeout)*time.Millisecond, 0), maxPullWait)
		}
		w = &agent.PullRequestAwaited{CallID: callID, URL: p.URL, Until: time.Now().Add(length)}
		if q.Subject == pull.Checks {
			w.Commit = r.commitOf(p.RepoURL)
		} else {
			seen, err := r.Pulls.Read(ctx, a, p, q)
			if err != nil {
				return pull.Answer{}, err
			}
			if w.After = r.heard.Load(p.URL); seen.Answered.After(w.After) {
				w.After = seen.Answered
			}
		}
		if err := r.Recorder.Record(ctx, w); err != nil {
			return pull.Answer{}, err
		}
	}
	q.Commit, q.After = w.Commit, w.After
	answer, err := r.Pulls.Wait(ctx, a, p, q, w.Until)
	if err == nil && answer.Newest.After(w.After) {
		r.heard.Store(p.URL, answer.Newest)
	}
	return answer, err
}

// heard maps the address of a pull request to the time, by the forge's clock,
// of the last comment that was reported to the model. After a server's restart,
// a comment may be reported again. The zero value is empty. Its methods are
// safe for concurrent use.
type heard struct {
	mu   sync.Mutex
	upto map[string]time.Time
}

// Load returns the time for an address, or zero.
func (h *heard) Load(url string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.upto[url]
}

// Store sets the time for an address.
func (h *heard) Store(url string, upto time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.upto == nil {
		h.upto = map[string]time.Time{}
	}
	h.upto[url] = upto
}

// notDiscussed tells the model why a call about its pull request failed.
func notDiscussed(err error) tool.Result {
	f := fault.Of(err)
	text := f.Message
	if f.Advice != "" {
		text += ". To fix this: " + f.Advice
	}
	return tool.Failed("%s", text)
}
