package pull

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/control/forge"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// generalRemark is the text of a comment that must not describe the work.
const generalRemark = "An agent has worked on this."

// unsigned returns a comment without the parts that [Desk.Compose] and
// [Desk.Say] add.
func unsigned(body string) string {
	text, ours := forge.BeforeMark(body)
	if ours {
		text, _, _ = strings.Cut(text, signatureBegin)
	}
	return text
}

const signatureBegin = "\n\n<sub>Written by the agent "

// Compose returns the comment to journal and to send for the model's text,
// without secrets. In privacy mode, it returns a general text, as for pull
// requests.
func (d *Desk) Compose(ctx context.Context, s *agent.State, p agent.PullRequest, callID, threadID, body string) (agent.PullRequestSaid, error) {
	private, err := d.privacy(ctx, s.Run)
	if err != nil {
		return agent.PullRequestSaid{}, err
	}
	begun, err := d.begun(ctx, s.Agent)
	if err != nil {
		return agent.PullRequestSaid{}, err
	}
	name := s.Agent.Name
	if begun {
		name = s.Agent.ID
	}
	if private {
		body, name = generalRemark, s.Agent.ID
	}
	body = cut(strings.TrimSpace(forge.WithoutMarks(body)), maxOwnText)
	if body == "" {
		return agent.PullRequestSaid{}, fault.Invalid("body is missing: write the text of the comment").At("body")
	}
	if link := d.Link(s.Agent.ID); link != "" {
		body += fmt.Sprintf("%s[%s](%s).</sub>", signatureBegin, escaped.Replace(oneLine(name)), link)
	}
	return agent.PullRequestSaid{CallID: callID, URL: p.URL, ThreadID: threadID, Body: redact.New(d.Secrets(s.Agent.ID)).String(body), Key: rand.Text()}, nil
}

// Say adds the journaled comment to a pull request of the agent, or to one of
// its threads, and returns its address. If again is true, an earlier call may
// have sent the comment: then Say first looks for the comment's key, so that it
// never adds a comment twice. The error is a fault.
func (d *Desk) Say(ctx context.Context, a agent.Agent, p agent.PullRequest, comment agent.PullRequestSaid, again bool) (url string, err error) {
	f, r, err := d.forgeFor(a.Pull, p.RepoURL)
	if err != nil {
		return "", err
	}
	var c forge.Comment
	err = retry(ctx, waits, func() (err error) {
		if again {
			var found bool
			if c, found, err = find(ctx, f, r, p, comment); err != nil || found {
				return err
			}
		}
		again = true // after an error, the host may have added the comment
		c, err = send(ctx, f, r, p, comment)
		return err
	})
	return c.URL, err
}

func send(ctx context.Context, f forge.Forge, r forge.Repo, p agent.PullRequest, comment agent.PullRequestSaid) (forge.Comment, error) {
	body := comment.Body + "\n" + forge.Mark("comment "+comment.Key)
	if comment.ThreadID != "" {
		if reviewed, ok := f.(forge.Reviewed); ok {
			return reviewed.Reply(ctx, r, int(p.Number), comment.ThreadID, body)
		}
	} else if discussion, ok := f.(forge.Discussion); ok {
		return discussion.Comment(ctx, r, int(p.Number), body)
	}
	return forge.Comment{}, fault.Invalid("Aloft cannot write comments at %s", r.Host).Named(forge.CodeUnsupported)
}

// find returns the comment with the key, if the host has it.
func find(ctx context.Context, f forge.Forge, r forge.Repo, p agent.PullRequest, comment agent.PullRequestSaid) (forge.Comment, bool, error) {
	var all []forge.Comment
	var err error
	if comment.ThreadID != "" {
		if reviewed, ok := f.(forge.Reviewed); ok {
			var threads []forge.Thread
			threads, err = reviewed.Threads(ctx, r, int(p.Number))
			for _, t := range threads {
				all = append(all, t.Comments...)
			}
		}
	} else if discussion, ok := f.(forge.Discussion); ok {
		all, err = discussion.Comments(ctx, r, int(p.Number))
	}
	for _, c := range all {
		if strings.Contains(c.Body, forge.Mark("comment "+comment.Key)) {
			return c, true, nil
		}
	}
	return forge.Comment{}, false, err
}

// Resolve marks a thread of a pull request of the agent as resolved. The error
// is a fault.
func (d *Desk) Resolve(ctx context.Context, a agent.Agent, p agent.PullRequest, threadID string) error {
	f, r, err := d.forgeFor(a.Pull, p.RepoURL)
	if err != nil {
		return err
	}
	reviewed, ok := f.(forge.Reviewed)
	if !ok {
		return fault.Invalid("Aloft cannot resolve threads at %s", r.Host).Named(forge.CodeUnsupported)
	}
	return retry(ctx, waits, func() error { return reviewed.Resolve(ctx, r, int(p.Number), threadID) })
}
