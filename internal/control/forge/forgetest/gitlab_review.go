package forgetest

import (
	"fmt"
	"net/http"
	"strings"

	"aloft/internal/control/forge"
)

// gitLabThread returns the id of a discussion.
func gitLabThread(id string) string { return fmt.Sprintf("%040x", 0xabc000+atoi(id)) }

// gitLabPosition returns the position of a comment on a line, or nil.
func gitLabPosition(c forge.Comment) any {
	if c.Path == "" {
		return nil
	}
	return map[string]any{"base_sha": "b", "start_sha": "s", "position_type": "text", "old_path": c.Path, "new_path": c.Path, "old_line": nil, "new_line": c.Line, "line_range": nil}
}

func gitLabReviews(s *Server) {
	discussion := func(t forge.Thread) map[string]any {
		notes := []any{}
		for _, v := range t.Comments {
			one := gitLabNote(v).(map[string]any)
			if at, ok := one["position"].(map[string]any); ok && t.OldSide {
				at["old_line"], at["new_line"] = v.Line, nil
			}
			one["resolved"] = t.Resolved
			notes = append(notes, one)
		}
		return map[string]any{"id": gitLabThread(t.ID), "individual_note": false, "notes": notes}
	}
	s.route("GET /projects/{id}/merge_requests/{number}/discussions", "", func(c *call) (any, error) {
		all := []any{map[string]any{"id": gitLabThread("900"), "individual_note": true, "notes": []any{map[string]any{"id": 900, "system": true, "body": "added 1 commit"}}}}
		for _, v := range s.Fake.Plain(c.repo, c.number) {
			all = append(all, map[string]any{"id": gitLabThread(v.ID), "individual_note": true, "notes": []any{gitLabNote(v)}})
		}
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		for _, t := range threads {
			all = append(all, discussion(t))
		}
		return all, err
	})
	s.route("POST /projects/{id}/merge_requests/{number}/discussions/{discussion}/notes", "", func(c *call) (any, error) {
		v, err := decode[struct{ Body string }](c)
		if err != nil {
			return nil, err
		}
		t, err := c.thread(gitLabThread, c.PathValue("discussion"))
		if err != nil {
			return nil, err
		}
		said, err := s.Fake.Reply(c.Context(), c.repo, c.number, t.ID, v.Body)
		return gitLabNote(said), err
	})
	s.route("PUT /projects/{id}/merge_requests/{number}/discussions/{discussion}", "", func(c *call) (any, error) {
		v, err := decode[struct{ Resolved *bool }](c)
		if err != nil {
			return nil, err
		}
		if v.Resolved == nil || !*v.Resolved {
			return nil, refuse(http.StatusBadRequest, "resolved is missing")
		}
		t, err := c.thread(gitLabThread, c.PathValue("discussion"))
		if err == nil {
			err = s.Fake.Resolve(c.Context(), c.repo, c.number, t.ID)
		}
		t.Resolved = true
		return discussion(t), err
	})
	gitLabPosting(s, discussion)
	// GitLab stores one verdict per reviewer, without a text.
	latest := func(c *call) (forge.ReviewVerdict, error) {
		all, err := s.Fake.Reviews(c.Context(), c.repo, c.number)
		if len(all) == 0 {
			return "", err
		}
		return all[len(all)-1].Verdict, err
	}
	ada := map[string]any{"id": 42, "username": "ada", "state": "active"}
	s.route("GET /projects/{id}/merge_requests/{number}/reviewers", "", func(c *call) (any, error) {
		v, err := latest(c)
		state := map[forge.ReviewVerdict]string{"": "unreviewed", forge.ChangesRequested: "requested_changes", forge.Approved: "approved", forge.Commented: "reviewed"}[v]
		return []map[string]any{{"user": ada, "state": state, "created_at": "2026-01-02T03:04:05.678Z"}}, err // not paginated
	})
	s.route("GET /projects/{id}/merge_requests/{number}/approvals", "", func(c *call) (any, error) {
		v, err := latest(c)
		by := []map[string]any{}
		if v == forge.Approved {
			by = append(by, map[string]any{"user": ada, "approved_at": "2026-01-02T03:04:05.678Z"})
		}
		return map[string]any{"id": 5, "iid": c.number, "approvals_required": 1, "approved_by": by}, err
	})
	s.route("GET /projects/{id}/members/all", "query user_ids state show_seat_info", func(c *call) (any, error) {
		all := []any{
			map[string]any{"id": 41, "username": "ada-lovelace", "state": "active", "access_level": 10},
			map[string]any{"id": 40, "username": "adam", "state": "active", "access_level": 10},
		}
		if q := c.URL.Query().Get("query"); q == "" || !strings.HasPrefix("ada", q) {
			all = all[:0]
		}
		if may, err := s.Fake.MayWrite(c.Context(), c.repo, c.URL.Query().Get("query")); err != nil || may {
			all = append(all, map[string]any{"id": 42, "username": c.URL.Query().Get("query"), "state": "active", "access_level": 30})
		}
		return all, nil
	})
	s.route("GET /projects/{id}/jobs/{gitlabjob}/trace", "", func(c *call) (any, error) {
		c.SetPathValue("job", itoa(atoi(c.PathValue("gitlabjob"))-1000))
		log, err := c.log()
		return plainText(log), err
	})
}
