package inbound

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gitlab receives the webhooks of projects and groups.
//
// A secret that begins with whsec_ is a signing token, with which GitLab signs
// as Standard Webhooks specifies. Any other secret is a secret token, which
// GitLab sends in a header. A connection with a signing token does not accept a
// secret token.
var gitlab = source{
	host:    "gitlab.com",
	maxBody: 4 << 20,
	verify: func(secret string, h http.Header, body []byte, now time.Time) error {
		if strings.HasPrefix(secret, standardPrefix) {
			return standard(secret, h, body, now)
		}
		return sameToken(secret, h.Get("X-Gitlab-Token"))
	},
	id: func(h http.Header, body []byte) (delivery, kind string) {
		kind = h.Get("X-Gitlab-Event")
		// Both headers below are the same in each attempt of a delivery. Events with
		// a common cause may have the same X-Gitlab-Event-UUID, so add the hash of
		// the body.
		hash := sha256.Sum256(body)
		switch {
		case h.Get("webhook-id") != "":
			return h.Get("webhook-id"), kind
		case h.Get("Idempotency-Key") != "":
			return h.Get("Idempotency-Key"), kind
		case h.Get("X-Gitlab-Event-UUID") != "":
			return h.Get("X-Gitlab-Event-UUID") + "-" + hex.EncodeToString(hash[:8]), kind
		}
		return hex.EncodeToString(hash[:]), kind
	},
	parse: parseGitLab,
	check: checkStandard,
}

// gitlabEvent has the fields of GitLab's events that are used.
type gitlabEvent struct {
	ObjectKind string `json:"object_kind"`
	User       struct{ Username string }
	Project    struct {
		Path string `json:"path_with_namespace"`
	}
	Attributes struct {
		ID           json.Number
		IID          int
		Action       string
		NoteableType string `json:"noteable_type"`
		System       bool   // written by GitLab itself
		Ref          string
		SHA          string
		Status       string
		Note         string // text of a comment
		Description  string // text of an issue
	} `json:"object_attributes"`
	MergeRequest *struct{ IID int } `json:"merge_request"`
	Issue        *struct{ IID int }
	// The fields of a job event, which has no attributes.
	Ref         string
	SHA         string
	BuildName   string `json:"build_name"`
	BuildStatus string `json:"build_status"`
}

// isNewText reports whether the text of an issue may be new.
func (e gitlabEvent) isNewText() bool {
	return e.Attributes.Action == "open" || e.Attributes.Action == "update"
}

// gitlabEnded are the final states of pipelines and jobs.
var gitlabEnded = []string{"success", "failed", "canceled", "skipped"}

func parseGitLab(_ string, body []byte) (payload, error) {
	var e gitlabEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return payload{}, err
	}
	p := payload{repo: e.Project.Path}
	p.Actor = e.User.Username
	switch e.ObjectKind {
	case "note":
		onIssue := e.Attributes.NoteableType == "Issue" && e.Issue != nil
		if !onIssue && (e.Attributes.NoteableType != "MergeRequest" || e.MergeRequest == nil) {
			return p, ignore("the comment is not on an issue or a merge request")
		}
		if e.Attributes.System {
			return p, ignore("the comment was written by GitLab itself")
		}
		p.Kind, p.CommentID, p.Text, p.OnIssue = Comment, e.Attributes.ID.String(), e.Attributes.Note, onIssue
		if onIssue {
			p.Number = e.Issue.IID
		} else {
			p.Number = e.MergeRequest.IID
		}
	case "issue":
		if !e.isNewText() {
			return p, ignore("the text of the issue has not changed")
		}
		p.Kind, p.Number, p.OnIssue, p.Text = Issue, e.Attributes.IID, true, e.Attributes.Description
	case "merge_request":
		p.Kind, p.Number = PullRequest, e.Attributes.IID
	case "pipeline":
		if !slices.Contains(gitlabEnded, e.Attributes.Status) {
			return p, ignore("the pipeline has not ended")
		}
		p.Kind, p.Commit, p.Branch, p.Actor = Check, e.Attributes.SHA, e.Attributes.Ref, ""
		if e.MergeRequest != nil {
			p.Number = e.MergeRequest.IID
		}
	case "build":
		if !slices.Contains(gitlabEnded, e.BuildStatus) {
			return p, ignore("the job %s has not ended", e.BuildName)
		}
		p.Kind, p.Commit, p.Branch, p.Check, p.Actor = Check, e.SHA, e.Ref, e.BuildName, ""
	default:
		return p, ignore("events of this type are ignored")
	}
	// The ref of a pipeline for a merge request is refs/merge-requests/7/head.
	if rest, ok := strings.CutPrefix(p.Branch, "refs/merge-requests/"); ok {
		text, _, _ := strings.Cut(rest, "/")
		n, _ := strconv.Atoi(text)
		p.Number, p.Branch = max(p.Number, n), ""
	}
	return p, nil
}
