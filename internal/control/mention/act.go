package mention

import (
	"context"
	"slices"
	"strings"
	"time"

	"aloft/internal/control/due"
	"aloft/internal/control/forge"
	"aloft/internal/control/store"
	"aloft/internal/fault"
)

// place is an issue or pull request on its forge.
type place struct {
	forge  forge.Forge
	issues forge.Issues
	repo   forge.Repo
	topic  *store.Topic
}

// subject is an issue or a pull request as read from its forge.
type subject struct {
	url, title, body, author string
	openedAt                 time.Time // when it was opened; zero for a pull request
	comments                 []forge.Comment
}

// read reads the issue or pull request.
func (p place) read(ctx context.Context) (s subject, err error) {
	if p.topic.Issue {
		v, err := p.issues.Issue(ctx, p.repo, p.topic.Number)
		if err != nil {
			return s, err
		}
		s = subject{url: v.URL, title: v.Title, body: v.Body, author: v.Author, openedAt: v.CreatedAt}
	} else {
		v, err := p.forge.Get(ctx, p.repo, p.topic.Number)
		if err != nil {
			return s, err
		}
		s = subject{url: v.URL, title: v.Title, body: v.Body, author: v.Author}
	}
	s.comments, err = p.comments(ctx)
	return s, err
}

// comments returns the comments, oldest first.
func (p place) comments(ctx context.Context) ([]forge.Comment, error) {
	if p.topic.Issue {
		return p.issues.IssueComments(ctx, p.repo, p.topic.Number)
	}
	d, ok := p.forge.(forge.Discussion)
	if !ok {
		return nil, nil
	}
	return d.Comments(ctx, p.repo, p.topic.Number)
}

// bodyID is the id of the text of an issue or pull request in the list of
// comments.
const bodyID = "text"

// handled reports whether the comment was acted on.
func (p place) handled(id string) bool {
	return slices.Contains(strings.Split(p.topic.Handled, "\n"), id)
}

// markHandled marks the comment as handled. answer is the reply to its author, or "".
func (p place) markHandled(id, answer string) {
	p.topic.Handled, p.topic.Answer = strings.TrimPrefix(p.topic.Handled+"\n"+id, "\n"), answer
}

// allComments returns the text and the comments of the topic, oldest first.
func (p place) allComments(s subject) []forge.Comment {
	return append([]forge.Comment{{ID: bodyID, Author: s.author, Body: s.body, URL: s.url, CreatedAt: s.openedAt}}, s.comments...)
}

// isNew reports whether the comment is a mention that was not acted on.
func (d *Desk) isNew(p place, c forge.Comment) bool {
	_, ok := find(c.Body, d.Handle)
	return ok && !forge.IsMarked(c.Body) && !p.handled(c.ID) && !c.CreatedAt.Before(p.topic.CreatedAt.Add(-oldest))
}

// hear handles the first unhandled mention. It returns true if it has changed the
// topic, which must then be stored before the next step.
func (d *Desk) hear(ctx context.Context, p place) (more bool, err error) {
	owned, err := d.owned(ctx, *p.topic)
	if err != nil {
		return false, err
	}
	s, err := p.read(ctx)
	if fault.Is(err, fault.KindNotFound) {
		p.topic.Read = p.topic.News
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, c := range p.allComments(s) {
		if !d.isNew(p, c) || owned && !AsksReview(c.Body, d.Handle) {
			continue
		}
		why, err := forge.Outsider(ctx, p.forge, p.repo, c.Author)
		if err != nil {
			return false, err
		}
		if why != "" {
			d.Logger.InfoContext(ctx, "mention ignored", "repo", p.topic.Repo, "number", p.topic.Number, "comment", c.ID, "reason", why)
			p.markHandled(c.ID, p.topic.Answer)
			continue
		}
		return true, d.act(ctx, p, s, c)
	}
	p.topic.Read = p.topic.News
	return false, nil
}

// act starts an agent for a mention, or sends the mention to the topic's agent.
// It replies with problems that the author of the mention can correct. It
// returns an error only if a later attempt may succeed.
func (d *Desk) act(ctx context.Context, p place, s subject, c forge.Comment) error {
	t := p.topic
	rest, _ := find(c.Body, d.Handle)
	q, err := parse(rest, d.Models(), t.Issue)
	if err != nil {
		p.markHandled(c.ID, sentence(err))
		return nil
	}
	id := d.ID("mention", t.Repo, kindOf(*t), number(t.Number), c.ID)
	if q.review {
		return d.review(ctx, p, s, c, q, id)
	}
	a, err := d.agent(ctx, *t)
	if err != nil {
		return err
	}
	switch {
	case t.AgentID == id && a == nil: // an earlier step has chosen the id
		if err = d.start(ctx, p, s, c, q); err != nil && final(err) {
			t.AgentID = ""
		}
	case t.AgentID == id: // an attempt that was not recorded has started the agent
	case a == nil || a.Archived:
		t.AgentID, t.Answer = id, ""
		return nil
	case q.branch != "":
		err = fault.Invalid("the option branch is only for the first request on an issue").Hint("start an agent on the branch in the dashboard")
	default:
		err = d.Agents.FollowUp(ctx, t.AgentID, "run-"+strings.TrimPrefix(id, "bc-"), d.clean(followUp(*t, s, c, q)), q.model)
		if fault.Of(err).Code == "idempotency_key_reused" { // an earlier attempt has sent it
			err = nil
		}
	}
	switch {
	case err == nil:
		p.markHandled(c.ID, "")
	case final(err):
		p.markHandled(c.ID, sentence(err))
	default:
		return err
	}
	d.Logger.InfoContext(ctx, "mention handled", "repo", t.Repo, "number", t.Number, "comment", c.ID, "agent", t.AgentID, "refused", t.Answer)
	return nil
}

// start starts the topic's agent.
func (d *Desk) start(ctx context.Context, p place, s subject, c forge.Comment, q request) error {
	t := p.topic
	user, err := d.Account(ctx, p.repo.Host, c.Author)
	if err != nil {
		return err
	}
	n := Start{AgentID: t.AgentID, UserID: user, Prompt: d.clean(task(*t, s, c, q)), RepoURL: t.RepoURL, Branch: q.branch, Model: q.model}
	if !t.Issue {
		n.PullRequest = s.url
	}
	err = d.Agents.Start(ctx, n)
	if fault.Of(err).Code == "agent_id_conflict" {
		return nil
	}
	return err
}

// review starts a separate agent for a mention that asks for a review. If the
// topic has an agent, that agent continues.
func (d *Desk) review(ctx context.Context, p place, s subject, c forge.Comment, q request, id string) error {
	user, err := d.Account(ctx, p.repo.Host, c.Author)
	if err == nil {
		err = d.Agents.Review(ctx, Start{AgentID: id, UserID: user, Prompt: d.clean(reviewPrompt(s, c, q)), RepoURL: p.topic.RepoURL, PullRequest: s.url, Model: q.model})
	}
	switch {
	case err == nil || fault.Of(err).Code == "agent_id_conflict": // started now, or earlier by an attempt that was not recorded
		p.markHandled(c.ID, "")
	case final(err):
		p.markHandled(c.ID, sentence(err))
	default:
		return err
	}
	d.Logger.InfoContext(ctx, "review requested by a mention", "repo", p.topic.Repo, "number", p.topic.Number, "comment", c.ID, "agent", id, "refused", p.topic.Answer)
	return nil
}

// final reports whether a retry would fail in the same way.
func final(err error) bool {
	switch fault.Of(err).Kind {
	case fault.KindInternal, fault.KindUnavailable:
		return false
	}
	return true
}

// sentence describes a fault to people in one sentence.
func sentence(err error) string {
	f := fault.Of(err)
	text := f.Message
	if f.Field != "" {
		text = f.Field + " " + text
	}
	if f.Advice != "" {
		text += ": " + f.Advice
	}
	return text + "."
}

// active returns how long to wait before the state of an agent is checked
// again.
func (d *Desk) active(ended time.Time) time.Duration {
	switch since := d.now().Sub(ended); {
	case ended.IsZero():
		return activeWait
	case since > shownFor:
		return due.Never
	default:
		return max(idleWait, since/10)
	}
}
