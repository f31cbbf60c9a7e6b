package forgetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// NewGitHub starts a server that behaves like GitHub.
func NewGitHub(t testing.TB) *Server {
	return start(t, dialect{
		path: "", perPage: "per_page", most: 100, routes: gitHub, actions: botCommands,
		headers: map[string]string{"Accept": "application/vnd.github+json", "X-Github-Api-Version": "2022-11-28"},
		token:   bearer,
		refuse: func(status int, why string) any {
			if status == http.StatusConflict && strings.Contains(why, "already exists") || status == http.StatusUnprocessableEntity {
				return map[string]any{"message": "Validation Failed", "status": "422",
					"errors": []any{map[string]any{"resource": "PullRequest", "code": "custom", "message": why}, map[string]any{"resource": "PullRequest", "field": "head", "code": "invalid"}}}
			}
			return map[string]any{"message": why, "documentation_url": "https://docs.github.com/rest"}
		},
	})
}

func bearer(h http.Header) string {
	token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	if !ok {
		return ""
	}
	return token
}

func gitHub(s *Server) {
	show := func(p forge.PullRequest) any { return s.gitHubPull(p) }
	listed := func() (all []any) {
		for _, r := range s.listed() {
			all = append(all, map[string]any{"id": 1, "full_name": r.Path, "html_url": "https://elsewhere.test/" + r.Path, "archived": r == archived})
		}
		return all
	}
	s.route("GET /user/repos", "visibility affiliation type sort direction since before", func(*call) (any, error) { return listed(), nil })
	s.route("GET /installation/repositories", "", func(*call) (any, error) {
		return paged{"repositories", listed(), map[string]any{"total_count": len(listed()), "repository_selection": "all"}}, nil
	})
	s.route("GET /repos/{owner}/{repo}", "", func(c *call) (any, error) {
		return map[string]any{"id": 1, "name": c.repo.Name(), "full_name": c.repo.Path, "default_branch": "main", "archived": false}, nil
	})
	s.route("GET /repos/{owner}/{repo}/pulls", "state head base sort direction", func(c *call) (any, error) {
		q := c.URL.Query()
		all := []any{}
		for _, p := range s.Fake.PullRequests(c.repo) {
			open := p.State == forge.Open
			if (q.Get("head") == "" || q.Get("head") == c.repo.Owner()+":"+p.Head) && (q.Get("state") == "all" || (q.Get("state") == "closed") != open) {
				v := s.gitHubPull(p)
				delete(v, "merged")     // lists lack this field
				fork := s.gitHubPull(p) // the owner may also have a fork
				fork["number"], fork["head"].(map[string]any)["repo"] = 900+p.Number, map[string]any{"full_name": "acme/widget-fork"}
				all = append(all, v, fork)
			}
		}
		if q.Get("direction") == "desc" {
			slices.Reverse(all)
		}
		return all, nil
	})
	s.route("POST /repos/{owner}/{repo}/pulls", "", func(c *call) (any, error) {
		v, err := decode[struct {
			Title, Body, Head, Base string
			Draft                   bool
		}](c)
		if err != nil {
			return nil, err
		}
		p, err := c.open(forge.NewPullRequest{Head: v.Head, Base: v.Base, Title: v.Title, Body: v.Body, Draft: v.Draft}, 256, 65536)
		if err != nil && strings.Contains(err.Error(), "already exists") {
			err = refuse(http.StatusUnprocessableEntity, "%v", err)
		}
		return show(p), err
	})
	s.route("GET /repos/{owner}/{repo}/pulls/{number}", "", func(c *call) (any, error) { return show(c.pull()), nil })
	s.route("PATCH /repos/{owner}/{repo}/pulls/{number}", "", func(c *call) (any, error) {
		v, err := decode[struct{ Title, Body, State, Base *string }](c)
		if err != nil {
			return nil, err
		}
		p, err := c.change(v.Title, v.Body, (*forge.State)(v.State), 256, 65536)
		return show(p), err
	})
	s.route("POST /repos/{owner}/{repo}/pulls/{number}/requested_reviewers", "", func(c *call) (any, error) {
		v, err := decode[struct{ Reviewers []string }](c)
		if err == nil {
			err = s.Fake.RequestReview(c.Context(), c.repo, c.number, v.Reviewers)
		}
		return show(c.pull()), err
	})
	// Half of the checks are check runs of Actions, half are commit statuses.
	asStatus := func(c forge.Check) bool { return strings.HasPrefix(c.Name, "lint") }
	s.route("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", "filter", func(c *call) (any, error) {
		all, err := s.Fake.Checks(c.Context(), c.repo, c.PathValue("ref"))
		runs := []any{}
		for _, k := range all {
			if asStatus(k) {
				continue
			}
			run := map[string]any{"id": s.jobID(k.LogID), "name": k.Name, "app": map[string]any{"slug": appOf(k)}, "completed_at": nil,
				"status": "in_progress", "conclusion": nil, "html_url": "https://ci.test/1", "output": map[string]any{"title": nil}}
			if k.State != forge.Pending {
				run["status"], run["conclusion"], run["completed_at"] = "completed", string(k.State), "2026-01-02T03:04:05Z"
			}
			runs = append(runs, run)
		}
		return paged{"check_runs", runs, map[string]any{"total_count": len(runs)}}, err
	})
	s.route("GET /repos/{owner}/{repo}/commits/{ref}/status", "", func(c *call) (any, error) {
		all, err := s.Fake.Checks(c.Context(), c.repo, c.PathValue("ref"))
		statuses := []any{}
		for _, k := range all {
			if asStatus(k) {
				statuses = append(statuses, map[string]any{"context": k.Name, "state": string(k.State), "description": nil, "target_url": "javascript:alert(1)"})
			}
		}
		return paged{"statuses", statuses, map[string]any{"state": "pending", "total_count": len(statuses), "sha": c.PathValue("ref")}}, err
	})
	s.route("GET /repos/{owner}/{repo}/issues/{number}/comments", "since", func(c *call) (any, error) {
		said, err := c.plain()
		all := []any{}
		for _, v := range said {
			all = append(all, commentLikeGitHub(v))
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/issues", "state sort direction since", func(c *call) (any, error) { return s.updatedLikeGitHub(c) })
	s.issuesLikeGitHub()
	gitHubReviews(s)
}

// change applies the given changes.
func (c *call) change(title, body *string, state *forge.State, titleMost, bodyMost int) (forge.PullRequest, error) {
	for _, s := range []*string{title, body} {
		if s != nil {
			most := bodyMost
			if s == title {
				most = titleMost
			}
			if err := limits("", *s, 0, most); err != nil {
				return forge.PullRequest{}, err
			}
		}
	}
	return c.s.Fake.Update(c.Context(), c.repo, c.number, forge.Change{Title: title, Body: body, State: state})
}

func (s *Server) gitHubPull(p forge.PullRequest) map[string]any {
	repo := map[string]any{"full_name": p.Repo.Path}
	v := map[string]any{
		"id": 1000 + p.Number, "number": p.Number, "html_url": s.URL + "/" + p.Repo.Path + "/pull/" + itoa(p.Number),
		"title": p.Title, "body": p.Body, "user": map[string]any{"login": p.Author, "type": "User"}, "state": "open", "draft": p.Draft,
		"merged_at": nil, "merged": p.State == forge.Merged,
		"head": map[string]any{"ref": p.Head, "sha": p.HeadCommit, "label": "acme:" + p.Head, "repo": repo},
		"base": map[string]any{"ref": p.Base, "sha": p.HeadCommit, "label": "acme:" + p.Base, "repo": repo},
	}
	if p.Body == "" {
		v["body"] = nil
	}
	if p.State != forge.Open {
		v["state"] = "closed"
	}
	if p.State == forge.Merged {
		v["merged_at"] = "2026-01-02T03:04:05Z"
	}
	return v
}
