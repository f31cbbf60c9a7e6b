package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"aloft/internal/agent"
	"aloft/internal/conversation"
	"aloft/internal/fault"
	"aloft/internal/tool"
)

// Attribution is the name of the tool that says which runs wrote lines.
const Attribution = "AiAttribution"

// Limits of a call of AiAttribution.
const (
	maxAttributedFiles = 100
	maxAttributedLines = 1000 // ranges in a result
)

// An Attributor returns which runs last changed the lines of files, which are
// named relative to the workspace. Without names, it returns the lines that the
// agent's branch has changed. Its faults are for the model.
type Attributor func(ctx context.Context, s *agent.State, names []string) ([]tool.Attributed, error)

var shortCommit = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// Attribute runs a call of AiAttribution.
func Attribute(ctx context.Context, c conversation.ToolCall, s *agent.State, read Attributor) (tool.Result, error) {
	var in struct {
		Files   []string `json:"file_paths"`
		Commits []string `json:"commit_hashes"`
	}
	if r := decode(c.Args, &in); r != nil {
		return *r, nil
	}
	if len(in.Files) > maxAttributedFiles {
		return tool.Failed("file_paths has %d paths; at most %d are allowed", len(in.Files), maxAttributedFiles), nil
	}
	names := make([]string, 0, len(in.Files))
	for i, name := range in.Files {
		full := name
		if !path.IsAbs(full) {
			full = path.Join(agent.Workspace, name)
		}
		rel, ok := strings.CutPrefix(path.Clean(full), agent.Workspace+"/")
		if name == "" || !ok {
			return tool.Failed("file_paths[%d]: %q is not a file in %s", i, name, agent.Workspace), nil
		}
		names = append(names, rel)
	}
	for i, id := range in.Commits {
		if !shortCommit.MatchString(id) {
			return tool.Failed("commit_hashes[%d]: %q is not a commit id of 7 or more digits", i, id), nil
		}
	}
	if read == nil {
		return tool.Failed("not available: %s", c.Name), nil
	}
	lines, err := read(ctx, s, names)
	if cause := context.Cause(ctx); cause != nil {
		return tool.Result{}, cause
	}
	if err != nil {
		return tool.Failed("Nothing was found out: %s", fault.Of(err).Message), nil
	}
	if len(in.Commits) > 0 {
		lines = slices.DeleteFunc(lines, func(l tool.Attributed) bool {
			return !slices.ContainsFunc(in.Commits, func(id string) bool {
				return strings.HasPrefix(l.Commit, id) || strings.HasPrefix(id, l.Commit)
			})
		})
	}
	return attributed(lines)
}

// attributed returns the result for the model.
func attributed(lines []tool.Attributed) (tool.Result, error) {
	if len(lines) == 0 {
		return tool.Result{Text: "There are no such lines in what has been pushed.", Output: json.RawMessage(`{"success":{}}`)}, nil
	}
	var b strings.Builder
	left := max(0, len(lines)-maxAttributedLines)
	lines = lines[:len(lines)-left]
	last := ""
	for _, l := range lines {
		if l.Path != last {
			fmt.Fprintf(&b, "%q\n", l.Path)
			last = l.Path
		}
		fmt.Fprintf(&b, "  %d-%d commit %s", l.First, l.Last, l.Commit)
		if l.AgentID != "" {
			fmt.Fprintf(&b, " agent %s run %s", l.AgentID, l.RunID)
		}
		b.WriteString("\n")
	}
	if left > 0 {
		fmt.Fprintf(&b, "[%d more ranges were left out: name fewer files or commits]\n", left)
	}
	output, err := json.Marshal(map[string]any{"success": map[string]any{"lines": lines}})
	return tool.Result{Text: b.String(), Output: output}, err
}
