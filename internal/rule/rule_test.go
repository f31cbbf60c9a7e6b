package rule

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestGlobs(t *testing.T) {
	for _, row := range []struct {
		glob, file string
		want       bool
	}{
		{"*.go", "a.go", true}, {"*.go", "x/y/a.go", true}, {"*.go", "a.goo", false}, {"./*.go", "x/a.go", true},
		{"src/*.go", "src/a.go", true}, {"src/*.go", "src/x/a.go", false}, {"src/*.go", "x/src/a.go", false}, {"/src/*.go", "src/a.go", true},
		{"src/**/*.go", "src/a.go", true}, {"src/**/*.go", "src/x/y/a.go", true}, {"src/**", "src/x/y", true}, {"src/**", "src", false},
		{"**", "a", true}, {"**/*", "a/b", true}, {"**/x/**", "a/x/b", true}, {"**/x/**", "x", false}, {"src/", "src/a/b", true}, {"src/", "src", false},
		{"*.{ts,tsx}", "a.tsx", true}, {"*.{ts,tsx}", "a.js", false}, {"{a,b}/{c,d{e,f}}.x", "b/df.x", true}, {"{a,b", "a", false}, {"{a,b", "{a,b", true},
		{"[ab].go", "b.go", true}, {"[ab.go", "a.go", false}, {"a?c", "abc", true}, {"a?c", "a/c", false}, {"**.go", "x/a.go", true}, {"", "a", false},
		{strings.Repeat("{a,a}", 60) + "b", strings.Repeat("a", 60), false}, {strings.Repeat("*a", 140) + "b", strings.Repeat("a", 255), false},
		{strings.Repeat("**/", 90) + "b", strings.Repeat("a/", 1000) + "a", false},
	} {
		if got := matchGlob(row.glob, row.file); got != row.want {
			t.Errorf("%.40q matches %.40q: %t, want %t", row.glob, row.file, got, row.want)
		}
	}
}

func TestMentions(t *testing.T) {
	r := Rule{Source: "api/.cursor/rules/no-orm.mdc", From: Repository, When: OnMention}
	for prompt, want := range map[string]bool{
		"use @no-orm": true, "(@no-orm)": true, "@no-orm.mdc.": true, "@api/.cursor/rules/no-orm.mdc": true, "see @no-orm, please": true,
		"no-orm": false, "@no-orms": false, "a@no-orm": false, "@": false, "@@no-orm": true, "@other/no-orm": false, "": false,
	} {
		if got := r.Mentions(prompt); got != want {
			t.Errorf("%q mentions it: %t, want %t", prompt, got, want)
		}
	}
}

// A rule is due when its text changes, and is not due again after it was given.
func TestNext(t *testing.T) {
	agents := Rule{Source: "AGENTS.md", From: Repository, When: Always, Text: "one"}
	offered := Rule{Source: "b.mdc", From: Repository, When: OnRequest, Description: "B", Text: "long"}
	all := Set{Rules: []Rule{offered, agents}, LeftOut: []LeftOut{{Source: "c", Why: "x"}}}
	var told Set
	next := func(w Work, room int) Message {
		t.Helper()
		m, _ := Next(all, told, w, room)
		told = Set{append(told.Rules, m.Rules...), append(told.LeftOut, m.LeftOut...)}
		return m
	}
	if m := next(Work{}, 100); len(m.Rules) != 2 || m.Rules[0].Text != "" || m.Rules[1].Text != "one" || len(m.LeftOut) != 1 || m.More {
		t.Errorf("first %+v", m)
	}
	if m, ok := Next(all, told, Work{}, 100); ok {
		t.Errorf("nothing is due, but %+v", m)
	}
	if m := next(Work{Prompt: "@b"}, 100); len(m.Rules) != 1 || m.Rules[0].Text != "long" || !m.More || len(m.Replaced) != 0 {
		t.Errorf("mentioned %+v", m)
	}
	all.Rules[1].Text = "two"
	if m := next(Work{}, 100); len(m.Rules) != 1 || !slices.Equal(m.Replaced, []string{"AGENTS.md"}) {
		t.Errorf("changed %+v", m)
	}
	all.Rules[1].Text = strings.Repeat("x", 200)
	if m := next(Work{}, 100); len(m.Rules) != 0 || len(m.LeftOut) != 1 || !m.LeftOut[0].Budget {
		t.Errorf("too long %+v", m)
	}
	if m, ok := Next(all, told, Work{}, 100); ok {
		t.Errorf("what is too long is told once, but %+v", m)
	}
}

// A machine's report of rules is checked like all its data.
func TestAdmit(t *testing.T) {
	folders := []Folder{{}, {Path: "web"}}
	ok := Rule{Source: "AGENTS.md", From: Team, When: Always, Text: "x\u202ey", Nested: true, Description: "a\nb", Globs: make([]string, 100), Imports: make([]string, 100)}
	said := Set{Rules: []Rule{
		ok,
		{Source: "web/AGENTS.md", When: Always, Folder: "web", Text: "x"},
		{Source: "other/AGENTS.md", When: Always, Folder: "other", Text: "not asked for"},
		{Source: "../AGENTS.md", When: Always, Text: "x"}, {Source: "/etc/AGENTS.md", When: Always, Text: "x"}, {Source: "", When: Always, Text: "x"},
		{Source: "a/../b", When: Always, Text: "x"}, {Source: "b", When: "whenever", Text: "x"}, {Source: "c", When: Always, Text: strings.Repeat("x", MaxText+1)},
	}, LeftOut: make([]LeftOut, 1000)}
	got := Admit(folders, said)
	if len(got.Rules) != 2 || len(got.LeftOut) != MaxLeftOut+2 || !strings.Contains(got.LeftOut[MaxLeftOut+1].Why, "7 rules") {
		t.Fatalf("%+v", got)
	}
	if r := got.Rules[0]; r.From != Repository || r.Text != "xy" || r.Nested || r.Description != "a b" || len(r.Globs) != maxGlobs || len(r.Imports) != maxImports {
		t.Errorf("%+v", r)
	}
	if !got.Rules[1].Nested {
		t.Error("web is nested")
	}
	for range 200 {
		said.Rules = append(said.Rules, Rule{Source: "a", When: Always, Text: strings.Repeat("x", MaxText)})
	}
	for i := range said.Rules {
		said.Rules[i].Globs = []string{strings.Repeat("{a,b}", 50)[:250] + "*", "{a,b,c,d,e,f,g}" + strings.Repeat("*a", 100)}
	}
	cost := 0
	for _, r := range Admit(folders, said).Rules {
		for _, g := range r.Globs {
			cost += globCost(g)
		}
	}
	if cost == 0 || cost > maxGlobCost {
		t.Errorf("globs that cost %d are admitted", cost)
	}
	total := 0
	for _, r := range Admit(folders, said).Rules {
		total += len(r.Text)
	}
	if total > MaxTotal {
		t.Errorf("%d bytes are admitted", total)
	}
}

// FuzzParse parses a hostile file and formats the result for a model.
func FuzzParse(f *testing.F) {
	f.Add("---\nglobs: *.go, [a\n  - {b,c}\nalwaysApply: true\n---\n@x.md\n</rules>\u202e", "x.go")
	f.Add("---\ndescription: >-\n  a\n---\nb", "a/b")
	f.Add("\ufeff---\r\n---\r\n```\n@a.md\n", "")
	f.Fuzz(func(t *testing.T, text, file string) {
		r, complaints, ok := Parse("a/.cursor/rules/x.mdc", "a", true, text)
		if !ok {
			if len(complaints) == 0 {
				t.Fatal("no rule, and no reason")
			}
			return
		}
		if r = Admit([]Folder{{Path: "a"}}, Set{Rules: []Rule{r}}).Rules[0]; r.Folder != "a" {
			t.Fatalf("folder %q", r.Folder)
		}
		r.Matches(file)
		r.Mentions(text)
		reads := 0
		if left, ok := r.Expand("a", func(string) bool { return false }, func(at string) (string, bool, error) {
			reads++
			if !strings.HasPrefix(at, "a/") || strings.Contains(at, "/../") {
				t.Fatalf("it reads %q", at)
			}
			return text, len(text)%3 == 0, errorIf(len(text)%5 == 0)
		}); !ok || len(left) > len(text) {
			return
		}
		if reads > maxImports || len(r.Text) > MaxText || len(r.Globs) > maxGlobs || !utf8.ValidString(r.Text) || len([]rune(r.Description)) > maxDescription {
			t.Errorf("%d reads, %d bytes, %d globs", reads, len(r.Text), len(r.Globs))
		}
		if _, hidden := Visible(r.Text); hidden > 0 {
			t.Errorf("%d invisible characters are left in %q", hidden, r.Text)
		}
		said := Message{Workspace: "/workspace", Rules: []Rule{r}}.String()
		if begins, ends := strings.Count(strings.ToLower(said), "<rules"), strings.Count(strings.ToLower(said), "</rules"); begins != 1 || ends != 1 {
			t.Errorf("%d tags and %d end tags in %q", begins, ends, said)
		}
		if skill, _, ok := ParseSkill("a/SKILL.md", "a", text); ok {
			offer := Offer("/workspace", []Rule{skill})
			if strings.Count(offer, "\n") != 2 || strings.Contains(strings.ToLower(offer), "<rules") || skill.Text != "" {
				t.Errorf("offered as %q", offer)
			}
		}
		if folders := Nested("a", file); len(folders) > maxNesting {
			t.Errorf("%d folders", len(folders))
		}
	})
}

func errorIf(yes bool) error {
	if yes {
		return errors.New("unreadable")
	}
	return nil
}
