package forgetest

import (
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/forge"
	"aloft/internal/control/forge/fake"
)

// giteaJob returns the address of a check's page: a relative address for a job,
// or the address of an external status.
func giteaJob(s *Server, c forge.Check) string {
	if strings.HasPrefix(c.Name, "lint") {
		return "https://ci.test/1"
	}
	return fmt.Sprintf("/%s/actions/runs/7/jobs/%d", s.Repo.Path, s.jobID(c.LogID))
}

// giteaReviews serves reviews. Gitea has no threads: each comment on a line
// belongs to a review, and here each thread is a review.
func giteaReviews(s *Server) {
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/reviews", "", func(c *call) (any, error) {
		all := []any{
			map[string]any{"id": 4, "user": map[string]any{"login": "ada"}, "body": "", "state": "REQUEST_REVIEW", "comments_count": 0},
		}
		if n := len(s.pendingOf(c.number)); n > 0 || s.isPending() {
			all = append(all, map[string]any{"id": 3, "user": map[string]any{"login": fake.Login}, "body": "", "state": "PENDING", "comments_count": n})
		}
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		if err != nil {
			return nil, err
		}
		groups := map[string]int{}
		for _, t := range threads {
			if of := s.Fake.ReviewOf(c.repo, c.number, t.ID); of != "" {
				groups[of]++
				continue
			}
			all = append(all, map[string]any{"id": 1000 + atoi(t.ID), "user": map[string]any{"login": t.Comments[0].Author}, "body": "", "state": "COMMENT",
				"comments_count": len(t.Comments), "submitted_at": t.Comments[0].CreatedAt, "commit_id": c.pull().HeadCommit})
		}
		found, err := s.Fake.Reviews(c.Context(), c.repo, c.number)
		for _, v := range found {
			state := map[forge.ReviewVerdict]string{forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES", forge.Commented: "COMMENT"}[v.Verdict]
			all = append(all, map[string]any{"id": atoi(v.ID), "user": map[string]any{"login": v.Author}, "body": v.Body, "state": state, "comments_count": groups[v.ID],
				"submitted_at": v.SubmittedAt, "commit_id": v.Commit, "html_url": v.URL, "dismissed": false})
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/reviews/{review}/comments", "", func(c *call) (any, error) {
		all := []map[string]any{} // not paginated
		if c.PathValue("review") == "3" {
			for i, v := range s.pendingOf(c.number) {
				all = append(all, map[string]any{"id": 5000 + i, "user": map[string]any{"login": fake.Login}, "body": v.Body, "path": v.Path, "position": v.Line, "pull_request_review_id": 3})
			}
			return all, nil
		}
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		for _, t := range threads {
			id := s.Fake.ReviewOf(c.repo, c.number, t.ID)
			if id == "" {
				id = itoa(1000 + atoi(t.ID))
			}
			for _, v := range t.Comments {
				if id != c.PathValue("review") {
					continue
				}
				one := commentLikeGitHub(v)
				one["path"], one["position"], one["original_position"], one["pull_request_review_id"] = v.Path, v.Line, 0, atoi(id)
				if t.OldSide {
					one["position"], one["original_position"] = 0, v.Line
				}
				one["resolver"] = nil
				if t.Resolved {
					one["resolver"] = map[string]any{"login": "ada"}
				}
				all = append(all, one)
			}
		}
		return all, err
	})
	giteaPosting(s)
	s.route("POST /repos/{owner}/{repo}/pulls/comments/{comment}/resolve", "", func(c *call) (any, error) {
		for _, p := range s.Fake.PullRequests(c.repo) {
			c.number = p.Number
			if t, err := c.thread(func(id string) string { return id }, c.PathValue("comment")); err == nil {
				return noContent{}, s.Fake.Resolve(c.Context(), c.repo, p.Number, t.ID)
			}
		}
		return nil, refuse(http.StatusNotFound, "GetCommentByID")
	})
	s.route("GET /repos/{owner}/{repo}/collaborators/{login}/permission", "", func(c *call) (any, error) {
		login := c.PathValue("login")
		if strings.HasPrefix(login, "nobody") {
			return nil, refuse(http.StatusNotFound, "GetUserByName")
		}
		may, err := s.Fake.MayWrite(c.Context(), c.repo, login)
		return map[string]any{"permission": map[bool]string{true: "write", false: "read"}[may], "role_name": "", "user": map[string]any{"login": login}}, err
	})
	s.route("GET /repos/{owner}/{repo}/actions/jobs/{job}", "", func(c *call) (any, error) {
		id, err := c.job()
		_, name, _ := strings.Cut(id, " ")
		return map[string]any{"id": atoi(c.PathValue("job")), "run_id": 7, "name": name, "status": "completed", "conclusion": "failure"}, err
	})
	s.route("GET /repos/{owner}/{repo}/actions/jobs/{job}/logs", "", func(c *call) (any, error) {
		log, err := c.log()
		return plainText(log), err
	})
}
