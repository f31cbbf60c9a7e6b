package forgetest

import (
	"net/http"

	"aloft/internal/control/forge"
)

// StartReview adds a comment to the pending review that the token's user
// prepares on the host's website.
func (s *Server) StartReview(number int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addPending(number, forge.LineComment{Path: "file", OldPath: "file", StartLine: 1, Line: 1, Body: body})
}

// DieAt makes the host die once, while it adds a review: before it adds the
// n-th comment, counted from 1. GitHub adds a review atomically.
func (s *Server) DieAt(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dieAt = n
}

// dies reports whether the host dies before it adds the n-th comment.
func (s *Server) dies(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dieAt != n {
		return false
	}
	s.dieAt = 0
	return true
}

func (s *Server) addPending(number int, c forge.LineComment) {
	if s.pending == nil {
		s.pending = map[int][]forge.LineComment{}
	}
	s.pending[number] = append(s.pending[number], c)
}

// pendingOf returns the comments of the pending review of the token's user.
func (s *Server) pendingOf(number int) []forge.LineComment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pending[number]
}

// isPending reports whether there is a pending review, maybe without comments.
func (s *Server) isPending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.empty
}

func orNull(n int) any {
	if n == 0 {
		return nil
	}
	return n
}

// status sets a status in the form that GitHub and Gitea have in common.
func (c *call) status() (any, error) {
	v, err := decode[struct {
		State, Context, Description string
		TargetURL                   string `json:"target_url"`
	}](c)
	if err != nil {
		return nil, err
	}
	state, ok := map[string]forge.CheckState{"pending": forge.Pending, "success": forge.Success, "failure": forge.Failure, "error": forge.Failure}[v.State]
	if !ok || len([]rune(v.Description)) > 140 || v.Context == "" || len(c.PathValue("sha")) != 40 {
		return nil, refuse(http.StatusUnprocessableEntity, "the status %+v of %s is not valid", v, c.PathValue("sha"))
	}
	c.s.Fake.SetCheck(c.repo, c.PathValue("sha"), forge.Check{Name: v.Context, State: state, Summary: v.Description, URL: v.TargetURL})
	return map[string]any{"id": 1, "state": v.State, "context": v.Context}, nil
}

// reviewLikeGitHub returns a posted review in the form that GitHub and Gitea have in
// common.
func reviewLikeGitHub(said forge.Comment, commit, state string) map[string]any {
	return map[string]any{"id": atoi(said.ID), "user": map[string]any{"login": said.Author}, "body": said.Body, "state": state,
		"commit_id": commit, "submitted_at": said.CreatedAt, "html_url": said.URL}
}

func gitHubPosting(s *Server) {
	s.route("POST /repos/{owner}/{repo}/statuses/{sha}", "", (*call).status)
	s.route("POST /repos/{owner}/{repo}/pulls/{number}/reviews", "", func(c *call) (any, error) {
		v, err := decode[struct {
			CommitID string `json:"commit_id"`
			Body     string
			Event    string
			Comments []struct {
				Path, Body, Side string
				Line             int
				StartLine        int    `json:"start_line"`
				StartSide        string `json:"start_side"`
			}
		}](c)
		if err != nil {
			return nil, err
		}
		switch {
		case v.Event != "COMMENT":
			return nil, refuse(http.StatusUnprocessableEntity, "event is %q: the review would be pending", v.Event)
		case v.Body == "":
			return nil, refuse(http.StatusUnprocessableEntity, "Body can't be blank")
		case len(s.pendingOf(c.number)) > 0:
			return nil, refuse(http.StatusUnprocessableEntity, "User can only have one pending review per pull request")
		case !s.Fake.IsCommit(c.repo, c.number, v.CommitID):
			return nil, refuse(http.StatusUnprocessableEntity, "The commit %s is not part of the pull request", v.CommitID)
		}
		if err := limits("", v.Body, 0, 65536); err != nil {
			return nil, err
		}
		var comments []forge.LineComment
		for _, one := range v.Comments {
			l := forge.LineComment{Path: one.Path, OldPath: one.Path, StartLine: one.Line, Line: one.Line, OldSide: one.Side == "LEFT", Body: one.Body}
			if one.StartLine > 0 {
				l.StartLine = one.StartLine
			}
			if one.Side != "LEFT" && one.Side != "RIGHT" || one.StartLine > 0 && (one.StartLine >= one.Line || one.StartSide != one.Side) {
				return nil, refuse(http.StatusUnprocessableEntity, "Pull request review thread side or start line is invalid")
			}
			if s.Fake.CheckComment(c.repo, c.number, l) != nil {
				return nil, refuse(http.StatusUnprocessableEntity, "Pull request review thread line must be part of the diff")
			}
			comments = append(comments, l)
		}
		if s.dies(1) {
			panic(http.ErrAbortHandler)
		}
		said, err := s.Fake.AddReview(c.repo, c.number, v.CommitID, v.Body, comments)
		return reviewLikeGitHub(said, v.CommitID, "COMMENTED"), err
	})
}

// giteaPosting adds reviews as Gitea does: each comment first joins the pending
// review of the user, which is then submitted. For a line that does not exist
// in the file, it fails with the status 500, and the pending review stays.
func giteaPosting(s *Server) {
	s.route("POST /repos/{owner}/{repo}/statuses/{sha}", "", (*call).status)
	s.route("POST /repos/{owner}/{repo}/pulls/{number}/reviews", "", func(c *call) (any, error) {
		v, err := decode[struct {
			CommitID string `json:"commit_id"`
			Body     string
			Event    string
			Comments []struct {
				Path, Body string
				New        int `json:"new_position"`
				Old        int `json:"old_position"`
			}
		}](c)
		if err != nil {
			return nil, err
		}
		if v.Event != "COMMENT" || v.Body == "" && len(v.Comments) == 0 {
			return nil, refuse(http.StatusUnprocessableEntity, "review event %s requires a body or a comment", v.Event)
		}
		if !s.Fake.IsCommit(c.repo, c.number, v.CommitID) { // stricter than Gitea, which would show the comments as outdated
			return nil, refuse(http.StatusUnprocessableEntity, "the commit %s is not part of the pull request", v.CommitID)
		}
		for i, one := range v.Comments {
			if s.dies(i + 1) {
				panic(http.ErrAbortHandler)
			}
			l := forge.LineComment{Path: one.Path, OldPath: one.Path, StartLine: one.New, Line: one.New, Body: one.Body}
			if one.Old > 0 {
				l.StartLine, l.Line, l.OldSide = one.Old, one.Old, true
			}
			if s.Fake.CheckComment(c.repo, c.number, l) != nil { // stricter than Gitea, which accepts other lines of the file
				s.mu.Lock()
				s.empty = true
				s.mu.Unlock()
				return nil, refuse(http.StatusInternalServerError, "")
			}
			s.mu.Lock()
			s.addPending(c.number, l)
			s.mu.Unlock()
		}
		if s.dies(len(v.Comments) + 1) {
			panic(http.ErrAbortHandler)
		}
		said, err := s.Fake.AddReview(c.repo, c.number, v.CommitID, v.Body, s.pendingOf(c.number))
		s.mu.Lock()
		delete(s.pending, c.number)
		s.empty = false
		s.mu.Unlock()
		review := reviewLikeGitHub(said, v.CommitID, "COMMENT")
		review["comments_count"] = len(v.Comments)
		return review, err
	})
	s.route("DELETE /repos/{owner}/{repo}/pulls/{number}/reviews/{review}", "", func(c *call) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.PathValue("review") != "3" || len(s.pending[c.number]) == 0 && !s.empty {
			return nil, refuse(http.StatusNotFound, "GetReviewByID")
		}
		delete(s.pending, c.number)
		s.empty = false
		return noContent{}, nil
	})
}

func gitLabPosting(s *Server, discussion func(forge.Thread) map[string]any) {
	s.route("POST /projects/{id}/statuses/{sha}", "", func(c *call) (any, error) {
		v, err := decode[struct {
			State, Name, Description string
			TargetURL                string `json:"target_url"`
		}](c)
		if err != nil {
			return nil, err
		}
		state, ok := map[string]forge.CheckState{"pending": forge.Pending, "running": forge.Pending, "success": forge.Success, "failed": forge.Failure}[v.State]
		if !ok || len(v.Description) > 255 || v.Name == "" || len(c.PathValue("sha")) != 40 {
			return nil, refuse(http.StatusBadRequest, "state does not have a valid value")
		}
		checks, err := s.Fake.Checks(c.Context(), c.repo, c.PathValue("sha"))
		for _, k := range checks {
			if k.Name == v.Name && k.State == state {
				return nil, refuse(http.StatusBadRequest, "Cannot transition status via :%s from :%s", v.State, v.State)
			}
		}
		s.Fake.SetCheck(c.repo, c.PathValue("sha"), forge.Check{Name: v.Name, State: state, Summary: v.Description, URL: v.TargetURL, LogID: c.PathValue("sha") + " " + v.Name})
		return map[string]any{"id": 1, "status": v.State, "name": v.Name}, err
	})
	s.route("GET /projects/{id}/merge_requests/{number}/versions", "", func(c *call) (any, error) {
		head := c.pull().HeadCommit
		return []any{ // newest first
			map[string]any{"id": 2, "head_commit_sha": head, "base_commit_sha": "b" + head[1:], "start_commit_sha": "c" + head[1:], "state": "collected"},
			map[string]any{"id": 1, "head_commit_sha": "d" + head[1:], "base_commit_sha": "e" + head[1:], "start_commit_sha": "f" + head[1:], "state": "collected"},
		}, nil
	})
	s.route("POST /projects/{id}/merge_requests/{number}/discussions", "", func(c *call) (any, error) {
		v, err := decode[struct {
			Body     string
			Position *struct {
				Type  string `json:"position_type"`
				Base  string `json:"base_sha"`
				Start string `json:"start_sha"`
				Head  string `json:"head_sha"`
				New   string `json:"new_path"`
				Old   string `json:"old_path"`
				NewN  *int   `json:"new_line"`
				OldN  *int   `json:"old_line"`
			}
		}](c)
		if err != nil {
			return nil, err
		}
		n := len(s.Fake.Plain(c.repo, c.number))
		threads, err := s.Fake.Threads(c.Context(), c.repo, c.number)
		if err != nil {
			return nil, err
		}
		if s.dies(len(threads) + n + 1) {
			panic(http.ErrAbortHandler)
		}
		if v.Position == nil {
			said, err := s.Fake.Comment(c.Context(), c.repo, c.number, v.Body)
			return map[string]any{"id": gitLabThread(said.ID), "individual_note": false, "notes": []any{gitLabNote(said)}}, err
		}
		p, head := *v.Position, c.pull().HeadCommit
		if p.Type != "text" || p.Head != head || p.Base != "b"+head[1:] || p.Start != "c"+head[1:] || p.New == "" || p.Old == "" {
			return nil, refuse(http.StatusBadRequest, "Note {:position=>[\"is invalid\"]}")
		}
		l := forge.LineComment{Path: p.New, OldPath: p.Old, Body: v.Body}
		switch {
		case p.NewN != nil:
			l.StartLine, l.Line = *p.NewN, *p.NewN
			if p.OldN != nil {
				l.OtherLine = *p.OldN
			}
		case p.OldN != nil:
			l.StartLine, l.Line, l.OldSide = *p.OldN, *p.OldN, true
		}
		if err := s.Fake.CheckPlace(c.repo, c.number, l); err != nil {
			return nil, refuse(http.StatusBadRequest, "Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}")
		}
		if _, err := s.Fake.AddReview(c.repo, c.number, p.Head, "", []forge.LineComment{l}); err != nil {
			return nil, err
		}
		threads, err = s.Fake.Threads(c.Context(), c.repo, c.number)
		return discussion(threads[len(threads)-1]), err
	})
}
