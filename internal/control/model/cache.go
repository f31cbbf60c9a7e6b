package model

import (
	"bytes"
	"encoding/json"
	"slices"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// A Cache holds what a provider made of a conversation for its last request, so that
// the next encodes only what has been said since. It counts on the messages of a
// conversation being only ever added to: those that are the same slices of blocks as
// last time are taken to say the same. It belongs to one conversation, whose requests
// come one after another. A nil Cache keeps nothing.
type Cache struct {
	provider string
	from     []conversation.Message // of the last request, as they came
	to       []conversation.Message // as the provider accepts them; nil unless one for each of from
	called   map[string]bool        // ids of calls in to
	checked  []tool.Spec            // that were found in order
	messages []encoded              // of the first messages in to
	tools    []tool.Spec
	toolJSON []byte
}

// encoded is the JSON of a message, in one of the forms that it may have.
type encoded struct {
	form int
	json []byte
}

// Prepare is [Prepare], for the next request of the conversation.
func (c *Cache) Prepare(provider string, req Request) (Request, error) {
	if c == nil {
		return Prepare(provider, req)
	}
	if !equalSpecs(c.checked, req.Tools) {
		if err := validateTools(req.Tools); err != nil {
			return Request{}, err
		}
		c.checked = slices.Clone(req.Tools)
	}
	start := c.unchanged(provider, req.Messages)
	to := Compatible(provider, req.Messages[start:])
	paired := len(to) == len(req.Messages)-start
	if start > 0 && !paired {
		start, to = 0, Compatible(provider, req.Messages)
		paired = len(to) == len(req.Messages)
	}
	check := validator{called: c.called, at: start}
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
	c.provider, c.called, c.messages = provider, check.called, c.messages[:min(start, len(c.messages))]
	c.from, c.to = req.Messages, nil
	if paired {
		c.to = whole
	}
	req.Messages = whole
	return req, nil
}

// unchanged returns from which message on a request is to be prepared: the ones
// before it are those of the last request, and become what they became then. That
// one is the model's, since what becomes of it depends on none before it.
func (c *Cache) unchanged(provider string, messages []conversation.Message) int {
	if provider != c.provider {
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

// sameMessage reports whether two messages are one: the same blocks at one place.
func sameMessage(a, b conversation.Message) bool {
	return a.Role == b.Role && len(a.Blocks) == len(b.Blocks) && len(a.Blocks) > 0 && &a.Blocks[0] == &b.Blocks[0]
}

func equalSpecs(a, b []tool.Spec) bool {
	return slices.EqualFunc(a, b, func(a, b tool.Spec) bool {
		return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
	})
}

// Encode returns what stands in the body of a request for [MessagesMark] and, where
// there are tools, for [ToolsMark]. req is what Prepare has returned last. message
// makes the JSON of the i-th message, in the form that form says, where nil is the
// same form for all; tools makes that of all tools. Both are elements of an array,
// with commas between them; a message may have none.
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

// Elements returns values as elements of a JSON array, with commas between them.
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

// JSON encodes a value. It escapes nothing for the sake of HTML.
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
