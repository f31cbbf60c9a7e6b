package compact

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aloft/internal/agent"
	"aloft/internal/conversation"
)

// mark is an upper bound, in bytes, for the text that [Cut] inserts.
const mark = 60

// TestQuotePrompts checks which prompts a compaction quotes.
func TestQuotePrompts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1000)
	for name, c := range map[string]struct {
		asked []string
		room  int
		want  string // each x… is a prompt of the length that follows the x
	}{
		"None":         {nil, 100, ""},
		"All":          {[]string{"a", "b", "c"}, 100, "1:a 2:b 3:c"},
		"MiddleOut":    {[]string{"a", long, "c"}, 100, "1:a [requests 2 to 2 omitted] 3:c"},
		"ShortAndLong": {[]string{"a", long}, 100, "1:a 2:x98"},
		"LongAndShort": {[]string{long, "b"}, 100, "1:x98 2:b"},
		"BothLong":     {[]string{long, long}, 100, "1:x50 2:x50"},
		"NoRoom":       {[]string{"a", "b"}, 0, "1: 2:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := digest(quotePrompts(c.asked, c.room)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// digest abbreviates quoted prompts: it returns their numbers and texts, and
// writes x98 for a text of 98 x.
func digest(quoted string) string {
	var out []string
	for part := range strings.SplitSeq(strings.ReplaceAll(quoted, "</request>\n", ""), "<request number=") {
		number, text, ok := strings.Cut(part, ">\n")
		if !ok {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
			continue
		}
		rest := ""
		if i := strings.Index(text, "[requests "); i >= 0 {
			text, rest = text[:i], strings.TrimSpace(text[i:])
		}
		if n := strings.Count(text, "x"); n > 0 {
			text = fmt.Sprint("x", n)
		} else if strings.Contains(text, "left out") {
			text = ""
		}
		out = append(out, strings.Trim(number, `"`)+":"+strings.TrimSpace(text))
		if rest != "" {
			out = append(out, rest)
		}
	}
	return strings.Join(out, " ")
}

// TestQuotedPromptsFit quotes prompts of any length within any size limit. The
// first and the latest prompt must be there, and the result must not exceed the
// limit.
func TestQuotedPromptsFit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 5000)), 1, 8).Draw(t, "lengths")
		room := rapid.IntRange(0, 4000).Draw(t, "room")
		var asked []string
		for _, n := range lengths {
			asked = append(asked, strings.Repeat("x", n))
		}
		got := quotePrompts(asked, room)
		if n := strings.Count(got, "x"); n > room {
			t.Errorf("%d bytes are quoted, more than %d", n, room)
		}
		for _, i := range []int{1, len(asked)} {
			if len(asked[i-1]) > 0 && !strings.Contains(got, fmt.Sprintf("<request number=\"%d\">", i)) {
				t.Errorf("request %d is not quoted: %s", i, digest(got))
			}
		}
	})
}

// TestCut checks Cut with any text and any length.
func TestCut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s, n := rapid.String().Draw(t, "s"), rapid.IntRange(-5, 50).Draw(t, "n")
		switch got := Cut(s, n); {
		case len(s) <= n && got != s:
			t.Errorf("Cut(%q, %d) = %q", s, n, got)
		case len(got) > max(n, 0)+mark:
			t.Errorf("Cut(%q, %d) has %d bytes", s, n, len(got))
		}
	})
}

// TestTail checks that the kept messages of any conversation fit, and that they
// begin with a reply, because providers reject tool results without their
// calls.
func TestTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var messages []conversation.Message
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 400), 2, 12).Draw(t, "lengths") {
			role := conversation.User
			if len(messages)%2 == 1 {
				role = conversation.Assistant
			}
			messages = append(messages, conversation.Text(role, strings.Repeat("x", n)))
		}
		room := rapid.Int64Range(0, 400).Draw(t, "room")
		keep := tail(messages, room)
		var size int64
		for _, m := range messages[len(messages)-keep:] {
			size += estimate(m)
		}
		if size > room {
			t.Errorf("%d messages of %d tokens are kept within %d", keep, size, room)
		}
		if keep > 0 && messages[len(messages)-keep].Role != conversation.Assistant {
			t.Error("the kept messages begin with a user message")
		}
		for more := keep + 1; more < len(messages); more++ { // no message that fits is omitted
			size += estimate(messages[len(messages)-more])
			if size <= room && messages[len(messages)-more].Role == conversation.Assistant {
				t.Errorf("%d messages are kept, but %d fit", keep, more)
			}
		}
	})
}

// TestListTodos checks that completed items are dropped from a todo list first.
func TestListTodos(t *testing.T) {
	t.Parallel()
	todos := []agent.Todo{{ID: "1", Content: "read", Status: "completed"}, {ID: "2", Content: "write", Status: "pending"}, {ID: "3", Content: "test", Status: "in_progress"}}
	for room, want := range map[int]string{
		100: "[completed] 1: read\n[pending] 2: write\n[in_progress] 3: test\n",
		50:  "[pending] 2: write\n[in_progress] 3: test\n[1 of 3 items omitted]\n",
		25:  "[pending] 2: write\n[2 of 3 items omitted]\n",
		0:   "[3 of 3 items omitted]\n",
	} {
		if got := listTodos(todos, room); got != want {
			t.Errorf("within %d: %q, want %q", room, got, want)
		}
	}
}

// TestListFiles checks that the latest files are listed.
func TestListFiles(t *testing.T) {
	t.Parallel()
	for room, want := range map[int]string{
		100: "a\nbb\nccc",
		8:   "[1 files changed earlier are omitted: see `git status`]\nbb\nccc",
		0:   "[3 files changed earlier are omitted: see `git status`]\n",
	} {
		if got := listFiles([]string{"a", "bb", "ccc"}, room); got != want {
			t.Errorf("within %d: %q, want %q", room, got, want)
		}
	}
}

// TestTranscript checks that a transcript has all messages if shorter quotes make them
// fit, and that it never exceeds its size.
func TestTranscript(t *testing.T) {
	t.Parallel()
	var messages []conversation.Message
	for i := range 100 {
		id := fmt.Sprint("call_", i)
		messages = append(messages,
			conversation.Message{Role: conversation.Assistant, Blocks: []conversation.Block{{Text: fmt.Sprintf("step %d.", i)}, {Call: &conversation.ToolCall{ID: id, Name: "Shell", Args: []byte(`{"command":"make"}`)}}}},
			conversation.Message{Role: conversation.User, Blocks: []conversation.Block{{Result: &conversation.ToolResult{CallID: id, Text: "begin " + strings.Repeat("x", 3000) + " end"}}}})
	}
	for _, c := range []struct {
		room, steps int
		part        string // of each result
	}{
		{1 << 20, 100, strings.Repeat("x", 990)},
		{70_000, 100, strings.Repeat("x", 200)},
		{30_000, 100, " end\n"},
		{10_000, 0, ""},
	} {
		got := transcript(messages, c.room)
		if len(got) > c.room+mark {
			t.Errorf("%d bytes in a room of %d", len(got), c.room)
		}
		if n := strings.Count(got, "step "); c.steps > 0 && n != c.steps || strings.Count(got, "[result of Shell] begin") < c.steps {
			t.Errorf("in %d bytes: %d steps", c.room, n)
		}
		if c.part != "" && strings.Count(got, c.part) < 100 {
			t.Errorf("in %d bytes: the results lack %d bytes that fit", c.room, len(c.part))
		}
	}
}
