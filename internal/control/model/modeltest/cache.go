package modeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"aloft/internal/control/model"
	"aloft/internal/conversation"
)

// runCache checks that requests with a cache are byte for byte the same as
// requests without it, while a conversation grows, is rewound, and is
// compacted.
func runCache(t *testing.T, open opener) {
	s, m := open(t)
	s.Answer(func(int, Request) Reply { return Reply{Text: "ok"} })
	sent := func(req model.Request) []string {
		before := len(s.Requests())
		collect(t, m, req)
		var bodies []string
		for _, r := range s.Requests()[before:] {
			bodies = append(bodies, string(r.Body))
		}
		return bodies
	}
	rapid.Check(t, func(t *rapid.T) {
		req := ask("begin")
		cache := &model.Cache{}
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			req.Messages = grown(t, req.Messages, i)
			req.Tools = Tools()[:rapid.SampledFrom([]int{2, 2, 2, 1, 0}).Draw(t, "tools")]
			want := sent(req)
			req.Cache = cache
			got := sent(req)
			req.Cache = nil
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("request %d: %s", i, d)
			}
		}
	})
}

// grown returns a conversation after one more turn, or after another change. It
// does not modify its argument.
func grown(t *rapid.T, messages []conversation.Message, n int) []conversation.Message {
	switch rapid.IntRange(0, 9).Draw(t, "what") {
	case 0: // rewound
		messages = slices.Clip(messages[:1+2*rapid.IntRange(0, (len(messages)-1)/2).Draw(t, "to")])
	case 1: // compacted
		at := 2 * rapid.IntRange(0, (len(messages)-1)/2).Draw(t, "from")
		messages = slices.Concat([]conversation.Message{conversation.Text(conversation.User, fmt.Sprint("summary ", n))}, messages[at+1:])
	case 2: // another message from the user
		last := messages[len(messages)-1]
		last.Blocks = slices.Concat(last.Blocks, []conversation.Block{{Text: fmt.Sprint("more ", n)}})
		messages = append(slices.Clip(messages[:len(messages)-1]), last)
	}
	if len(messages)%2 == 0 { // the last message must be the user's
		messages = append(slices.Clip(messages), conversation.Text(conversation.User, "go on"))
	}
	reply := conversation.Message{Role: conversation.Assistant}
	answer := conversation.Message{Role: conversation.User}
	for _, provider := range rapid.SliceOfN(rapid.SampledFrom([]string{"anthropic", "openai", "openai-chat", "google"}), 0, 2).Draw(t, "thoughts") {
		reply.Blocks = append(reply.Blocks, conversation.Block{Thinking: &conversation.Thinking{Text: "hm", Provider: provider, Opaque: "b3BhcXVl"}})
	}
	if text := rapid.SampledFrom([]string{"", " ", "I look.", "\xff"}).Draw(t, "text"); text != "" {
		reply.Blocks = append(reply.Blocks, conversation.Block{Text: text})
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		id := fmt.Sprintf("call_%d_%d", n, i)
		reply.Blocks = append(reply.Blocks, conversation.Block{Call: &conversation.ToolCall{ID: id, Name: "Read", Args: json.RawMessage(`{"path":"a"}`)}})
		result := &conversation.ToolResult{CallID: id, Text: fmt.Sprint("result ", n), Error: i == 1}
		if i == 2 {
			result.Images = []conversation.Image{Pixel}
		}
		answer.Blocks = append(answer.Blocks, conversation.Block{Result: result})
	}
	if len(answer.Blocks) == 0 || rapid.Bool().Draw(t, "notice") {
		answer.Blocks = append(answer.Blocks, conversation.Block{Text: fmt.Sprint("notice ", n)})
	}
	return append(messages, reply, answer)
}
