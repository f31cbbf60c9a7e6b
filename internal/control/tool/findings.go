package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/agent"
	"aloft/internal/patch"
	"aloft/internal/tool"
)

// Limits of a finding, in bytes.
const (
	maxFindingTitle = 200
	maxFindingText  = 8 << 10
)

// severities maps the severities of proto/agent/v1/report_findings_tool.proto to
// those of findings.
var severities = map[string]agent.Severity{
	"FINDING_SEVERITY_LOW": agent.Low, "FINDING_SEVERITY_MEDIUM": agent.Medium, "FINDING_SEVERITY_HIGH": agent.High,
}

// reportedFinding is a finding as a model reports it.
type reportedFinding struct {
	Path       string `json:"path"`
	Line       int    `json:"line"`
	EndLine    int    `json:"end_line"`
	OldSide    bool   `json:"old_side"`
	Severity   string `json:"severity"`
	Title      string `json:"title"`
	Body       string `json:"body"`
	Suggestion string `json:"suggestion"`
}

// reportFindings accepts the findings that are about lines of the change under
// review. The result tells the model which findings are rejected, and why.
func reportFindings(args json.RawMessage, s *agent.State) (tool.Result, agent.Body) {
	var in struct {
		Findings []reportedFinding `json:"findings"`
		Fixed    []string          `json:"fixed"`
	}
	if r := decode(args, &in); r != nil {
		return *r, nil
	}
	if s.Review == nil {
		return tool.Failed("there is no change to review"), nil
	}
	if len(in.Findings)+len(in.Fixed) == 0 {
		return tool.Failed("findings and fixed are empty: if there is nothing to report, do not call the tool"), nil
	}
	change, err := patch.Parse(s.Review.Patch)
	if err != nil {
		return tool.Failed("the change cannot be read: %v", err), nil
	}
	known := slices.Clone(s.Findings)
	var accepted []agent.Finding
	var refused []string
	for i, one := range in.Findings {
		f, err := one.check(change, known)
		if err == nil {
			err = checkNew(s.Review.PullRequest, f)
		}
		if err != nil {
			refused = append(refused, fmt.Sprintf("findings[%d]: %v", i, err))
			continue
		}
		f.ID = fmt.Sprintf("F-%d", len(known)+1)
		known, accepted = append(known, f), append(accepted, f)
	}
	var fixed []string
	for i, id := range in.Fixed {
		if err := checkFixed(s, fixed, id); err != nil {
			refused = append(refused, fmt.Sprintf("fixed[%d]: %v", i, err))
			continue
		}
		fixed = append(fixed, id)
	}
	var text strings.Builder
	if len(fixed) > 0 {
		fmt.Fprintf(&text, "Accepted as fixed: %s\n", strings.Join(fixed, ", "))
	}
	for _, f := range accepted {
		fmt.Fprintf(&text, "Accepted as %s: %s:%d\n", f.ID, f.Path, f.Line)
	}
	if len(refused) > 0 {
		fmt.Fprintf(&text, "Not accepted:\n%s\n", strings.Join(refused, "\n"))
	}
	if len(accepted)+len(fixed) == 0 {
		return tool.Failed("%s", text.String()), nil
	}
	return tool.Result{Text: text.String(), Output: fmt.Appendf(nil, `{"success":{"accepted":%d}}`, len(accepted))}, &agent.FindingsReported{Findings: accepted, Fixed: fixed}
}

// checkNew returns why a finding is not new: the pull request was already
// reviewed, and the finding's lines have not changed since.
func checkNew(of *agent.ReviewedPull, f agent.Finding) error {
	if of == nil || of.Since == "" {
		return nil
	}
	for _, c := range of.Changed {
		if c.Path == f.Path && (f.OldSide && c.First == 0 || !f.OldSide && c.First > 0 && c.First <= f.EndLine && f.Line <= c.Last) {
			return nil
		}
	}
	return fmt.Errorf("the lines %d-%d of %q have not changed since the last review, at %.12s", f.Line, f.EndLine, f.Path, of.Since)
}

// checkFixed returns why an earlier finding is not accepted as fixed.
func checkFixed(s *agent.State, before []string, id string) error {
	of := s.Review.PullRequest
	if of == nil {
		return errors.New("the change was not reviewed before")
	}
	at := slices.IndexFunc(of.Earlier, func(e agent.EarlierFinding) bool { return e.ID == id })
	switch {
	case at < 0:
		return fmt.Errorf("there is no open earlier finding %q", id)
	case slices.Contains(s.Fixed, id) || slices.Contains(before, id):
		return fmt.Errorf("%s is reported as fixed already", id)
	case of.Since != "" && !slices.ContainsFunc(of.Changed, func(c agent.ChangedLines) bool { return c.Path == of.Earlier[at].Path }):
		return fmt.Errorf("the file of %s has not changed since the last review", id)
	}
	return nil
}

// check returns the finding, or why it is not accepted, given the known
// findings.
func (in reportedFinding) check(change patch.Patch, known []agent.Finding) (agent.Finding, error) {
	f := agent.Finding{
		Path: in.Path, Line: in.Line, EndLine: cmp.Or(in.EndLine, in.Line), OldSide: in.OldSide, Severity: severities[in.Severity],
		Title: strings.Join(strings.Fields(in.Title), " "), Body: strings.TrimSpace(in.Body), Suggestion: in.Suggestion,
	}
	switch {
	case len(known) >= agent.MaxFindings:
		return f, fmt.Errorf("the review has %d findings, which is the maximum", len(known))
	case f.Severity == "":
		return f, fmt.Errorf("severity is %q; must be FINDING_SEVERITY_LOW, FINDING_SEVERITY_MEDIUM or FINDING_SEVERITY_HIGH", in.Severity)
	case f.Title == "" || f.Body == "":
		return f, fmt.Errorf("title and body are required")
	case len(f.Title) > maxFindingTitle || len(f.Body) > maxFindingText || len(f.Suggestion) > maxFindingText:
		return f, fmt.Errorf("title, body or suggestion is longer than %d, %d and %d bytes", maxFindingTitle, maxFindingText, maxFindingText)
	case !utf8.ValidString(f.Title + f.Body + f.Suggestion):
		return f, fmt.Errorf("the text is not valid UTF-8")
	case f.EndLine < f.Line:
		return f, fmt.Errorf("end_line %d is before line %d", f.EndLine, f.Line)
	case f.OldSide && f.Suggestion != "":
		return f, fmt.Errorf("a suggestion cannot replace lines that the change removes")
	}
	if err := change.Check(f.Path, f.Line, f.EndLine, f.OldSide); err != nil {
		return f, err
	}
	for _, k := range known {
		overlaps := k.Path == f.Path && k.OldSide == f.OldSide && k.Line <= f.EndLine && f.Line <= k.EndLine
		if overlaps && strings.EqualFold(k.Title, f.Title) {
			return f, fmt.Errorf("it is the same as %s", k.ID)
		}
	}
	return f, nil
}
