package draft

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/conversation"
)

// Arguments of many values are kept as text: decoding them would take many times their
// size in memory.
func TestArgumentsOfManyValues(t *testing.T) {
	list := func(n int) json.RawMessage {
		return json.RawMessage(`{"todos":[` + strings.Repeat("{},", n-1) + "{}]}")
	}
	blocks := []conversation.Block{{Call: &conversation.ToolCall{Name: "TodoWrite", Args: list(1000)}}, {Call: &conversation.ToolCall{Name: "TodoWrite", Args: list(100_000)}}}
	Adopt(blocks, "call_1")
	if NotObject(blocks[0].Call.Args) || !NotObject(blocks[1].Call.Args) {
		t.Errorf("arguments of 1,000 values are refused: %v; of 100,000: %v", NotObject(blocks[0].Call.Args), NotObject(blocks[1].Call.Args))
	}
}
