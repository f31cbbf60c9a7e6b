package model

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

func message(role conversation.Role, blocks ...conversation.Block) conversation.Message {
	return conversation.Message{Role: role, Blocks: blocks}
}

func call(id string) conversation.Block {
	return conversation.Block{Call: &conversation.ToolCall{ID: id, Name: "Read", Args: json.RawMessage("{}")}}
}

func result(id string) conversation.Block {
	return conversation.Block{Result: &conversation.ToolResult{CallID: id, Text: "ok"}}
}

func textBlock(s string) conversation.Block { return conversation.Block{Text: s} }

func thought(provider, opaque string) conversation.Block {
	return conversation.Block{Thinking: &conversation.Thinking{Text: "t", Provider: provider, Opaque: opaque}}
}

const (
	user      = conversation.User
	assistant = conversation.Assistant
)

func TestCompatible(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want []conversation.Message
	}{
		{"EmptyTextsAreDropped",
			[]conversation.Message{message(user, textBlock("a"), textBlock(""), textBlock(" \n")), message(assistant, textBlock("\t")), message(user, textBlock("b"))},
			[]conversation.Message{message(user, textBlock("a"), textBlock("b"))}},
		{"ForeignThinkingIsDropped",
			[]conversation.Message{message(user, textBlock("a")), message(assistant, thought("x", "s"), thought("y", "s"), thought("x", ""), textBlock("b")), message(user, textBlock("c"))},
			[]conversation.Message{message(user, textBlock("a")), message(assistant, thought("x", "s"), textBlock("b")), message(user, textBlock("c"))}},
		{"ThinkingThatNothingFollowsIsDropped",
			[]conversation.Message{message(user, textBlock("a")), message(assistant, thought("x", "s")), message(user, textBlock("c"))},
			[]conversation.Message{message(user, textBlock("a"), textBlock("c"))}},
		{"NeighboursAreJoined",
			[]conversation.Message{message(user, textBlock("a")), message(user, textBlock("b")), message(assistant, textBlock("c")), message(assistant, call("c1")), message(user, result("c1")), message(user, textBlock("d"))},
			[]conversation.Message{message(user, textBlock("a"), textBlock("b")), message(assistant, textBlock("c"), call("c1")), message(user, result("c1"), textBlock("d"))}},
		{"OrphansAreDroppedAndResultsComeFirst",
			[]conversation.Message{message(user, textBlock("a"), result("c0")), message(assistant, call("c1")), message(user, textBlock("b"), result("c1"), result("c1"), result("c2")), message(assistant, textBlock("x")), message(user, result("c1"), textBlock("z"))},
			[]conversation.Message{message(user, textBlock("a")), message(assistant, call("c1")), message(user, result("c1"), textBlock("b")), message(assistant, textBlock("x")), message(user, textBlock("z"))}},
		{"AMessageOfOrphansGoes",
			[]conversation.Message{message(user, textBlock("a")), message(assistant, textBlock("b")), message(user, result("c9")), message(assistant, textBlock("c")), message(user, textBlock("d"))},
			[]conversation.Message{message(user, textBlock("a")), message(assistant, textBlock("b"), textBlock("c")), message(user, textBlock("d"))}},
		{"CallsOfTheUserAreDropped",
			[]conversation.Message{message(user, textBlock("a"), call("c1"), thought("x", "s"))},
			[]conversation.Message{message(user, textBlock("a"))}},
		{"Nothing", nil, []conversation.Message{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Compatible("x", "m", c.in); !reflect.DeepEqual(got, c.want) {
				t.Errorf("\n got %s\nwant %s", show(got), show(c.want))
			}
		})
	}
}

func TestCompatibleMendsIdsArgumentsAndText(t *testing.T) {
	long := "functions.Read:0/" + strings.Repeat("x", 90)
	in := []conversation.Message{message(user, textBlock("a\xff")),
		message(assistant, conversation.Block{Call: &conversation.ToolCall{ID: long, Name: "Read", Args: json.RawMessage(`"{\"pa"`)}}),
		message(user, result(long))}
	got := Compatible("x", "m", in)
	c, r := got[1].Blocks[0].Call, got[2].Blocks[0].Result
	if c.ID != r.CallID || !isWord(c.ID, longestID) || c.ID == Compatible("x", "m", []conversation.Message{message(assistant, call(long+"y"))})[0].Blocks[0].Call.ID {
		t.Errorf("ids %q, %q", c.ID, r.CallID)
	}
	if string(c.Args) != `{"invalid_arguments":"{\"pa"}` {
		t.Errorf("args %s", c.Args)
	}
	for name, want := range map[string]string{"Read": "Read", "__proto__": "unknown", "functions.Read": "unknown", "": "unknown"} {
		odd := []conversation.Message{message(user, textBlock("a")), message(assistant, conversation.Block{Call: &conversation.ToolCall{ID: "c1", Name: name}}), message(user, result("c1"))}
		if got := Compatible("x", "m", odd); got[1].Blocks[0].Call.Name != want || Validate(Request{Messages: got}) != nil {
			t.Errorf("the name %q became %q: %v", name, got[1].Blocks[0].Call.Name, Validate(Request{Messages: got}))
		}
	}
	if got[0].Blocks[0].Text != "a\uFFFD" {
		t.Errorf("text %q", got[0].Blocks[0].Text)
	}
	if in[1].Blocks[0].Call.ID != long || in[2].Blocks[0].Result.CallID != long {
		t.Error("the argument was changed")
	}
}

func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		"": "{}", "null": "{}", `""`: "{}", " {\"a\":1} ": `{"a":1}`, "[1]": `{"invalid_arguments":"[1]"}`,
		"{": `{"invalid_arguments":"{"}`, `"x"`: `{"invalid_arguments":"x"}`,
	} {
		if got := string(Object(json.RawMessage(in))); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// TestCompatibleSettles checks that Compatible is idempotent and does not
// modify its argument, for any conversation.
func TestCompatibleSettles(t *testing.T) {
	block := rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", " ", "a", "b\xff"}), textBlock),
		rapid.Map(rapid.SampledFrom([]string{"1", "2", "3", "x y"}), call),
		rapid.Map(rapid.SampledFrom([]string{"1", "2", "3", "x y"}), result),
		rapid.Map(rapid.SampledFrom([]string{"x", "y"}), func(p string) conversation.Block { return thought(p, "s") }),
		rapid.Just(conversation.Block{Image: &conversation.Image{MediaType: "image/png", Data: []byte("x")}}),
	)
	message := rapid.Custom(func(t *rapid.T) conversation.Message {
		return message(rapid.SampledFrom([]conversation.Role{user, assistant}).Draw(t, "role"), rapid.SliceOfN(block, 0, 4).Draw(t, "blocks")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(message, 0, 8).Draw(t, "messages")
		before := show(in)
		once := Compatible("x", "m", in)
		if show(in) != before {
			t.Fatal("the argument was changed")
		}
		if twice := Compatible("x", "m", once); !reflect.DeepEqual(once, twice) {
			t.Fatalf("once  %s\ntwice %s", show(once), show(twice))
		}
		for i, m := range once {
			if len(m.Blocks) == 0 || i > 0 && once[i-1].Role == m.Role {
				t.Fatalf("message %d of %s", i, show(once))
			}
		}
	})
}

func show(m []conversation.Message) string {
	b, _ := json.Marshal(m)
	return string(b)
}

func TestValidate(t *testing.T) {
	object := json.RawMessage(`{"type":"object"}`)
	ok := []conversation.Message{message(user, textBlock("a")), message(assistant, call("c1"), call("c2")), message(user, result("c2"), result("c1"))}
	tools := []tool.Spec{{Name: "Read", Schema: object}}
	if err := Validate(Request{Messages: ok, Tools: tools}); err != nil {
		t.Fatal(err)
	}
	img := func(kind string, data string) conversation.Block {
		return conversation.Block{Image: &conversation.Image{MediaType: kind, Data: []byte(data)}}
	}
	for name, r := range map[string]Request{
		"none":              {},
		"assistant first":   {Messages: []conversation.Message{message(assistant, textBlock("a"))}},
		"assistant last":    {Messages: []conversation.Message{message(user, textBlock("a")), message(assistant, textBlock("a"))}},
		"twice":             {Messages: []conversation.Message{message(user, textBlock("a")), message(user, textBlock("a"))}},
		"role":              {Messages: []conversation.Message{message("system", textBlock("a"))}},
		"empty":             {Messages: []conversation.Message{message(user)}},
		"empty block":       {Messages: []conversation.Message{message(user, textBlock(""))}},
		"two parts":         {Messages: []conversation.Message{message(user, conversation.Block{Text: "a", Image: &conversation.Image{}})}},
		"no result":         {Messages: []conversation.Message{message(user, textBlock("a")), message(assistant, call("c1"), call("c2")), message(user, result("c1"))}},
		"call last":         {Messages: []conversation.Message{message(user, textBlock("a")), message(assistant, call("c1"))}},
		"orphan":            {Messages: []conversation.Message{message(user, result("c1"))}},
		"id twice":          {Messages: append(append([]conversation.Message{}, ok...), message(assistant, call("c1")), message(user, result("c1")))},
		"user calls":        {Messages: []conversation.Message{message(user, call("c1"))}},
		"assistant shows":   {Messages: []conversation.Message{message(user, textBlock("a")), message(assistant, img("image/png", "x")), message(user, textBlock("b"))}},
		"call without name": {Messages: []conversation.Message{message(user, textBlock("a")), message(assistant, conversation.Block{Call: &conversation.ToolCall{ID: "c"}}), message(user, result("c"))}},
		"media type":        {Messages: []conversation.Message{message(user, img("image/bmp", "x"))}},
		"empty image":       {Messages: []conversation.Message{message(user, img("image/png", ""))}},
		"tool name":         {Messages: ok, Tools: []tool.Spec{{Name: "a b", Schema: object}}},
		"tool twice":        {Messages: ok, Tools: append(tools, tools...)},
		"schema":            {Messages: ok, Tools: []tool.Spec{{Name: "Read", Schema: json.RawMessage(`{"type":"array"}`)}}},
		"no schema":         {Messages: ok, Tools: []tool.Spec{{Name: "Read"}}},
	} {
		if err := Validate(r); ReasonOf(err) != BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}
