package inbound

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"aloft/internal/control/forge"
)

// github receives the webhooks of repositories, organizations and Apps.
//
// GitHub sends up to 25 MiB. The events that matter here have at most a pull
// request's body and its previous text, each up to 256 KiB; only pushes of many
// commits are larger, and they are ignored anyway.
var github = source{
	host:    "github.com",
	maxBody: 4 << 20,
	verify: func(secret string, h http.Header, body []byte, _ time.Time) error {
		return hexSignature(secret, "sha256=", h.Get("X-Hub-Signature-256"), body)
	},
	id: func(h http.Header, _ []byte) (delivery, kind string) {
		return h.Get("X-GitHub-Delivery"), h.Get("X-GitHub-Event")
	},
	parse: parseGitHub,
}

// githubEvent has the fields of GitHub's and Gitea's events that are used.
type githubEvent struct {
	Action     string
	Number     int
	Repository struct {
		FullName string `json:"full_name"`
	}
	Sender struct {
		Login string
		Type  string // User, Bot, Organization
	}
	PullRequest *struct {
		Number int
		Head   struct{ Ref, Sha string }
	} `json:"pull_request"`
	Issue *struct {
		Number      int
		Body        string
		PullRequest json.RawMessage `json:"pull_request"`
	}
	Comment *struct {
		ID   int64
		Body string
	}
	Review *struct {
		ID    int64
		State string
		Body  string
	}
	CheckRun    *githubCheck `json:"check_run"`
	CheckSuite  *githubCheck `json:"check_suite"`
	WorkflowRun *githubCheck `json:"workflow_run"`
	WorkflowJob *githubCheck `json:"workflow_job"`
	// The fields of a commit status.
	SHA      string
	Context  string
	State    string
	Branches []struct{ Name string }
}

// githubCheck is a check run, a check suite, a workflow run or a job.
type githubCheck struct {
	Name         string
	HeadSHA      string `json:"head_sha"`
	HeadBranch   string `json:"head_branch"`
	Status       string
	PullRequests []struct{ Number int } `json:"pull_requests"`
	CheckSuite   struct {
		HeadBranch string `json:"head_branch"`
	} `json:"check_suite"`
}

// reviewKinds are the events about reviews, which contain a pull request.
var reviewKinds = []string{"pull_request_review", "pull_request_review_comment", "pull_request_review_thread"}

func parseGitHub(kind string, body []byte) (payload, error) {
	var e githubEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return payload{}, err
	}
	p := payload{repo: e.Repository.FullName}
	p.Actor, p.Bot = e.Sender.Login, e.Sender.Type == "Bot" || strings.HasSuffix(e.Sender.Login, "[bot]")
	switch {
	case kind == "issue_comment" && e.Issue != nil:
		p.Kind, p.Number = Comment, e.Issue.Number
		p.OnIssue = len(e.Issue.PullRequest) == 0 || string(e.Issue.PullRequest) == "null"
	case kind == "issues" && e.Issue != nil:
		return p, e.issue(&p)
	case slices.Contains(reviewKinds, kind) && e.PullRequest != nil:
		p.Kind, p.Number = Comment, e.PullRequest.Number
	case kind == "pull_request" && e.PullRequest != nil:
		p.Kind, p.Number = PullRequest, e.PullRequest.Number
	case kind == "status" && e.SHA != "":
		if e.State == "pending" {
			return p, ignore("the check %s has not ended", e.Context)
		}
		p.Kind, p.Commit, p.Check = Check, e.SHA, e.Context
		if len(e.Branches) == 1 {
			p.Branch = e.Branches[0].Name
		}
	default:
		return p, e.check(kind, &p)
	}
	return p, e.comment(&p)
}

// isNewText reports whether the text of an issue is new.
func (e githubEvent) isNewText() bool { return e.Action == "opened" || e.Action == "edited" }

// issue sets the issue that the event is about.
func (e githubEvent) issue(p *payload) error {
	if !e.isNewText() {
		return ignore("the issue was %s", forge.Line(e.Action, 50))
	}
	p.Kind, p.Number, p.OnIssue, p.Text = Issue, e.Issue.Number, true, e.Issue.Body
	return nil
}

// comment adds the id and the text of the comment.
func (e githubEvent) comment(p *payload) error {
	switch {
	case p.Kind != Comment:
	case e.Action == "deleted" || e.Action == "dismissed" || e.Action == "resolved":
		return ignore("the comment was %s", e.Action)
	case e.Comment != nil:
		p.CommentID, p.Text = strconv.FormatInt(e.Comment.ID, 10), e.Comment.Body
	case e.Review != nil:
		p.CommentID, p.Text = strconv.FormatInt(e.Review.ID, 10), e.Review.Body
	}
	return nil
}

// check adds the check that the event is about.
func (e githubEvent) check(kind string, p *payload) error {
	of := map[string]*githubCheck{"check_run": e.CheckRun, "check_suite": e.CheckSuite, "workflow_run": e.WorkflowRun, "workflow_job": e.WorkflowJob}[kind]
	switch {
	case of == nil:
		return ignore("events of this type are ignored")
	case e.Action != "completed" && of.Status != "completed":
		return ignore("the check %s has not ended", of.Name)
	}
	p.Kind, p.Commit, p.Branch, p.Check = Check, of.HeadSHA, of.HeadBranch, of.Name
	if p.Branch == "" {
		p.Branch = of.CheckSuite.HeadBranch
	}
	if len(of.PullRequests) == 1 {
		p.Number = of.PullRequests[0].Number
	}
	p.Actor, p.Bot = "", false // no person causes the result of a check
	return nil
}
