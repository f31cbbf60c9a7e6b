package inbound

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// gitea receives the webhooks of Gitea and Forgejo.
var gitea = source{
	maxBody: 4 << 20,
	verify: func(secret string, h http.Header, body []byte, _ time.Time) error {
		return hexSignature(secret, "", giteaHeader(h, "Signature"), body)
	},
	id: func(h http.Header, _ []byte) (delivery, kind string) {
		return giteaHeader(h, "Delivery"), giteaHeader(h, "Event")
	},
	parse: parseGitea,
}

// giteaHeader returns Gitea's header, or Forgejo's equivalent, because newer
// versions of Forgejo no longer send Gitea's.
func giteaHeader(h http.Header, name string) string {
	if v := h.Get("X-Gitea-" + name); v != "" {
		return v
	}
	return h.Get("X-Forgejo-" + name)
}

// giteaEvent has the fields of Gitea's events that differ from GitHub's.
type giteaEvent struct {
	githubEvent
	IsPull bool `json:"is_pull"`
	Review *struct {
		Type    string
		Content string
	}
}

func parseGitea(kind string, body []byte) (payload, error) {
	var e giteaEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return payload{}, err
	}
	p := payload{repo: e.Repository.FullName}
	p.Actor = e.Sender.Login
	switch {
	// Reviews are pull_request_approved, pull_request_rejected and
	// pull_request_comment.
	case e.Review != nil && e.PullRequest != nil:
		p.Kind, p.Number, p.Text = Comment, e.PullRequest.Number, e.Review.Content
	case e.Comment != nil && (kind == "issue_comment" || kind == "pull_request_comment"):
		switch {
		case e.PullRequest != nil:
			p.Number = e.PullRequest.Number
		case e.Issue != nil && (e.IsPull || len(e.Issue.PullRequest) > 0 && string(e.Issue.PullRequest) != "null"):
			p.Number = e.Issue.Number
		case e.Issue != nil:
			p.Number, p.OnIssue = e.Issue.Number, true
		}
		p.Kind, p.CommentID, p.Text = Comment, strconv.FormatInt(e.Comment.ID, 10), e.Comment.Body
		if e.Action == "deleted" {
			return p, ignore("the comment was deleted")
		}
	case strings.HasPrefix(kind, "pull_request") && e.PullRequest != nil:
		p.Kind, p.Number = PullRequest, e.PullRequest.Number
	case kind == "issues" && e.Issue != nil:
		return p, e.issue(&p)
	case kind == "status" && e.SHA != "":
		if e.State == "pending" {
			return p, ignore("the check %s has not ended", e.Context)
		}
		p.Kind, p.Commit, p.Check = Check, e.SHA, e.Context
		p.Actor = ""
	default:
		return p, e.check(kind, &p)
	}
	return p, nil
}
