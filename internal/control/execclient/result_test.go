package execclient

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"

	"aloft/internal/wire/agentv1"
)

// FuzzResult has a machine return arbitrary data for a call. The result must be
// bounded, and its output must be valid JSON.
func FuzzResult(f *testing.F) {
	for _, done := range []*agentv1.ExecCompleted{
		{},
		{Text: "a\xffb", IsError: true},
		{Text: "x", Pictures: []*agentv1.Picture{{MediaType: "image/png", Data: []byte("x")}, {MediaType: "text/html"}}},
		{ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{
			Result: &agentv1.ShellResult{Result: &agentv1.ShellResult_Success{Success: &agentv1.ShellSuccess{Stdout: "out", OutputBytes: -1}}}}}}},
		{ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_GrepToolCall{}}},
	} {
		wire, err := proto.Marshal(done)
		if err == nil { // invalid UTF-8 cannot be sent
			f.Add(wire)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var done agentv1.ExecCompleted
		if proto.Unmarshal(wire, &done) != nil {
			return
		}
		r := resultOf(&done)
		if !json.Valid(r.Output) || len(r.Output) > maxJSON || len(r.Text) > maxText+1000 || len(r.Images) > maxPictures {
			t.Errorf("%d bytes of text, %d pictures, output %.200s", len(r.Text), len(r.Images), r.Output)
		}
	})
}
