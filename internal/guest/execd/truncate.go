package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"aloft/internal/guest/tool"
	"aloft/internal/text"
	"aloft/internal/wire/agentv1"
)

// resultThreshold is the longest result for the model, in bytes. It equals the limit of
// Shell and Grep, about 8000 tokens, plus space for their notes. It is far below the
// protocol's limit, because the model reads a result again in each turn.
const resultThreshold = 32 << 10

// shownOfLong is how much of a longer result is shown, the same as in Shell.
const shownOfLong = 30_000

// maxKept is the longest result that is saved in a file, in bytes.
const maxKept = 64 << 20

// truncated saves a result that is too long for the model's context to a file in dir. It
// replaces the result, in the stream and for the model, by a TruncatedToolCall with the
// beginning, the end, and instructions for reading the rest. If dir is empty, the middle
// is lost, and the result says so. truncated does not change the results of tools with a
// limit of their own, such as Shell.
func truncated(t tool.Tool, dir string) tool.Tool {
	if t.Bounded {
		return t
	}
	run := t.Run
	t.Run = func(ctx context.Context, call *agentv1.ToolCall, emit tool.Emit) tool.Outcome {
		out := run(ctx, call, emit)
		if len(out.Text) <= resultThreshold {
			return out
		}
		text := strings.ToValidUTF8(out.Text, "\uFFFD")
		s := &agentv1.TruncatedSuccess{Tool: t.Name, SizeBytes: float64(len(text)), Lines: int32(min(1+strings.Count(text, "\n"), 1<<31-1))}
		s.Head, s.Tail = bothEnds(text)
		how := "the rest could not be saved to a file"
		if path, err := keepResult(dir, text); err == nil {
			s.Path = path
			how = fmt.Sprintf("all of it, %d bytes in %d lines, is in %s: Read it with offset and limit, or Grep in it", len(text), s.GetLines(), path)
		}
		out.Text = fmt.Sprintf("%s\n[… %d bytes left out: the result is too long; %s …]\n%s",
			s.GetHead(), len(text)-len(s.GetHead())-len(s.GetTail()), how, s.GetTail())
		if out.Error {
			out.Call = failed(call, out.Text)
			return out
		}
		done := &agentv1.TruncatedToolCall{Result: &agentv1.TruncatedResult{Result: &agentv1.TruncatedResult_Success{Success: s}}}
		out.Call = &agentv1.ToolCall{Tool: &agentv1.ToolCall_TruncatedToolCall{TruncatedToolCall: done}}
		return out
	}
	return t
}

// bothEnds returns the beginning and the end of a text, in complete lines if
// lines are short.
func bothEnds(s string) (head, tail string) {
	const half = shownOfLong / 2
	const slack = half / 4 // how many bytes may be dropped to end at a complete line
	head = text.Head(s, half)
	if at := strings.LastIndexByte(head, '\n'); at > half-slack {
		head = head[:at+1]
	}
	from := len(s) - half
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	tail = s[from:]
	if at := strings.IndexByte(tail, '\n'); at >= 0 && at < slack {
		tail = tail[at+1:]
	}
	return head, tail
}

// keepResult saves a result to a new file and returns its path.
func keepResult(dir, result string) (path string, err error) {
	if dir == "" {
		return "", errors.New("no folder for results is configured")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("save a result: %w", err)
	}
	f, err := os.CreateTemp(dir, "result-*.txt")
	if err != nil {
		return "", fmt.Errorf("save a result: %w", err)
	}
	_, err = f.WriteString(text.Head(result, maxKept))
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is reported
		return "", fmt.Errorf("save a result: %w", err)
	}
	return f.Name(), nil
}
