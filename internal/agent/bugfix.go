package agent

import (
	"encoding/json"

	"aloft/internal/text"
)

// BugfixTool is the tool with which an agent reports the outcome of bug fixes.
const BugfixTool = "ReportBugfixResults"

// Limits of a report about bugs.
const (
	MaxBugfixes    = 100
	maxBugText     = 200   // bytes of an id or a title that are kept
	maxExplanation = 2_000 // bytes of an explanation that are kept
)

// Bugfix is an agent's report about one bug. It is not verified.
type Bugfix struct {
	ID          string `json:"id"` // as in the task
	Title       string `json:"title,omitempty"`
	Verdict     string `json:"verdict"` // fixed, not_a_bug or not_fixed
	Explanation string `json:"explanation,omitempty"`
}

// Verdicts maps the verdicts in the arguments of [BugfixTool] to the verdicts in
// [Bugfix].
var Verdicts = map[string]string{
	"BUGFIX_VERDICT_FIXED":          "fixed",
	"BUGFIX_VERDICT_FALSE_POSITIVE": "not_a_bug",
	"BUGFIX_VERDICT_COULD_NOT_FIX":  "not_fixed",
}

// reported folds reports about bugs. A later report about a bug replaces an
// earlier one.
func (s *State) reported(e Event) {
	if _, ok := e.Body.(*RunCreated); ok {
		s.Bugfixes = nil
	}
	done, ok := e.Inner().(*CallDone)
	if !ok || done.Error {
		return
	}
	c := s.Find(done.CallID)
	if c == nil || c.Name != BugfixTool || c.Result != nil {
		return
	}
	var in struct {
		Results []struct {
			ID          string `json:"bug_id"`
			Title       string `json:"bug_title"`
			Verdict     string `json:"verdict"`
			Explanation string `json:"explanation"`
		} `json:"results"`
	}
	if json.Unmarshal(c.Args, &in) != nil {
		return
	}
	all := append([]Bugfix(nil), s.Bugfixes...)
	for _, r := range in.Results {
		b := Bugfix{text.Head(r.ID, maxBugText), text.Head(r.Title, maxBugText), Verdicts[r.Verdict], text.Head(r.Explanation, maxExplanation)}
		at := 0
		for at < len(all) && all[at].ID != b.ID {
			at++
		}
		switch {
		case at < len(all):
			all[at] = b
		case at < MaxBugfixes:
			all = append(all, b)
		}
	}
	s.Bugfixes = all
}
