package subagent

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       Definition
		complaint  string // part of the only finding; "" for none
	}{
		"Whole": {".cursor/agents/reviewer.md", "---\nname: reviewer\ndescription: Reads a change\nmodel: fast\nreadonly: true\nis_background: true\n---\nYou review.\n",
			Definition{Name: "reviewer", Description: "Reads a change", Model: "fast", ReadOnly: true, Background: true, Words: "You review."}, ""},
		"NameIsTheFiles":       {".claude/agents/docs.md", "---\ndescription: d\ntools: Read, Grep\n---\nx", Definition{Name: "docs", Description: "d", Words: "x"}, ""},
		"Windows":              {"a.md", "\uFEFF---\r\nname: a\r\ndescription: d\r\n---\r\nx\r\n", Definition{Name: "a", Description: "d", Words: "x"}, ""},
		"NoFrontMatter":        {"a.md", "x", Definition{Name: "a", Words: "x"}, "has no front matter"},
		"ColonInDescription":   {"a.md", "---\nname: a\ndescription: use it: always\n---\nx", Definition{Name: "a", Description: "use it: always", Words: "x"}, "line by line"},
		"TextForFlag":          {"a.md", "---\ndescription: d\nreadonly: \"true\"\n---\nx", Definition{Name: "a", Description: "d", ReadOnly: true, Words: "x"}, ""},
		"WrongFlag":            {"a.md", "---\ndescription: d\nreadonly: 5\n---\nx", Definition{Name: "a", Description: "d", Words: "x"}, "readonly is neither"},
		"Reserved":             {"a.md", "---\nname: Explore\ndescription: d\n---\nx", Definition{}, "is reserved"},
		"NoName":               {"a b.md", "---\ndescription: d\n---\nx", Definition{}, "the name"},
		"NoBody":               {"a.md", "---\ndescription: d\n---\n", Definition{}, "has no text below"},
		"DescriptionOnOneLine": {"a.md", "---\ndescription: |\n  one\n  two\n---\nx", Definition{Name: "a", Description: "one two", Words: "x"}, ""},
		"TooLong":              {"a.md", strings.Repeat("x", MaxFile+1), Definition{}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			got, complaints, ok := Parse(c.file, []byte(c.text))
			if c.want.Name != "" {
				c.want.File = c.file
				if !ok {
					t.Fatalf("not taken: %q", complaints)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
			} else if ok {
				t.Errorf("taken: %+v", got)
			}
			if all := strings.Join(complaints, "\n"); (c.complaint == "") != (all == "") || !strings.Contains(all, c.complaint) {
				t.Errorf("complaints %q, want %q", all, c.complaint)
			}
		})
	}
}

func TestFind(t *testing.T) {
	own := []Definition{{Name: "reviewer", File: "x"}}
	for name, want := range map[string]string{"": General, "explore": Explore, "reviewer": "reviewer"} {
		if d, err := Find(name, own); err != nil || d.Name != want {
			t.Errorf("%q: %+v, %v", name, d, err)
		}
	}
	for name, want := range map[string]string{
		"computerUse": "computerUse is not available: needs a desktop in the machine",
		"bash":        `there is no subagent "bash"; available: generalPurpose, explore, debug, videoReview, vmSetupHelper, reviewer`,
	} {
		if _, err := Find(name, own); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCollect(t *testing.T) {
	file := func(path string) File { return File{path, []byte("---\ndescription: d\n---\n" + path)} }
	all, complaints := Collect([]File{file(".cursor/agents/a.md"), file(".claude/agents/a.md"), file(".claude/agents/b.md"), {Path: "c.md"}})
	if len(all) != 2 || all[0].File != ".cursor/agents/a.md" || all[1].Name != "b" || len(complaints) != 3 {
		t.Errorf("%+v, %q", all, complaints)
	}
}

// Front matter that is expensive as YAML is read line by line.
func TestExpensiveFrontMatter(t *testing.T) {
	aliases := "a0: &a0 {x: 1}\n"
	for i := 1; i < 20; i++ {
		all := strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9)
		aliases += fmt.Sprintf("a%d: &a%d\n  <<: [%s]\n  b: *a%d\n", i, i, strings.TrimSuffix(all, ","), i-1)
	}
	for name, front := range map[string]string{
		"Aliases": aliases, "Brackets": "a: " + strings.Repeat("[", 50_000), "Lists": strings.Repeat("- ", 25_000), "Tags": strings.Repeat("!a ", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			text := "---\nname: a\ndescription: d\n" + front + "\n---\nx"
			var d Definition
			var complaints []string
			used := testing.AllocsPerRun(1, func() { d, complaints, _ = Parse("a.md", []byte(text)) })
			if d.Name != "a" || d.Description != "d" || len(complaints) != 1 || !strings.Contains(complaints[0], "line by line") {
				t.Errorf("%+v, %q", d, complaints)
			}
			if used > 1_000_000 {
				t.Errorf("%.0f allocations", used)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a.md", "---\nname: a\ndescription: b: c\nreadonly: yes\n---\nbody")
	f.Add("a.md", "---\n---\n")
	f.Add(".cursor/agents/\x00.md", "---\nname: [1, {a: b}]\n---\nx")
	f.Add("a.md", "---\na: &a [*a]\n---\nx")
	f.Fuzz(func(t *testing.T, file, text string) {
		d, _, ok := Parse(file, []byte(text))
		if !ok {
			return
		}
		if !nameForm.MatchString(d.Name) || len(d.Name) > maxName || utf8.RuneCountInString(d.Description) > maxDescription || d.Words == "" ||
			!utf8.ValidString(d.Words+d.Description+d.Model) || strings.ContainsAny(d.Description+d.Model, "\n\r\x1b") {
			t.Errorf("%+v", d)
		}
	})
}
