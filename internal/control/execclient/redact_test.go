package execclient

import (
	"encoding/hex"
	"strings"
	"testing"

	"aloft/internal/conversation"
	"aloft/internal/redact"
	"aloft/internal/wire/agentv1"
)

const key = "sk-the-key-of-a-model"

// The client redacts even if the machine does not.
func TestWhatAMachineSaysIsRedacted(t *testing.T) {
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		for i, text := range []string{"key: sk-the-", "key-of-a", "-model\nand sk-the-"} {
			say(deltaOf(id, uint64(i+1), text))
		}
		say(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: &agentv1.ExecCompleted{
			CallId: id, Text: "text " + key, ToolCall: &agentv1.ToolCall{Tool: &agentv1.ToolCall_ShellToolCall{ShellToolCall: &agentv1.ShellToolCall{
				Result: &agentv1.ShellResult{Result: &agentv1.ShellResult_Success{Success: &agentv1.ShellSuccess{
					Stdout: hex.EncodeToString([]byte(key)), OutputFile: "/tmp/" + key + "\"",
				}}},
			}}},
		}}})
		return nil
	}, Redact(redact.New(map[string]string{"models[0].api_key": key})))
	var heard strings.Builder
	res, _, err := e.Call(t.Context(), conversation.ToolCall{ID: "c1", Name: "Shell", Args: []byte(`{"command":"env"}`)}, func(d Delta) {
		heard.WriteString(d.Stdout)
	})
	// If the two halves of a secret arrive far apart, the first half is output
	// if it is too short to count as a secret.
	if got := strings.Replace(heard.String(), "sk-the-[", "[", 1); err != nil || got != "key: [REDACTED]\nand sk-the-" {
		t.Errorf("heard %q, %v", heard.String(), err)
	}
	if res.Text != "text [REDACTED]" || !strings.Contains(string(res.Output), `"stdout":"[REDACTED]"`) ||
		!strings.Contains(string(res.Output), `"outputFile":"/tmp/[REDACTED]\""`) {
		t.Errorf("the result is %s %s", res.Text, res.Output)
	}
}

// Text that might be the beginning of a secret is output after a while if
// nothing follows.
func TestTheEndOfAnIdleLineIsHeard(t *testing.T) {
	shown := make(chan struct{})
	e := execTo(t, usualHello, func(id string, say func(*agentv1.ExecServerElement)) error {
		say(deltaOf(id, 1, "Continue? s"))
		<-shown
		say(&agentv1.ExecServerElement{Element: &agentv1.ExecServerElement_Completed{Completed: &agentv1.ExecCompleted{CallId: id}}})
		return nil
	}, Redact(redact.New(map[string]string{"k": key})))
	var heard strings.Builder
	_, _, err := e.Call(t.Context(), conversation.ToolCall{ID: "c1", Name: "Shell", Args: []byte(`{"command":"ask"}`)}, func(d Delta) {
		heard.WriteString(d.Stdout)
		if strings.HasSuffix(heard.String(), "? s") {
			close(shown)
		}
	})
	if err != nil || heard.String() != "Continue? s" {
		t.Errorf("heard %q, %v", heard.String(), err)
	}
}
