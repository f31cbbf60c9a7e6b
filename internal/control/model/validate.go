package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Prepare returns req in the form that the named model of the provider accepts,
// see [Compatible], or the [BadRequest] with which the provider would reject
// it. All providers call it, so that our mistakes are found even if the real
// provider is lenient.
func Prepare(provider, name string, req Request) (Request, error) {
	req.Messages = Compatible(provider, name, req.Messages)
	if err := Validate(req); err != nil {
		return Request{}, err
	}
	return req, nil
}

// Validate returns a [BadRequest] if providers would reject req. It does not
// modify req.
func Validate(req Request) error {
	if err := validateTools(req.Tools); err != nil {
		return err
	}
	check := validator{called: map[string]bool{}}
	return check.messages(req.Messages)
}

func refuse(format string, args ...any) *Error {
	return &Error{Reason: BadRequest, Message: fmt.Sprintf(format, args...)}
}

const toolName = "^[a-zA-Z][a-zA-Z0-9_-]{0,63}$" // the pattern in the providers' error messages

func isToolName(s string) bool { return isWord(s, 64) && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') }

// isWord reports whether s consists of characters that are allowed in names and
// ids, and is not empty or longer than the limit. It is called for every call
// of a conversation in every turn, so it avoids regular expressions.
func isWord(s string, most int) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func validateTools(tools []tool.Spec) error {
	seen := map[string]bool{}
	for i, t := range tools {
		if !isToolName(t.Name) {
			return refuse("tools[%d]: name %q does not match %s", i, t.Name, toolName)
		}
		if seen[t.Name] {
			return refuse("tools[%d]: duplicate name %q", i, t.Name)
		}
		seen[t.Name] = true
		var schema struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(t.Schema, &schema); err != nil || schema.Type != "object" {
			return refuse(`tools[%d]: the schema of %q is not of type "object"`, i, t.Name)
		}
	}
	return nil
}

// validator checks the messages of a conversation, starting at first.
type validator struct {
	called map[string]bool // ids of calls in the earlier messages
	first  int             // index of the first message to check; earlier messages are valid
}

// messages validates messages and records their calls.
func (v *validator) messages(messages []conversation.Message) error {
	if len(messages) == 0 {
		return refuse("messages: must not be empty")
	}
	if messages[0].Role != conversation.User {
		return refuse("messages[0]: the first message must be the user's")
	}
	var waiting []string // calls of the previous message
	for i := v.first; i < len(messages); i++ {
		m := messages[i]
		if m.Role != conversation.User && m.Role != conversation.Assistant {
			return refuse("messages[%d]: role %q", i, m.Role)
		}
		if i > 0 && messages[i-1].Role == m.Role {
			return refuse("messages[%d]: two consecutive messages of the %s", i, m.Role)
		}
		if len(m.Blocks) == 0 {
			return refuse("messages[%d]: must not be empty", i)
		}
		var calls []string
		for j, b := range m.Blocks {
			at := blockIndex{i, j}
			if err := validateBlock(at, m.Role, b); err != nil {
				return err
			}
			switch {
			case b.Call != nil:
				if v.called[b.Call.ID] {
					return refuse("%s: duplicate call id %q", at, b.Call.ID)
				}
				v.called[b.Call.ID] = true
				calls = append(calls, b.Call.ID)
			case b.Result != nil:
				k := slices.Index(waiting, b.Result.CallID)
				if k < 0 {
					return refuse("%s: result of %q, which the previous message does not call", at, b.Result.CallID)
				}
				waiting = slices.Delete(waiting, k, k+1)
			}
		}
		if len(waiting) > 0 {
			return refuse("messages[%d]: no result for the call %q", i, waiting[0])
		}
		waiting = calls
	}
	if messages[len(messages)-1].Role != conversation.User {
		return refuse("messages: the last message must be the user's")
	}
	return nil
}

// blockIndex is the position of a block, formatted only for an error.
type blockIndex struct{ message, block int }

func (p blockIndex) String() string {
	return fmt.Sprintf("messages[%d].blocks[%d]", p.message, p.block)
}

func validateBlock(at blockIndex, role conversation.Role, b conversation.Block) error {
	set := 0
	for _, is := range [...]bool{b.Text != "", b.Image != nil, b.Thinking != nil, b.Call != nil, b.Result != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return refuse("%s: %d parts in one block", at, set)
	case b.Call != nil && !isToolName(b.Call.Name):
		return refuse("%s: tool name %q does not match %s", at, b.Call.Name, toolName)
	case (b.Call != nil || b.Thinking != nil) && role != conversation.Assistant,
		(b.Result != nil || b.Image != nil) && role != conversation.User:
		return refuse("%s: not allowed for the role %s", at, role)
	case b.Image != nil:
		return validateImage(at, *b.Image)
	case b.Result != nil:
		for _, img := range b.Result.Images {
			if err := validateImage(at, img); err != nil {
				return err
			}
		}
	}
	return nil
}

func validateImage(at blockIndex, img conversation.Image) error {
	switch img.MediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return refuse("%s: image of type %q; must be png, jpeg, gif or webp", at, img.MediaType)
	}
	if len(img.Data) == 0 {
		return refuse("%s: the image is empty", at)
	}
	return nil
}
