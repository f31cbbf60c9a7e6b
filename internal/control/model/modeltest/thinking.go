package modeltest

import (
	"encoding/json"
	"strings"
	"testing"

	"aloft/internal/conversation"
)

// stored returns m after encoding and decoding, as a journal would.
func stored(t *testing.T, m conversation.Message) conversation.Message {
	t.Helper()
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back conversation.Message
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// runThinking tests conversations with a model that reasons.
func runThinking(t *testing.T, p Provider, open opener) {
	const thought = "The user wants the file; I should read it."
	t.Run("GivenBackUnchanged", func(t *testing.T) {
		s, m := open(t, Reply{Thinking: thought, Text: "Reading.", Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}}}, Reply{Text: "done"})
		req := ask("read a")
		r := replied(t, m, req)
		if r.thinking != thought {
			t.Errorf("thinking %q", r.thinking)
		}
		if r.text != "Reading." || strings.Contains(r.reply.Message.PlainText(), thought) {
			t.Errorf("the reasoning is among the words: %q", r.reply.Message.PlainText())
		}
		req.Messages = append(req.Messages, stored(t, r.reply.Message), answers(r.reply.Message, "text", false))
		replied(t, m, req) // the server checks the signature
		if back := strings.Contains(string(s.Requests()[1].Body), sign(thought)) ||
			strings.Contains(string(s.Requests()[1].Body), thought); back != p.KeepsThinking {
			t.Errorf("given back: %v, want %v", back, p.KeepsThinking)
		}
		if refused := s.Refusals(); len(refused) > 0 {
			t.Errorf("refused: %q", refused)
		}
	})
	t.Run("ReasoningOfAnotherModelIsLeftOut", func(t *testing.T) {
		_, m := open(t, Reply{Thinking: "foreign thought", Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}}})
		req := ask("read a")
		said := stored(t, replied(t, m, req).reply.Message)
		for i := range said.Blocks {
			if b := said.Blocks[i].Thinking; b != nil {
				b.Model = "another-model"
			}
		}
		s, m := open(t, Reply{Text: "ok"}) // a server that has issued no reasoning
		req.Messages = append(req.Messages, said, answers(said, "text", false))
		replied(t, m, req)
		if refused := s.Refusals(); len(refused) > 0 || strings.Contains(string(s.Requests()[0].Body), "foreign") {
			t.Errorf("reasoning of another model was sent; refused: %q", refused)
		}
	})
	// The conversation has a turn with several calls, each after some
	// reasoning, a question of the user, and a second turn. Clients give the
	// calls their own ids.
	t.Run("Conversation", func(t *testing.T) {
		s, m := open(t,
			Reply{Thinking: "First a.", Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}}},
			Reply{Thinking: "Then b, and c.", Redacted: "a secret", Text: "And now:", Calls: []Call{{Name: "Read", Args: `{"path":"b"}`}, {Name: "Shell", Args: `{"path":"c"}`}}},
			Reply{Calls: []Call{{Name: "Shell", Args: `{"path":"d"}`}}}, // not every reply has reasoning
			Reply{Thinking: "That is all.", Text: "Done."},
			Reply{Thinking: "Once more.", Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}}},
			Reply{Text: "Done again."})
		req := ask("read them")
		for turn := range 2 {
			for i := 0; ; i++ {
				r := replied(t, m, req)
				said := stored(t, r.reply.Message)
				for j := range said.Blocks {
					if c := said.Blocks[j].Call; c != nil {
						c.ID = strings.Join([]string{"own", string(rune('a' + turn)), string(rune('a' + i)), string(rune('a' + j))}, "_")
					}
				}
				req.Messages = append(req.Messages, said)
				if len(said.Calls()) == 0 {
					break
				}
				req.Messages = append(req.Messages, answers(said, "text", false))
			}
			req.Messages = append(req.Messages, conversation.Text(conversation.User, "again"))
		}
		if n, refused := len(s.Requests()), s.Refusals(); n != 6 || len(refused) > 0 {
			t.Errorf("%d requests, refused: %q", n, refused)
		}
	})
	// A provider may reject reasoning because it comes from another account, or
	// because the earlier conversation was compacted.
	t.Run("WhatIsRefusedIsLeftOut", func(t *testing.T) {
		_, m := open(t, Reply{Thinking: thought, Calls: []Call{{Name: "Read", Args: `{"path":"a"}`}}})
		req := ask("read a")
		said := replied(t, m, req).reply.Message
		want := 0 // 0 if the client sends no reasoning back
		for i := range said.Blocks {
			if b := said.Blocks[i].Thinking; b != nil {
				was := b.Opaque
				for _, words := range []string{thought, "rs_000000" + thought, "Read"} {
					b.Opaque = strings.ReplaceAll(b.Opaque, sign(words), sign("foreign"))
				}
				if b.Opaque != was {
					want = 1
				}
			}
		}
		s, m := open(t, Reply{Text: "done"}) // another server, which has issued no reasoning
		req.Messages = append(req.Messages, said, answers(said, "text", false))
		if r := replied(t, m, req); r.text != "done" {
			t.Errorf("it says %q", r.text)
		}
		if refused := s.Refusals(); len(refused) != want {
			t.Errorf("refused %d times, want %d: %q", len(refused), want, refused)
		}
	})
}
