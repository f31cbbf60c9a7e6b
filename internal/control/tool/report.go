package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/tool"
)

// reflect accepts a model's report about its work. The journal contains the
// report as the arguments of the call.
func reflect(args json.RawMessage) tool.Result {
	var in struct {
		Reflection string `json:"reflection"`
	}
	if r := decode(args, &in); r != nil {
		return *r
	}
	if strings.TrimSpace(in.Reflection) == "" {
		return tool.Failed("reflection is missing: write how you judge the work so far")
	}
	return tool.Result{Text: "Noted. Act on it.", Output: json.RawMessage(`{"success":{}}`)}
}

// reportBugfixes checks a report about bugs. The journal contains it as the
// arguments of the call.
func reportBugfixes(args json.RawMessage) tool.Result {
	var in struct {
		Summary string `json:"summary"`
		Results []struct {
			ID          string `json:"bug_id"`
			Title       string `json:"bug_title"`
			Verdict     string `json:"verdict"`
			Explanation string `json:"explanation"`
		} `json:"results"`
	}
	if r := decode(args, &in); r != nil {
		return *r
	}
	if n := len(in.Results); n == 0 || n > agent.MaxBugfixes {
		return tool.Failed("results: has %d; report 1 to %d bugs", n, agent.MaxBugfixes)
	}
	var text strings.Builder
	var seen []string
	for i, b := range in.Results {
		verdict, known := agent.Verdicts[b.Verdict]
		words := strings.ReplaceAll(verdict, "_", " ")
		switch {
		case strings.TrimSpace(b.ID) == "":
			return tool.Failed("results[%d].bug_id is missing", i)
		case slices.Contains(seen, b.ID):
			return tool.Failed("results[%d].bug_id: duplicate %q", i, b.ID)
		case !known:
			return tool.Failed("results[%d].verdict is %q; must be BUGFIX_VERDICT_FIXED, BUGFIX_VERDICT_FALSE_POSITIVE or BUGFIX_VERDICT_COULD_NOT_FIX", i, b.Verdict)
		case b.Verdict != "BUGFIX_VERDICT_FIXED" && strings.TrimSpace(b.Explanation) == "":
			return tool.Failed("results[%d].explanation is missing: say why %s is %s", i, b.ID, words)
		}
		seen = append(seen, b.ID)
		fmt.Fprintf(&text, "%s: %s\n", b.ID, words)
	}
	return tool.Result{Text: "Recorded:\n" + text.String(), Output: fmt.Appendf(nil, `{"success":{"recorded":%d}}`, len(in.Results))}
}

// decode parses the arguments of a call into the value to, and rejects unknown
// fields. If the arguments are invalid, it returns the result of the call;
// otherwise nil.
func decode(args json.RawMessage, to any) *tool.Result {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		r := tool.Failed("the arguments do not match the schema: %v", err)
		return &r
	}
	return nil
}
