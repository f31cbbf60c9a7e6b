package model

import (
	"reflect"
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"opus":                         {ID: "opus"},
		"":                             {},
		"opus[effort=high]":            {ID: "opus", Settings: []Setting{{"effort", "high"}}},
		"opus[context=1m,effort=high]": {ID: "opus", Settings: []Setting{{"context", "1m"}, {"effort", "high"}}},
		"org/opus:7b[thinking=false]":  {ID: "org/opus:7b", Settings: []Setting{{"thinking", "false"}}},
		"opus[":                        {ID: "opus["}, "opus[]": {ID: "opus[]"}, "opus[effort]": {ID: "opus[effort]"}, "[a=b]x": {ID: "[a=b]x"},
	} {
		got := ParseRef(text)
		if !reflect.DeepEqual(got, want) || got.String() != text {
			t.Errorf("%q is %+v, and that %q", text, got, got.String())
		}
	}
	if got := (Ref{"m", []Setting{{"b", "1"}, {"a", "2"}}}).String(); got != "m[a=2,b=1]" {
		t.Errorf("the settings are not sorted: %s", got)
	}
}

func TestParams(t *testing.T) {
	for name, want := range map[string]string{
		"claude-sonnet-4-5-20250929":   "thinking=true,false context=200k,1m",
		"claude-opus-4-5":              "thinking=true,false effort=low,medium,high",
		"anthropic/claude-opus-4.6":    "thinking=true,false effort=low,medium,high,max context=200k,1m",
		"eu.anthropic.claude-opus-4-7": "thinking=true,false effort=low,medium,high,xhigh,max context=200k,1m",
		"claude-opus-5-5":              "effort=low,medium,high,xhigh,max", // this model always reasons
		"claude-3-5-haiku-latest":      "",
		"gpt-5":                        "",
		"house":                        "",
	} {
		var got []string
		for _, p := range Lookup(name).Traits.Offered("anthropic") {
			got = append(got, p.ID+"="+strings.Join(p.Values, ","))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s offers %q, want %q", name, got, want)
		}
	}
	if p := Lookup("gpt-5.2-codex").Traits.Offered("openai"); len(p) != 1 || p[0].ID != ParamEffort || p[0].Default != "" {
		t.Errorf("gpt-5.2-codex offers %+v", p)
	}
}

func TestCheck(t *testing.T) {
	info := Lookup("claude-opus-4-6")
	info.Params = info.Traits.Offered("anthropic")
	for _, c := range []struct {
		settings    []Setting
		field, hint string
	}{
		{nil, "", ""},
		{[]Setting{{"effort", "max"}, {"context", "1m"}}, "", ""},
		{[]Setting{{"effort", "max"}, {"speed", "1"}}, "params[1].id", "thinking, effort, context"},
		{[]Setting{{"effort", "xhigh"}}, "params[0].value", "low, medium, high, max"},
		{[]Setting{{"effort", "low"}, {"effort", "high"}}, "params[1].id", ""},
	} {
		err := info.Check(c.settings)
		if c.field == "" {
			if err != nil {
				t.Errorf("%v: %v", c.settings, err)
			}
			continue
		}
		if f := fault.Of(err); f.Kind != fault.KindInvalid || f.Field != c.field || !strings.Contains(f.Advice, c.hint) {
			t.Errorf("%v: %+v", c.settings, f)
		}
	}
	if f := fault.Of((Info{ID: "house"}).Check([]Setting{{"effort", "low"}})); f.Field != "params[0].id" || !strings.Contains(f.Message, "house has no parameters") {
		t.Errorf("a model without parameters: %+v", f)
	}
}
