package forgetest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/forge"
	"aloft/internal/fault"
)

// onIssue reports whether the path of the call names an existing issue.
func (c *call) onIssue() bool {
	if !strings.Contains(c.URL.Path, "/issues/") {
		return false
	}
	_, err := c.s.Fake.Issue(c.Context(), c.repo, c.number)
	return err == nil
}

// plain returns the comments of the call's issue or pull request.
func (c *call) plain() ([]forge.Comment, error) {
	if c.onIssue() {
		return c.s.Fake.IssueComments(c.Context(), c.repo, c.number)
	}
	return c.s.Fake.Plain(c.repo, c.number), nil
}

// say adds a comment to the call's issue or pull request.
func (c *call) say(body string) (forge.Comment, error) {
	if c.onIssue() {
		return c.s.Fake.CommentIssue(c.Context(), c.repo, c.number, body)
	}
	return c.s.Fake.Comment(c.Context(), c.repo, c.number, body)
}

// edit changes the comment that the call's path names, on a pull request or an
// issue.
func (c *call) edit() (forge.Comment, error) {
	v, err := decode[struct{ Body string }](c)
	if err != nil {
		return forge.Comment{}, err
	}
	for on, said := range c.s.topics(c) {
		for _, one := range said {
			if one.ID == c.PathValue("comment") {
				one.Body = v.Body
				return one, c.s.Fake.EditComment(c.Context(), c.repo, on, one.ID, v.Body)
			}
		}
	}
	return forge.Comment{}, refuse(http.StatusNotFound, "Not Found")
}

// topics returns the comments of every issue and pull request.
func (s *Server) topics(c *call) map[forge.Topic][]forge.Comment {
	all := map[forge.Topic][]forge.Comment{}
	for _, p := range s.Fake.PullRequests(c.repo) {
		all[forge.Topic{Number: p.Number}] = s.Fake.Plain(c.repo, p.Number)
	}
	for n := firstIssue; ; n++ {
		said, err := s.Fake.IssueComments(c.Context(), c.repo, n)
		if err != nil {
			return all
		}
		all[forge.Topic{Number: n, Issue: true}] = said
	}
}

// firstIssue is the fake's number of the first issue.
const firstIssue = 1001

// issuesLikeGitHub adds the routes that GitHub and Gitea have in common: an issue, and the
// comments on issues and pull requests.
func (s *Server) issuesLikeGitHub() {
	s.route("GET /repos/{owner}/{repo}/issues/{number}", "", func(c *call) (any, error) { return s.issueLikeGitHub(c) })
	s.route("POST /repos/{owner}/{repo}/issues/{number}/comments", "", func(c *call) (any, error) {
		v, err := decode[struct{ Body string }](c)
		if err != nil {
			return nil, err
		}
		said, err := c.say(v.Body)
		return commentLikeGitHub(said), err
	})
	s.route("PATCH /repos/{owner}/{repo}/issues/comments/{comment}", "", func(c *call) (any, error) {
		said, err := c.edit()
		return commentLikeGitHub(said), err
	})
}

func commentLikeGitHub(c forge.Comment) map[string]any {
	return map[string]any{"id": atoi(c.ID), "user": map[string]any{"login": c.Author}, "body": c.Body, "created_at": c.CreatedAt, "html_url": c.URL}
}

// issueLikeGitHub returns an issue, or a pull request as an issue.
func (s *Server) issueLikeGitHub(c *call) (any, error) {
	if !c.onIssue() {
		p := c.pull()
		return map[string]any{"number": p.Number, "title": p.Title, "pull_request": map[string]any{"html_url": p.URL}}, nil
	}
	v, err := s.Fake.Issue(c.Context(), c.repo, c.number)
	return map[string]any{"id": 5000 + v.Number, "number": v.Number, "title": v.Title, "body": v.Body, "user": map[string]any{"login": v.Author},
		"html_url": v.URL, "state": "open", "created_at": v.CreatedAt}, err
}

// updated returns the issues and pull requests that have changed since the time in
// the parameter.
func (s *Server) updated(c *call, param string) ([]forge.Update, error) {
	since, err := time.Parse(time.RFC3339, c.URL.Query().Get(param))
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "%s is %q", param, c.URL.Query().Get(param))
	}
	return s.Fake.Updated(c.Context(), c.repo, since)
}

// updatedLikeGitHub returns the issues and pull requests that have changed since the
// requested time, in one list, as GitHub does.
func (s *Server) updatedLikeGitHub(c *call) (any, error) {
	if c.URL.Query().Get("state") != "all" { // without state=all, hosts return only open ones
		return nil, refuse(http.StatusUnprocessableEntity, "state is %q", c.URL.Query().Get("state"))
	}
	found, err := s.updated(c, "since")
	all := []any{}
	for _, u := range found {
		v := map[string]any{"number": u.Topic.Number, "title": "x", "updated_at": u.At, "pull_request": nil}
		if !u.Topic.Issue {
			v["pull_request"] = map[string]any{"url": "https://forge.test"}
		}
		all = append(all, v)
	}
	return all, err
}

func gitLabIssues(s *Server) {
	s.route("GET /projects/{id}/issues", "scope order_by sort updated_after state", func(c *call) (any, error) {
		found, err := s.updated(c, "updated_after")
		all := []any{}
		for _, u := range found {
			if u.Topic.Issue {
				all = append(all, map[string]any{"id": 5000 + u.Topic.Number, "iid": u.Topic.Number, "updated_at": u.At})
			}
		}
		return all, err
	})
	s.route("GET /projects/{id}/issues/{number}", "", func(c *call) (any, error) {
		v, err := s.Fake.Issue(c.Context(), c.repo, c.number)
		return map[string]any{"id": 5000 + v.Number, "iid": v.Number, "title": v.Title, "description": v.Body, "author": map[string]any{"username": v.Author},
			"web_url": v.URL, "state": "opened", "confidential": false, "created_at": v.CreatedAt}, err
	})
	s.route("GET /projects/{id}/issues/{number}/notes", "sort order_by", func(c *call) (any, error) {
		said, err := s.Fake.IssueComments(c.Context(), c.repo, c.number)
		return c.gitLabNotes(said, "assigned to @ada"), err
	})
	s.route("POST /projects/{id}/issues/{number}/notes", "", func(c *call) (any, error) {
		return c.addGitLabNote(s.Fake.CommentIssue)
	})
	edit := func(issue bool) func(c *call) (any, error) {
		return func(c *call) (any, error) {
			v, err := decode[struct{ Body string }](c)
			if err != nil {
				return nil, err
			}
			id := c.PathValue("note")
			return map[string]any{"id": atoi(id), "body": v.Body}, s.Fake.EditComment(c.Context(), c.repo, forge.Topic{Number: c.number, Issue: issue}, id, v.Body)
		}
	}
	s.route("PUT /projects/{id}/issues/{number}/notes/{note}", "", edit(true))
	s.route("PUT /projects/{id}/merge_requests/{number}/notes/{note}", "", edit(false))
}

// issues reads an issue and its comments, adds a comment and changes it.
func issues(t *testing.T, h Host) {
	f := h.Forge.(forge.Issues)
	n := h.OpenIssue(t, "The list is\tempty", "It **panics**.")
	v, err := f.Issue(t.Context(), h.Repo, n)
	if err != nil || v.Number != n || !strings.HasPrefix(v.Title, "The list is") || strings.Contains(v.Title, "\t") || v.Body != "It **panics**." || v.Author == "" || v.CreatedAt.IsZero() || !strings.HasPrefix(v.URL, "http") {
		t.Fatalf("issue %+v, %v", v, err)
	}
	for i := range 3 {
		h.SayAtIssue(t, n, fmt.Sprintf("Comment %d.", i))
	}
	c, err := f.CommentIssue(t.Context(), h.Repo, n, "Working.")
	if err != nil || c.ID == "" || c.Body != "Working." || c.Author == "" || c.Author == v.Author || c.CreatedAt.IsZero() {
		t.Fatalf("said %+v, %v", c, err)
	}
	if c, err := h.Forge.(forge.Discussion).Comment(t.Context(), h.Repo, n, "x"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("an issue as a pull request: said %+v, %v", c, err)
	}
	if err := f.EditComment(t.Context(), h.Repo, forge.Topic{Number: n, Issue: true}, c.ID, "Done."); err != nil {
		t.Error(err)
	}
	seen, err := f.Updated(t.Context(), h.Repo, v.CreatedAt.Add(-time.Hour))
	if err != nil || len(seen) != 1 || seen[0].Topic != (forge.Topic{Number: n, Issue: true}) || seen[0].At.Before(v.CreatedAt) {
		t.Errorf("updated: %+v, %v", seen, err)
	}
	if seen, err = f.Updated(t.Context(), h.Repo, v.CreatedAt.Add(time.Hour)); err != nil || len(seen) != 0 {
		t.Errorf("updated in an hour: %+v, %v", seen, err)
	}
	all, err := f.IssueComments(t.Context(), h.Repo, n)
	if err != nil || len(all) != 4 || all[0].Body != "Comment 0." || all[2].Author != v.Author || all[3].Body != "Done." || all[3].ID != c.ID {
		t.Errorf("comments %+v, %v", all, err)
	}
	if err := f.EditComment(t.Context(), h.Repo, forge.Topic{Number: n, Issue: true}, "4711", "Done."); err == nil || fault.Is(err, fault.KindInternal) {
		t.Errorf("edited a comment that does not exist: %v", err)
	}
	for _, text := range []string{"", " \n"} {
		if _, err := f.CommentIssue(t.Context(), h.Repo, n, text); !fault.Is(err, fault.KindInvalid) {
			t.Errorf("said nothing: %v", err)
		}
		if err := f.EditComment(t.Context(), h.Repo, forge.Topic{Number: n, Issue: true}, c.ID, text); !fault.Is(err, fault.KindInvalid) {
			t.Errorf("edited to nothing: %v", err)
		}
	}
}

// pullIsNoIssue checks that the adapter does not treat a pull request as an
// issue, and edits a comment on the pull request.
func pullIsNoIssue(t *testing.T, h Host) {
	h.Push(t, "b")
	p := open(t, h, "b")
	f := h.Forge.(forge.Issues)
	if v, err := f.Issue(t.Context(), h.Repo, p.Number); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("a pull request as an issue: %+v, %v", v, err)
	}
	if c, err := f.CommentIssue(t.Context(), h.Repo, p.Number, "x"); !fault.Is(err, fault.KindNotFound) {
		t.Errorf("said %+v, %v", c, err)
	}
	c, err := h.Forge.(forge.Discussion).Comment(t.Context(), h.Repo, p.Number, "Working.")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.EditComment(t.Context(), h.Repo, forge.Topic{Number: p.Number}, c.ID, "Done."); err != nil {
		t.Error(err)
	}
	seen, err := f.Updated(t.Context(), h.Repo, c.CreatedAt.Add(-time.Hour))
	if err != nil || len(seen) != 1 || seen[0].Topic != (forge.Topic{Number: p.Number}) {
		t.Errorf("updated: %+v, %v", seen, err)
	}
	all, err := h.Forge.(forge.Discussion).Comments(t.Context(), h.Repo, p.Number)
	if err != nil || len(all) != 1 || all[0].Body != "Done." {
		t.Errorf("comments %+v, %v", all, err)
	}
}
