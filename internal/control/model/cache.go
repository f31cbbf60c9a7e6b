package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A Cache holds a provider's encoding of a conversation from its last request,
// so that the next request only encodes new messages. It relies on
// conversations being append-only: messages that share their slices of blocks
// with the last request count as unchanged. A Cache belongs to one
// conversation, whose requests are sequential. A nil Cache stores nothing.
type Cache struct {
	provider string
	name     string                 // name of the model
	from     []conversation.Message // messages of the last request, as given
	to       []conversation.Message // from, as the provider accepts it; nil unless each message corresponds to one in from
	called   map[string]bool        // ids of the calls in to
	checked  []tool.Spec            // tools that were found valid
	messages []encoded              // encodings of the first messages in to
	tools    []tool.Spec
	toolJSON []byte
}

// encoded is the JSON of a message in one of its possible forms.
type encoded struct {
	form int
	json []byte
}

// Prepare is like the function [Prepare], for the conversation's next request.
func (c *Cache) Prepare(provider, name string, req Request) (Request, error) {
	if c == nil {
		return Prepare(provider, name, req)
	}
	if !equalSpecs(c.checked, req.Tools) {
		if err := validateTools(req.Tools); err != nil {
			return Request{}, err
		}
		c.checked = slices.Clone(req.Tools)
	}
	start := c.unchanged(provider, name, req.Messages)
	to := Compatible(provider, name, req.Messages[start:])
	paired := len(to) == len(req.Messages)-start
	if start > 0 && !paired {
		start, to = 0, Compatible(provider, name, req.Messages)
		paired = len(to) == len(req.Messages)
	}
	check := validator{called: c.called, first: start}
	if start == 0 {
		check.called = map[string]bool{}
	} else {
		for _, m := range c.to[start:] {
			for _, call := range m.Calls() {
				delete(check.called, call.ID)
			}
		}
	}
	whole := slices.Concat(c.to[:start], to)
	if err := check.messages(whole); err != nil {
		*c = Cache{}
		return Request{}, err
	}
	c.provider, c.name, c.called, c.messages = provider, name, check.called, c.messages[:min(start, len(c.messages))]
	c.from, c.to = req.Messages, nil
	if paired {
		c.to = whole
	}
	req.Messages = whole
	return req, nil
}

// unchanged returns the index of the first message that must be prepared again.
// The earlier messages are the same as in the last request. The first message
// to prepare is always the model's, because preparing it does not depend on the
// messages before it.
func (c *Cache) unchanged(provider, name string, messages []conversation.Message) int {
	if provider != c.provider || name != c.name {
		return 0
	}
	n := 0
	for n < min(len(messages), len(c.to)) && sameMessage(messages[n], c.from[n]) {
		n++
	}
	for n--; n > 0; n-- {
		if messages[n].Role == conversation.Assistant && messages[n-1].Role == conversation.User {
			return n
		}
	}
	return 0
}

// sameMessage reports whether two messages share the same slice of blocks.
func sameMessage(a, b conversation.Message) bool {
	return a.Role == b.Role && len(a.Blocks) == len(b.Blocks) && len(a.Blocks) > 0 && &a.Blocks[0] == &b.Blocks[0]
}

func equalSpecs(a, b []tool.Spec) bool {
	return slices.EqualFunc(a, b, func(a, b tool.Spec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	})
}

// Encode returns the values for [MessagesMark] and, if there are tools,
// [ToolsMark] in the body of a request. req must be the last result of Prepare.
// message encodes the i-th message in the form that the function form returns;
// if form is nil, there is only one form. tools encodes all tools. Both return
// elements of an array, separated by commas; a message may have none.
func (c *Cache) Encode(req Request, form func(i int) int, message func(i int) ([]byte, error), tools func() ([]byte, error)) (Splice, error) {
	messages, err := c.encodeMessages(req, form, message)
	if err != nil {
		return nil, err
	}
	s := Splice{MessagesMark: messages}
	if len(req.Tools) > 0 {
		text, err := c.encodeTools(req.Tools, tools)
		if err != nil {
			return nil, err
		}
		s[ToolsMark] = [][]byte{text}
	}
	return s, nil
}

// Elements encodes values as the elements of a JSON array, separated by commas.
func Elements[T any](values []T) ([]byte, error) {
	var out []byte
	for i, v := range values {
		text, err := JSON(v)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, text...)
	}
	return out, nil
}

// JSON encodes a value without escaping for HTML.
func JSON(v any) ([]byte, error) {
	if m, ok := v.(json.Marshaler); ok {
		return m.MarshalJSON()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (c *Cache) encodeMessages(req Request, form func(i int) int, encode func(i int) ([]byte, error)) ([][]byte, error) {
	out := make([][]byte, len(req.Messages))
	kept := 0
	if c != nil {
		kept = len(c.messages)
		c.messages = slices.Grow(c.messages, len(out)-kept)[:len(out)]
	}
	for i := range out {
		f := 0
		if form != nil {
			f = form(i)
		}
		if i < kept && c.messages[i].form == f {
			out[i] = c.messages[i].json
			continue
		}
		var err error
		if out[i], err = encode(i); err != nil {
			return nil, err
		}
		if c != nil {
			c.messages[i] = encoded{f, out[i]}
		}
	}
	return out, nil
}

func (c *Cache) encodeTools(specs []tool.Spec, encode func() ([]byte, error)) ([]byte, error) {
	if c != nil && c.toolJSON != nil && equalSpecs(c.tools, specs) {
		return c.toolJSON, nil
	}
	text, err := encode()
	if err == nil && c != nil {
		c.tools, c.toolJSON = slices.Clone(specs), text
	}
	return text, err
}
