package forgetest

import (
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/forge"
)

// giteaJob returns the address of the page of a check's job, which is relative,
// or of an external status.
func giteaJob(s *Server, c forge.Check) string {
	if strings.HasPrefix(c.Name, "lint") {
		return "https://ci.test/1"
	}
	return fmt.Sprintf("/%s/actions/runs/7/jobs/%d", s.Repo.Path, s.jobID(c.LogID))
}

// giteaReviews serves reviews. Gitea has no threads: each comment on a line is
// one of a review, and here each thread is one review.
func giteaReviews(s *Server) {
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/reviews", "", func(c *call) (any, error) {
		all := []any{
			map[string]any{"id": 3, "user": nil, "body": "not sent yet", "state": "PENDING", "comments_count": 1},
			map[string]any{"id": 4, "user": map[string]any{"login": "ada"}, "body": "", "state": "REQUEST_REVIEW", "comments_count": 0},
		}
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		if err != nil {
			return nil, err
		}
		for _, t := range threads {
			all = append(all, map[string]any{"id": 1000 + atoi(t.ID), "user": map[string]any{"login": t.Comments[0].Author}, "body": "", "state": "COMMENT",
				"comments_count": len(t.Comments), "submitted_at": t.Comments[0].CreatedAt, "commit_id": c.pull().HeadCommit})
		}
		found, err := s.Fake.Reviews(c.Context(), c.repo, c.number)
		for _, v := range found {
			state := map[forge.ReviewVerdict]string{forge.Approved: "APPROVED", forge.ChangesRequested: "REQUEST_CHANGES", forge.Commented: "COMMENT"}[v.Verdict]
			all = append(all, map[string]any{"id": atoi(v.ID), "user": map[string]any{"login": v.Author}, "body": v.Body, "state": state, "comments_count": 0,
				"submitted_at": v.SubmittedAt, "commit_id": v.Commit, "html_url": v.URL, "dismissed": false})
		}
		return all, err
	})
	s.route("GET /repos/{owner}/{repo}/pulls/{number}/reviews/{review}/comments", "", func(c *call) (any, error) {
		t, err := c.thread(func(id string) string { return itoa(1000 + atoi(id)) }, c.PathValue("review"))
		all := []map[string]any{} // not paginated
		for _, v := range t.Comments {
			one := giteaComment(v)
			one["path"], one["position"], one["original_position"], one["pull_request_review_id"] = v.Path, v.Line, 0, atoi(c.PathValue("review"))
			one["resolver"] = nil
			if t.Resolved {
				one["resolver"] = map[string]any{"login": "ada"}
			}
			all = append(all, one)
		}
		return all, err
	})
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
