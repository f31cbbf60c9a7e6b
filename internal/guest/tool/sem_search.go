package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"aloft/internal/guest/file"
	"aloft/internal/guest/search"
	"aloft/internal/wire/agentv1"
)

const (
	maxSearchBytes = 30_000 // of text in one result
	usualResults   = 10
	mostResults    = 50
)

// SemSearch searches code by keywords.
func SemSearch(ws Workspace, index *search.Index) Tool {
	return Tool{Name: "SemSearch", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, err := semSearch(ctx, ws, index, call.GetSemSearchToolCall().GetArgs())
		result := &agentv1.SemSearchResult{Result: &agentv1.SemSearchResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.SemSearchResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.SemSearchToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_SemSearchToolCall{SemSearchToolCall: done}}, text, err)
	}}
}

func semSearch(ctx context.Context, ws Workspace, index *search.Index, args *agentv1.SemSearchArgs) (*agentv1.SemSearchSuccess, string, error) {
	if args.GetQuery() == "" {
		return nil, "", errors.New("query is empty: describe the code in a few words")
	}
	unseen := file.NewUnseen(ws.Dir)
	q := search.Query{
		Text: args.GetQuery(), Results: usualResults,
		Hidden: func(name string) bool { return unseen.Covers(name, false) != "" },
	}
	if args.NumResults != nil {
		if q.Results = int(args.GetNumResults()); q.Results < 1 || q.Results > mostResults {
			return nil, "", fmt.Errorf("num_results is %d: give a number from 1 to %d", q.Results, mostResults)
		}
	}
	for _, name := range args.GetTargetDirectories() {
		path, err := ws.path(name)
		if err != nil {
			return nil, "", err
		}
		if _, err := os.Stat(path); err != nil {
			return nil, "", file.Explain(path, err)
		}
		if path != ws.Dir && ws.relative(path) == path {
			return nil, "", fmt.Errorf("%s is not in %s, and only that folder is indexed: use Grep", path, ws.Dir)
		}
		q.Folders = append(q.Folders, path)
	}
	answer, err := index.Search(ctx, q)
	if err != nil {
		return nil, "", err
	}
	success := &agentv1.SemSearchSuccess{Files: clampInt32(answer.Files), Notes: answer.Notes}
	var b strings.Builder
	for _, r := range answer.Results {
		piece := pieceText(r)
		if b.Len()+len(piece) > maxSearchBytes {
			fmt.Fprintf(&b, "[%d more results were left out; ask for fewer, or narrow target_directories]\n", len(answer.Results)-len(success.Results))
			break
		}
		b.WriteString(piece)
		success.Results = append(success.Results, &agentv1.CodeResult{
			Path: valid(r.Path), StartLine: clampInt32(r.StartLine), EndLine: clampInt32(r.EndLine), Score: r.Score, Snippet: r.Snippet, Symbols: r.Symbols,
		})
	}
	if len(answer.Results) == 0 {
		fmt.Fprintf(&b, "No results for %q in %s. Try other words, or Grep for an exact text.\n", valid(args.GetQuery()), plural(int(success.GetFiles()), "file"))
	}
	for _, n := range answer.Notes {
		fmt.Fprintf(&b, "[%s]\n", valid(n))
	}
	return success, b.String(), nil
}

// pieceText formats a result for the model.
func pieceText(r search.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d-%d (%.1f)", oneLine(valid(r.Path)), r.StartLine, r.EndLine, r.Score)
	if len(r.Symbols) > 0 {
		fmt.Fprintf(&b, " defines %s", strings.Join(r.Symbols, ", "))
	}
	b.WriteString("\n")
	line := r.SnippetLine
	for text := range strings.Lines(r.Snippet) {
		fmt.Fprintf(&b, "%6d|%s\n", line, strings.TrimRight(text, "\r\n"))
		line++
	}
	b.WriteString("\n")
	return b.String()
}
