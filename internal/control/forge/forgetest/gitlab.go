package forgetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aloft/internal/control/forge"
)

// NewGitLab starts a server that answers as GitLab does.
func NewGitLab(t testing.TB) *Server {
	return start(t, dialect{
		path: "/api/v4", perPage: "per_page", most: 100, routes: gitLab, token: bearer,
		refuse: func(status int, why string) any {
			switch status {
			case http.StatusBadRequest:
				return map[string]any{"error": why}
			case http.StatusConflict:
				return map[string]any{"message": []string{why}}
			case http.StatusUnprocessableEntity:
				return map[string]any{"message": map[string]any{"base": []string{why}}}
			}
			return map[string]any{"message": strconv.Itoa(status) + " " + why}
		},
	})
}

const gitLabBody = 1 << 20

func itoa(n int) string { return strconv.Itoa(n) }

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // of the fake's own making
	return n
}

func gitLab(s *Server) {
	show := func(p forge.PullRequest) any { return s.gitLabMerge(p) }
	s.route("GET /projects", "membership archived simple order_by sort owned search min_access_level", func(c *call) (any, error) {
		if c.URL.Query().Get("membership") != "true" { // it would be all that is public
			return nil, refuse(http.StatusBadRequest, "membership is %q", c.URL.Query().Get("membership"))
		}
		all := []any{}
		for _, r := range s.listed() {
			if r != archived || c.URL.Query().Get("archived") != "false" {
				all = append(all, map[string]any{"id": 5, "path_with_namespace": r.Path, "http_url_to_repo": "https://elsewhere.test/x.git"})
			}
		}
		return all, nil
	})
	s.route("GET /projects/{id}", "", func(c *call) (any, error) {
		return map[string]any{"id": 5, "path_with_namespace": c.repo.Path, "default_branch": "main"}, nil
	})
	s.route("GET /projects/{id}/merge_requests", "state source_branch target_branch order_by sort scope", func(c *call) (any, error) {
		q := c.URL.Query()
		all := []any{}
		for _, p := range s.Fake.PullRequests(c.repo) {
			if (q.Get("source_branch") == "" || q.Get("source_branch") == p.Head) && (q.Get("state") == "all" || q.Get("state") == gitLabState(p)) {
				fork := s.gitLabMerge(p)
				fork["iid"], fork["source_project_id"] = 900+p.Number, 6
				all = append(all, show(p), fork)
			}
		}
		if q.Get("sort") != "asc" {
			slices.Reverse(all)
		}
		return all, nil
	})
	s.route("POST /projects/{id}/merge_requests", "", func(c *call) (any, error) {
		v, err := in[struct {
			Title, Description string
			Source             string `json:"source_branch"`
			Target             string `json:"target_branch"`
		}](c)
		if err != nil {
			return nil, err
		}
		title, draft := gitLabTitle(v.Title)
		if err := limits(v.Title, "", 255, 0); err != nil {
			return nil, err
		}
		p, err := c.open(v.Source, v.Target, title, v.Description, draft, 255, gitLabBody)
		if err != nil && strings.Contains(err.Error(), "already exists") {
			err = refuse(http.StatusConflict, "Another open merge request already exists for this source branch: !%d", p.Number)
		}
		return show(p), err
	})
	s.route("GET /projects/{id}/merge_requests/{number}", "", func(c *call) (any, error) { return show(c.pull()), nil })
	s.route("PUT /projects/{id}/merge_requests/{number}", "", func(c *call) (any, error) {
		v, err := in[struct {
			Title, Description *string
			Event              *string `json:"state_event"`
			Reviewers          []int   `json:"reviewer_ids"`
		}](c)
		if err != nil {
			return nil, err
		}
		if v.Title == nil && v.Description == nil && v.Event == nil && v.Reviewers == nil {
			return nil, refuse(http.StatusBadRequest, "title, description, state_event, reviewer_ids are missing, at least one parameter must be provided")
		}
		var state *forge.State
		if v.Event != nil {
			state = new(map[string]forge.State{"close": forge.Closed, "reopen": forge.Open}[*v.Event])
			if *state == c.pull().State {
				return nil, refuse(http.StatusUnprocessableEntity, "state cannot transition via %q", *v.Event)
			}
		}
		if v.Title != nil {
			title, draft := gitLabTitle(*v.Title)
			if draft != c.pull().Draft {
				return nil, refuse(http.StatusUnprocessableEntity, "this server lets no title change what is a draft")
			}
			v.Title = &title
		}
		for _, id := range v.Reviewers {
			if id != 42 {
				return nil, refuse(http.StatusUnprocessableEntity, "reviewer %d", id)
			}
			if err := s.Fake.RequestReview(c.Context(), c.repo, c.number, []string{"ada"}); err != nil {
				return nil, err
			}
		}
		p, err := c.change(v.Title, v.Description, state, 255, gitLabBody)
		return show(p), err
	})
	s.route("PUT /projects/{id}/merge_requests/{number}/merge", "", func(c *call) (any, error) {
		v, err := in[struct {
			SHA    string
			Squash bool
		}](c)
		if err != nil {
			return nil, err
		}
		p, err := c.merge(v.SHA)
		return show(p), err
	})
	s.route("GET /users", "username", func(c *call) (any, error) {
		all := []any{}
		if c.URL.Query().Get("username") == "ada" {
			all = append(all, map[string]any{"id": 42, "username": "ada", "state": "active"})
		}
		return all, nil
	})
	s.route("GET /projects/{id}/repository/commits/{sha}/statuses", "ref stage name all", func(c *call) (any, error) {
		checks, err := s.Fake.Checks(c.Context(), c.repo, c.PathValue("sha"))
		all := []any{}
		for i, k := range checks {
			v := map[string]any{"id": 100 + i, "name": k.Name, "status": "success", "description": nil, "target_url": "https://ci.test/1", "allow_failure": false, "ref": "b"}
			switch k.State {
			case forge.Pending:
				v["status"] = "running"
			case forge.Failure:
				v["status"] = "failed"
			}
			// Of an older pipeline that came to nothing.
			old := map[string]any{"id": 1 + i, "name": k.Name, "status": "failed", "allow_failure": false, "ref": "refs/merge-requests/1/head"}
			all = append(all, v, old)
		}
		return all, err
	})
	s.route("GET /projects/{id}/merge_requests/{number}/notes", "sort order_by", func(c *call) (any, error) {
		said, err := s.Fake.Comments(c.Context(), c.repo, c.number)
		all := []any{}
		for _, v := range said {
			all = append(all, gitLabNote(v))
		}
		all = append(all, map[string]any{"id": 900, "author": map[string]any{"username": "ada"}, "body": "changed the title", "system": true, "created_at": "2026-01-02T03:04:05.678Z"})
		if c.URL.Query().Get("sort") != "asc" {
			slices.Reverse(all)
		}
		return all, err
	})
	s.route("POST /projects/{id}/merge_requests/{number}/notes", "", func(c *call) (any, error) {
		v, err := in[struct{ Body string }](c)
		if err != nil {
			return nil, err
		}
		said, err := s.Fake.Comment(c.Context(), c.repo, c.number, v.Body)
		return gitLabNote(said), err
	})
}

func gitLabTitle(title string) (string, bool) {
	rest, draft := strings.CutPrefix(title, "Draft: ")
	return rest, draft
}

func gitLabState(p forge.PullRequest) string {
	if p.State == forge.Open {
		return "opened"
	}
	return string(p.State)
}

func (s *Server) gitLabMerge(p forge.PullRequest) map[string]any {
	v := map[string]any{
		"id": 1000 + p.Number, "iid": p.Number, "web_url": s.URL + "/" + p.Repo.Path + "/-/merge_requests/" + itoa(p.Number),
		"title": p.Title, "description": p.Body, "author": map[string]any{"id": 7, "username": p.Author}, "state": gitLabState(p),
		"draft": p.Draft, "work_in_progress": p.Draft, "sha": p.HeadCommit, "source_branch": p.Head, "target_branch": p.Base,
		"source_project_id": 5, "target_project_id": 5, "reviewers": []any{},
	}
	if p.Draft {
		v["title"] = "Draft: " + p.Title
	}
	if slices.Contains(s.Fake.Reviewers(p.Repo, p.Number), "ada") {
		v["reviewers"] = []any{map[string]any{"id": 42, "username": "ada"}}
	}
	return v
}

func gitLabNote(c forge.Comment) any {
	return map[string]any{"id": atoi(c.ID), "author": map[string]any{"username": c.Author}, "body": c.Body, "system": false,
		"created_at": c.CreatedAt, "position": nil}
}
