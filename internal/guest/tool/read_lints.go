package tool

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/guest/lsp"
	"aloft/internal/wire/agentv1"
)

const maxLintBytes = 30_000 // of text in one result

// ReadLints gets diagnostics from the machine's linters.
func ReadLints(ws Workspace, linters *lsp.Pool) Tool {
	return Tool{Name: "ReadLints", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := readLints(ctx, ws, linters, call.GetReadLintsToolCall())
		result := &agentv1.ReadLintsResult{Result: &agentv1.ReadLintsResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.ReadLintsResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.ReadLintsToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_ReadLintsToolCall{ReadLintsToolCall: done}}, text, err)
	}}
}

func readLints(ctx context.Context, ws Workspace, linters *lsp.Pool, call *agentv1.ReadLintsToolCall) (*agentv1.ReadLintsSuccess, string, error) {
	if call.GetArgs() == nil {
		return nil, "", errNoArguments
	}
	var paths []string
	for _, name := range call.GetArgs().GetPaths() {
		path, err := ws.path(name)
		if err != nil {
			return nil, "", err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, "", file.Explain(path, err)
		}
		paths = append(paths, path)
	}
	unseen := file.NewUnseen(ws.Dir)
	report, err := linters.Lint(ctx, paths, func(path string) bool { return unseen.Check(path) != nil })
	if err != nil {
		return nil, "", err
	}
	success := &agentv1.ReadLintsSuccess{Total: int32(report.Total), Files: int32(report.Files), Sources: report.Sources}
	for _, note := range report.Notes {
		success.Notes = append(success.Notes, valid(note))
	}
	for _, d := range report.Diagnostics {
		success.Lints = append(success.Lints, &agentv1.Lint{
			Path:      valid(ws.relative(d.Path)),
			StartLine: clampInt32(d.StartLine), StartColumn: clampInt32(d.StartColumn), EndLine: clampInt32(d.EndLine), EndColumn: clampInt32(d.EndColumn),
			Severity: agentv1.LintSeverity(d.Severity), Source: d.Source, Code: d.Code, Message: d.Message,
		})
	}
	return success, lintText(success, len(paths) == 0), nil
}

// lintText formats diagnostics for the model. It truncates s.Lints to those
// that it shows.
func lintText(s *agentv1.ReadLintsSuccess, changed bool) string {
	var b strings.Builder
	shown := 0
	for _, l := range s.GetLints() {
		code := ""
		if l.GetCode() != "" {
			code = " " + l.GetCode()
		}
		severity := lsp.Severity(l.GetSeverity())
		line := fmt.Sprintf("%s:%d:%d: %s: %s [%s%s]\n", oneLine(l.GetPath()), l.GetStartLine(), l.GetStartColumn(), severity,
			strings.ReplaceAll(l.GetMessage(), "\n", "\n    "), l.GetSource(), code)
		if b.Len()+len(line) > maxLintBytes {
			break
		}
		b.WriteString(line)
		shown++
	}
	s.Lints = s.GetLints()[:shown]
	files := plural(int(s.GetFiles()), "file")
	if changed {
		files += " changed since the work began"
	}
	switch {
	case s.GetFiles() == 0 && changed:
		b.WriteString("No file that a linter supports has changed since the work began. To check other files, name them in paths.\n")
	case s.GetFiles() == 0:
		b.WriteString("No linter supports any of the named files.\n")
	case len(s.GetSources()) == 0:
		fmt.Fprintf(&b, "Nothing was checked: no linter ran for %s.\n", files)
	case s.GetTotal() == 0:
		fmt.Fprintf(&b, "No problems in %s (checked by %s).\n", files, strings.Join(s.GetSources(), ", "))
	default:
		which := ""
		if int(s.GetTotal()) > shown {
			which = fmt.Sprintf("; the %d most severe are shown, name fewer files to see the others", shown)
		}
		fmt.Fprintf(&b, "[%s in %s, by %s%s]\n", plural(int(s.GetTotal()), "problem"), files, strings.Join(s.GetSources(), ", "), which)
	}
	for _, n := range s.GetNotes() {
		fmt.Fprintf(&b, "[%s]\n", n)
	}
	return b.String()
}

func clampInt32(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// relative returns a path as results show it: relative to the workspace if it
// is inside.
func (w Workspace) relative(path string) string {
	if rel, err := filepath.Rel(w.Dir, path); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
		return rel
	}
	return path
}
