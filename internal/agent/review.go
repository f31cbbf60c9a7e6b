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
	Patch       string        `json:"patch"`                 // in the format of git diff
	PullRequest *ReviewedPull `json:"pullRequest,omitempty"` // where the review is posted; nil for a change from elsewhere
}

// ReviewedPull is a pull request under review.
type ReviewedPull struct {
	URL     string `json:"url"`
	RepoURL string `json:"repoUrl"`
	Number  int64  `json:"number"`
	Commit  string `json:"commit"` // the head that is reviewed
	// Since is the head that an earlier agent has reviewed, or "". If it is set, only
	// findings in Changed are new.
	Since   string           `json:"since,omitempty"`
	Changed []ChangedLines   `json:"changed,omitempty"`
	Earlier []EarlierFinding `json:"earlier,omitempty"` // open findings of earlier reviews
}

// ChangedLines are lines in the new version of a file that were changed since the last
// review, or that are next to removed lines. If First is 0, lines of the old version are
// affected, too.
type ChangedLines struct {
	Path  string `json:"path"`
	First int    `json:"first"`
	Last  int    `json:"last"`
}

// EarlierFinding is a finding of an earlier review whose thread is open.
type EarlierFinding struct {
	ID       string   `json:"id"`       // E-1, E-2, … within the agent
	ThreadID string   `json:"threadId"` // id at the forge
	Path     string   `json:"path"`
	Line     int      `json:"line"` // 0 if the line is no longer known
	Severity Severity `json:"severity,omitempty"`
	Title    string   `json:"title"` // as shown by the forge, with the severity
}

// Finding is a defect that a review has found in a change.
type Finding struct {
	ID      string `json:"id"` // unique within the agent
	Path    string `json:"path"`
	Line    int    `json:"line"`
	EndLine int    `json:"endLine"` // at least Line
	// OldSide is true if the lines are in the old version of the file, because the
	// change removes them.
	OldSide    bool     `json:"oldSide,omitempty"`
	Severity   Severity `json:"severity"`
	Title      string   `json:"title"`                // one line
	Body       string   `json:"body"`                 // Markdown
	Suggestion string   `json:"suggestion,omitempty"` // replacement for the lines; "" if there is none
}

// Severity is how serious a finding is.
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
	Fixed    []string  `json:"fixed,omitempty"` // IDs of earlier findings that the change fixes
}

// ReviewComposed records the review to post on a pull request, before the server
// contacts the forge. The review is posted unchanged, also after a crash.
type ReviewComposed struct {
	Body     string          `json:"body"` // Markdown
	Mark     string          `json:"mark"` // text that identifies the review at the forge
	Comments []ReviewComment `json:"comments,omitempty"`
	Resolve  []string        `json:"resolve,omitempty"` // IDs of threads to resolve
	Status   ReviewStatus    `json:"status"`
}

// ReviewComment is the comment for a finding.
type ReviewComment struct {
	FindingID  string `json:"findingId"`
	Path       string `json:"path"`    // path after the change
	OldPath    string `json:"oldPath"` // path before the change
	StartLine  int    `json:"startLine"`
	Line       int    `json:"line"` // the last line of the finding
	OldSide    bool   `json:"oldSide,omitempty"`
	OtherLine  int    `json:"otherLine,omitempty"` // number of the same line on the other side of the diff; 0 if that side lacks the line
	Body       string `json:"body"`
	Suggestion string `json:"suggestion,omitempty"`
	Mark       string `json:"mark"`
}

// ReviewStatus is the commit status for the reviewed commit.
type ReviewStatus struct {
	Failed  bool   `json:"failed,omitempty"` // a finding is severe enough to fail the status, according to the configuration
	Summary string `json:"summary"`
	URL     string `json:"url,omitempty"` // URL of the agent
}

// ReviewPosted records that the pull request has the review.
type ReviewPosted struct {
	URL string `json:"url,omitempty"`
	// Plain says that the forge rejected comments on the lines, so a single comment
	// contains all findings.
	Plain bool `json:"plain,omitempty"`
	// Remarks say what failed in addition to posting the review, such as setting the
	// status.
	Remarks []string `json:"remarks,omitempty"`
}

// ReviewNotPosted records that a review was not posted. A later run tries again.
type ReviewNotPosted struct {
	Failure Failure `json:"failure"`
}

var (
	_ = register(&FindingsReported{})
	_ = register(&ReviewComposed{})
	_ = register(&ReviewPosted{})
	_ = register(&ReviewNotPosted{})
)

// Kind implements [Body].
func (*FindingsReported) Kind() string { return "review.findings" }

// Kind implements [Body].
func (*ReviewComposed) Kind() string { return "review.composed" }

// Kind implements [Body].
func (*ReviewPosted) Kind() string { return "review.posted" }

// Kind implements [Body].
func (*ReviewNotPosted) Kind() string { return "review.not_posted" }

// ReviewPost is the outcome of posting a review in a run.
type ReviewPost struct {
	RunID   string
	URL     string
	Failure *Failure // why the review was not posted, or nil
	Remarks []string
}

// review folds an event of a review. It does not modify slices that copies of the
// state share.
func (s *State) review(e Event) {
	switch b := e.Body.(type) {
	case *Created:
		s.Review = b.Review
	case *FindingsReported:
		s.Findings = append(slices.Clip(s.Findings), b.Findings...)
		s.Fixed = append(slices.Clip(s.Fixed), b.Fixed...)
	case *ReviewComposed:
		s.Composed = b
	case *ReviewPosted:
		if s.Composed != nil {
			for _, c := range s.Composed.Comments {
				s.Told = append(slices.Clip(s.Told), c.FindingID)
			}
		}
		s.Composed, s.Post = nil, &ReviewPost{RunID: e.RunID, URL: b.URL, Remarks: b.Remarks}
	case *ReviewNotPosted:
		s.Composed, s.Post = nil, &ReviewPost{RunID: e.RunID, Failure: &b.Failure}
	}
}
