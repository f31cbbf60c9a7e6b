package execd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

// resultThreshold is how long a result, in bytes, may be as the model reads it:
// what Shell and Grep keep themselves to, about 8000 tokens, with room for their
// notes. It is far below what the wire would take, since the model reads a result
// again at each of its turns.
const resultThreshold = 32 << 10

// shownOfLong is what is shown of a longer result: as much as Shell shows.
const shownOfLong = 30_000

// maxKept bounds, in bytes, a result that is kept in a file.
const maxKept = 64 << 20

// truncated puts a result that is too long for the model's context into a file,
// and in its place, in the stream and for the model alike, a TruncatedToolCall:
// the beginning, the end, and how to read the rest. dir is the folder for such
// files; without it the middle is lost, and the result says so. Tools that bound
// their own results are left alone; so are those of a Shell, which writes its
// output to a file as it comes, because it could not be held until the end.
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
		how := "no file could be written to keep the rest"
		if path, err := keepResult(dir, text); err == nil {
			s.Path = path
			how = fmt.Sprintf("the whole, %d bytes in %d lines, is in %s: Read it with offset and limit, or Grep in it", len(text), s.GetLines(), path)
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

// bothEnds are the beginning and the end of a text, in whole lines where lines
// are short.
func bothEnds(text string) (head, tail string) {
	const half = shownOfLong / 2
	const slack = half / 4 // that is given up for a whole line
	head = cut(text, half)
	if at := strings.LastIndexByte(head, '\n'); at > half-slack {
		head = head[:at+1]
	}
	from := len(text) - half
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	tail = text[from:]
	if at := strings.IndexByte(tail, '\n'); at >= 0 && at < slack {
		tail = tail[at+1:]
	}
	return head, tail
}

// keepResult writes a result to a file of its own and returns its path.
func keepResult(dir, text string) (path string, err error) {
	if dir == "" {
		return "", errors.New("there is no folder for results")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("keep a result: %w", err)
	}
	f, err := os.CreateTemp(dir, "result-*.txt")
	if err != nil {
		return "", fmt.Errorf("keep a result: %w", err)
	}
	_, err = f.WriteString(cut(text, maxKept))
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error says more
		return "", fmt.Errorf("keep a result: %w", err)
	}
	return f.Name(), nil
}
