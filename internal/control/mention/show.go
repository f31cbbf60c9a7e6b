package mention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"aloft/internal/agent"
	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

const maxResult = 8 << 10 // bytes of an agent's last message

// show keeps the comment with the state up to date. It returns how long to wait
// before the next check of the state.
func (d *Desk) show(ctx context.Context, p place) (wait time.Duration, err error) {
	t := p.topic
	text, wait, err := d.state(ctx, *t)
	if err != nil || text == "" {
		return wait, err
	}
	mark := forge.Mark("mention " + d.Mark("mention", t.Repo, kindOf(*t), number(t.Number)))
	text = d.clean(text) + "\n\n" + mark
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	if hash == t.Shown {
		return wait, nil
	}
	if t.CommentID == "" {
		comments, err := p.comments(ctx)
		if err != nil {
			return 0, err
		}
		at := slices.IndexFunc(comments, func(c forge.Comment) bool { return strings.Contains(c.Body, mark) })
		if at < 0 {
			c, err := p.say(ctx, text)
			if err != nil {
				return wait, unlessImpossible(err)
			}
			t.CommentID, t.Shown = c.ID, hash
			return wait, nil
		}
		t.CommentID = comments[at].ID
	}
	err = p.issues.EditComment(ctx, p.repo, forge.Topic{Number: t.Number, Issue: t.Issue}, t.CommentID, text)
	if fault.Is(err, fault.KindNotFound) { // somebody has deleted the comment: add a new one
		t.CommentID, t.Shown = "", ""
		return 0, nil
	}
	if err = unlessImpossible(err); err == nil {
		t.Shown = hash
	}
	return wait, err
}

// say adds a comment.
func (p place) say(ctx context.Context, text string) (forge.Comment, error) {
	if p.topic.Issue {
		return p.issues.CommentIssue(ctx, p.repo, p.topic.Number, text)
	}
	d, ok := p.forge.(forge.Discussion)
	if !ok {
		return forge.Comment{}, fault.Invalid("%s has no comments on pull requests", p.repo.Host).Named(forge.CodeUnsupported)
	}
	return d.Comment(ctx, p.repo, p.topic.Number, text)
}

// unlessImpossible returns the error, or nil if a repeat cannot succeed because
// the issue is gone or closed to comments.
func unlessImpossible(err error) error {
	if fault.Is(err, fault.KindDenied) || fault.Is(err, fault.KindNotFound) || fault.Is(err, fault.KindInvalid) {
		return nil
	}
	return err
}

// state returns the text of the comment, or "" for no comment, and the minimum
// time for which the text stays true.
func (d *Desk) state(ctx context.Context, t store.Topic) (text string, wait time.Duration, err error) {
	a, err := d.agent(ctx, t)
	if err != nil {
		return "", 0, err
	}
	wait = due.Never
	switch {
	case a != nil:
		if text, wait, err = d.stateOf(ctx, *a); err != nil {
			return "", 0, err
		}
	case t.AgentID != "" && t.CommentID != "":
		text = "The agent was deleted."
	}
	if t.Answer != "" {
		text = strings.TrimPrefix(text+"\n\nYour last request cannot be handled: "+t.Answer, "\n\n")
	}
	return text, wait, nil
}

// stateOf describes what the agent does.
func (d *Desk) stateOf(ctx context.Context, a agent.Agent) (text string, wait time.Duration, err error) {
	run, err := d.Store.Run(ctx, a.ID, a.LatestRunID)
	if err != nil {
		return "", 0, err
	}
	shown := true
	if d.Shown != nil {
		if shown, err = d.Shown(ctx, a, run); err != nil {
			return "", 0, err
		}
	}
	page := fmt.Sprintf("[open the agent](%s)", d.Page(a.ID))
	switch {
	case len(a.Approvals) > 0:
		text = "**The agent needs you**: " + page + " to answer it."
	case !run.Status.Ended():
		text = "**Working** on it: " + page + "."
	case run.Status == agent.Finished:
		text = "**Done**: " + page + "."
	case run.Status == agent.Cancelled:
		text = "**Stopped**: " + page + "."
	case run.Failure != nil && shown:
		text = "**The agent could not finish**: " + forge.Line(run.Failure.Message, 500) + " (" + page + ")"
	default:
		text = "**The agent could not finish**: " + page + "."
	}
	for _, p := range a.PullRequests {
		if p.URL != "" {
			text += "\n\nPull request: " + p.URL
		}
	}
	if result := strings.TrimSpace(run.Result); run.Status == agent.Finished && shown && result != "" {
		text += "\n\n" + forge.Cut(result, maxResult)
	}
	return text, d.active(run.EndedAt), nil
}

func kindOf(t store.Topic) string {
	if t.Issue {
		return "issue"
	}
	return "pull request"
}

func number(n int) string { return strconv.Itoa(n) }
