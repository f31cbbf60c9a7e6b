package forgetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// NewGitea starts a server that behaves like Gitea 1.26. TestRealGitea runs the
// same tests against Gitea itself.
func NewGitea(t testing.TB) *Server {
	return start(t, dialect{
		path: "/api/v1", perPage: "limit", most: 50, routes: gitea, noReply: true, actions: botCommands,
		token: func(h http.Header) string {
			token, ok := strings.CutPrefix(h.Get("Authorization"), "token ")
			if !ok {
				return ""
			}
			return token
		},
		refuse: func(_ int, why string) any {
			return map[string]any{"message": why, "url": "https://forge.test/api/swagger"}
		},
	})
}

func gitea(s *Server) {
	show := func(p forge.PullRequest) any { return s.giteaPull(p) }
	s.route("GET /user/repos", "", func(*call) (any, error) {
		all := []any{}
		for _, r := range s.listed() {
			all = append(all, map[string]any{"id": 1, "full_name": r.Path, "archived": r == archived, "empty": false})
		}
		return all, nil
	})
	s.route("GET /repos/{owner}/{repo}", "", func(c *call) (any, error) {
		return map[string]any{"id": 1, "full_name": c.repo.Path, "default_branch": "main"}, nil
	})
	s.route("GET /repos/{owner}/{repo}/pulls", "base_branch state sort milestone labels poster", func(c *call) (any, error) {
		if sort := c.URL.Query().Get("sort"); sort != "" && !slices.Contains([]string{"oldest", "recentupdate", "recentclose", "leastupdate", "mostcomment", "leastcomment", "priority"}, sort) {
			return nil, refuse(http.StatusUnprocessableEntity, "sort is %q", sort)
		}
		all := []any{}
		for _, p := range s.Fake.PullRequests(c.repo) {
			if state := c.URL.Query().Get("state"); state == "all" || (state == "closed") != (p.State == forge.Open) {
				fork := s.giteaPull(p)
				fork["number"], fork["head"].(map[string]any)["repo"] = 900+p.Number, map[string]any{"full_name": "mallory/widget"}
				all = append(all, show(p), fork)
			}
		}
		slices.Reverse(all)
		return all, nil
	})
	s.route("POST /repos/{owner}/{repo}/pulls", "", func(c *call) (any, error) {
		v, err := decode[struct{ Title, Body, Head, Base string }](c)
		if err != nil {
			return nil, err
		}
		if err := limits(v.Title, "", 255, 0); err != nil {
			return nil, err
		}
		title, draft := strings.CutPrefix(v.Title, "WIP: ")
		p, err := c.open(forge.NewPullRequest{Head: v.Head, Base: v.Base, Title: title, Body: v.Body, Draft: draft}, 255, 65536)
		return show(p), err
	})
	s.route("GET /repos/{owner}/{repo}/pulls/{number}", "", func(c *call) (any, error) { return show(c.pull()), nil })
	s.route("PATCH /repos/{owner}/{repo}/pulls/{number}", "", func(c *call) (any, error) {
		v, err := decode[struct{ Title, Body, State *string }](c)
		if err != nil {
			return nil, err
		}
		if v.Title != nil {
			title, draft := strings.CutPrefix(*v.Title, "WIP: ")
			if draft != c.pull().Draft {
				return nil, refuse(http.StatusUnprocessableEntity, "this server lets no title change what is a draft")
			}
			v.Title = &title
		}
		p, err := c.change(v.Title, v.Body, (*forge.State)(v.State), 255, 65536)
		return show(p), err
	})
	s.route("POST /repos/{owner}/{repo}/pulls/{number}/requested_reviewers", "", func(c *call) (any, error) {
		v, err := decode[struct{ Reviewers []string }](c)
		if err == nil {
			err = s.Fake.RequestReview(c.Context(), c.repo, c.number, v.Reviewers)
		}
		return []any{}, err
	})
	s.route("GET /repos/{owner}/{repo}/commits/{ref}/status", "", func(c *call) (any, error) {
		checks, err := s.Fake.Checks(c.Context(), c.repo, c.PathValue("ref"))
		if page := max(atoi(c.URL.Query().Get("page")), 1); err == nil {
			from := min((page-1)*s.page, len(checks))
			checks = checks[from:min(from+s.page, len(checks))]
		}
		all := []any{}
		for _, k := range checks {
			all = append(all, map[string]any{"id": 1, "context": k.Name, "status": string(k.State), "description": "", "target_url": giteaJob(s, k), "updated_at": "2026-01-02T03:04:05Z"})
		}
		return map[string]any{"state": "pending", "sha": c.PathValue("ref"), "total_count": len(checks), "statuses": all}, err
	})
	s.route("GET /repos/{owner}/{repo}/issues/{number}/comments", "since before", func(c *call) (any, error) {
		all := []map[string]any{} // not paginated
		said, err := c.plain()
		for _, v := range said {
			all = append(all, commentLikeGitHub(v))
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/issues", "state type since before", func(c *call) (any, error) { return s.updatedLikeGitHub(c) })
	s.issuesLikeGitHub()
	giteaReviews(s)
}

func (s *Server) giteaPull(p forge.PullRequest) map[string]any {
	repo := map[string]any{"full_name": p.Repo.Path}
	v := map[string]any{
		"id": 1000 + p.Number, "number": p.Number, "html_url": s.URL + "/" + p.Repo.Path + "/pulls/" + itoa(p.Number),
		"title": p.Title, "body": p.Body, "user": map[string]any{"login": p.Author}, "state": "open", "draft": p.Draft, "merged": p.State == forge.Merged,
		"head": map[string]any{"label": p.Head, "ref": p.Head, "sha": p.HeadCommit, "repo": repo},
		"base": map[string]any{"label": p.Base, "ref": p.Base, "sha": p.HeadCommit, "repo": repo},
	}
	if p.Draft {
		v["title"] = "WIP: " + p.Title
	}
	if p.State != forge.Open {
		v["state"] = "closed"
	}
	return v
}
