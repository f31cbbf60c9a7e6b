package agent

import "slices"

// ReviewTool is the tool with which an agent reports its findings in the change
// that it reviews.
const ReviewTool = "ReportFindings"

// MaxFindings is the maximum number of findings of one agent.
const MaxFindings = 20

// ReviewTask is a change for an agent to review. Its machine has the change in the
// working tree.
type ReviewTask struct {
	Patch string `json:"patch"` // in the format of git diff
}

// Finding is a defect that a review has found in a change.
type Finding struct {
	ID      string `json:"id"` // unique within the agent
	Path    string `json:"path"`
	Line    int    `json:"line"`
	EndLine int    `json:"endLine"` // at least Line
	// OldSide says that the lines are ones that the change removes.
	OldSide    bool     `json:"oldSide,omitempty"`
	Severity   Severity `json:"severity"`
	Title      string   `json:"title"`                // one line
	Body       string   `json:"body"`                 // Markdown
	Suggestion string   `json:"suggestion,omitempty"` // replaces the lines; "" if there is none
}

// Severity says how bad a finding is.
type Severity string

// Severities of findings.
const (
	Low    Severity = "low"
	Medium Severity = "medium"
	High   Severity = "high"
)

// FindingsReported records findings that the server has accepted. It is journaled
// together with the [CallDone] of a call of [ReviewTool].
type FindingsReported struct {
	Findings []Finding `json:"findings"`
}

var _ = register(&FindingsReported{})

// Kind implements [Body].
func (*FindingsReported) Kind() string { return "review.findings" }

// review folds an event of a review. It does not modify slices that copies of the
// state share.
func (s *State) review(e Event) {
	switch b := e.Body.(type) {
	case *Created:
		s.Review = b.Review
	case *FindingsReported:
		s.Findings = append(slices.Clip(s.Findings), b.Findings...)
	}
}
