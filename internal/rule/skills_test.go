package rule

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseSkills(t *testing.T) {
	const release = "---\nname: release\ndescription: How to release\n---\nRun make.\n\n---\n\nThen wait."
	const mortem = "---\nname: post-mortem\ndescription: How to write one\ndisable-model-invocation: true\n---\nAsk why."
	skills, complaints, err := ParseSkills(Team, "\n"+release+"\r\n"+mortem+"\n")
	if err != nil || len(complaints) > 0 || len(skills) != 2 {
		t.Fatalf("%+v, %q, %v", skills, complaints, err)
	}
	for i, want := range []Rule{
		{Source: "skills.md/release", Label: "release", When: OnRequest, Description: "How to release", Text: release + "\n"},
		{Source: "skills.md/post-mortem", Label: "post-mortem", When: OnMention, Description: "How to write one", Text: mortem + "\n"},
	} {
		r := skills[i]
		if r.Source != want.Source || r.Label != want.Label || r.When != want.When || r.Description != want.Description || r.Text != want.Text || r.Kind != Skill || r.From != Team {
			t.Errorf("got %+v, want %+v", r, want)
		}
		if at := r.Path("/workspace"); at != "/tmp/aloft-skills/team/"+want.Label+"/SKILL.md" {
			t.Errorf("its file is %s", at)
		}
	}
	if due := Due(skills, nil, Work{Prompt: "go"}); len(due) != 1 || due[0].Label != "release" {
		t.Errorf("due without a mention: %+v", due)
	}
	if due := Due(skills, nil, Work{Prompt: "run /post-mortem now"}); len(due) != 2 {
		t.Errorf("due with a mention: %+v", due)
	}
}

func TestSkillsThatAreRefused(t *testing.T) {
	one := func(name string) string { return "---\nname: " + name + "\ndescription: d\n---\ntext\n" }
	for name, c := range map[string]struct{ text, says string }{
		"NoName":        {"Run make.", "begin each skill with ---"},
		"PathAsName":    {one("../../etc"), `"../../etc"`},
		"UpperCase":     {one("Release"), `"Release"`},
		"Twice":         {one("a") + one("a"), "two skills with the name a"},
		"NoDescription": {"---\nname: a\n---\ntext", "skill a: has no description"},
		"NoText":        {"---\nname: a\ndescription: d\n---\n", "skill a: has no text"},
		"TooLong":       {one("a") + strings.Repeat("x", MaxText), "skill a: has"},
		"TooMany": {func() (s string) {
			for i := range MaxSkills + 1 {
				s += one("a" + strings.Repeat("b", i))
			}
			return s
		}(), "more than 50"},
	} {
		t.Run(name, func(t *testing.T) {
			if skills, _, err := ParseSkills(User, c.text); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %+v, %v; want %q", skills, err, c.says)
			}
		})
	}
}

// TestDrafts checks that a draft is given only by its own name.
func TestDrafts(t *testing.T) {
	t.Parallel()
	skills, _, err := ParseSkills(Team, "---\nname: release\ndescription: How to release\npaths: '*.go'\n---\nx")
	if err != nil {
		t.Fatal(err)
	}
	all := append(skills, Drafts(skills)...)
	for prompt, want := range map[string]string{"release it": "release", "/release it": "release", "/release-draft it": "release,release-draft"} {
		var names []string
		for _, r := range Due(all, nil, Work{Prompt: prompt, Touched: []string{"a.go"}}) {
			names = append(names, r.Name())
		}
		if got := strings.Join(names, ","); got != want {
			t.Errorf("%q: got %s, want %s", prompt, got, want)
		}
	}
	if d := Drafts(skills)[0]; d.Path("/workspace") != "/tmp/aloft-skills/team/release-draft/SKILL.md" || d.Source != "skills-draft.md/release-draft" || skills[0].Name() != "release" {
		t.Errorf("draft %+v of %+v", d, skills[0])
	}
}

// TestWithVersion checks that versions are bounded, and that the same text is kept once.
func TestWithVersion(t *testing.T) {
	t.Parallel()
	var all []Version
	for i := range 2 * MaxVersions {
		all = WithVersion(WithVersion(all, Version{Text: strconv.Itoa(i)}), Version{Text: strconv.Itoa(i)})
	}
	if len(all) != MaxVersions || all[0].Text != strconv.Itoa(MaxVersions) || all[MaxVersions-1].Text != strconv.Itoa(2*MaxVersions-1) {
		t.Errorf("%d versions, from %q to %q", len(all), all[0].Text, all[len(all)-1].Text)
	}
}
