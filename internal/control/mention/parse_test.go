package mention

import (
	"strings"
	"testing"

	"aloft/internal/fault"
)

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"@aloft do it":                       " do it",
		"Hello @Aloft, do it\nplease":        ", do it\nplease",
		"(@aloft)":                           ")",
		"first\r\n@aloft":                    "",
		"Ask @aloft.":                        ".",
		"`@aloft` is not, @aloft is":         " is",
		"> @aloft quoted\n@aloft mine":       " mine",
		"```\n@aloft in code\n```\n@aloft x": " x",
		// The quoted comment contains fences that do not end the enclosing code
		// block.
		"````\n```\n@aloft quoted\n```\n@aloft still\n````\n@aloft x":  " x",
		"```\n```go\n@aloft quoted\n~~~\n@aloft still\n````\n@aloft x": " x",
	} {
		if got, ok := find(text, "aloft"); !ok || got != want {
			t.Errorf("find(%q) = %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{
		"", "aloft", "@aloft-bot do it", "mail ada@aloft", "x@aloft.dev", "@aloft.dev", "@aloft/x", "@acme/@aloft", "@aloftx", "> @aloft", "`@aloft`", "~~~\n@aloft", "@älöft", "@aloftä",
	} {
		if got, ok := find(text, "aloft"); ok {
			t.Errorf("find(%q) = %q", text, got)
		}
	}
}

func TestParse(t *testing.T) {
	models := []string{"default", "big"}
	for text, want := range map[string]request{
		" do fix it":                          {task: "fix it"},
		": do, please":                        {task: "do, please"},
		"":                                    {},
		" [model=big] do x\n[model=other]":    {task: "x", model: "big"},
		" do x [model=big, branch=a/b]":       {task: "x", model: "big", branch: "a/b"},
		" see [a=b](https://x.test) and a[i]": {task: "see [a=b](https://x.test) and a[i]"},
		" fix arr[i=0]":                       {task: "fix arr[i=0]"},
		" [model=big] [branch=x] go":          {task: "go", model: "big", branch: "x"},
	} {
		if got, err := parse(text, models, true); err != nil || got != want {
			t.Errorf("parse(%q) = %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{" [speed=1]", " [model=]", " [model=big extra]", " [=]", " [model=@ada]", " [model=big][model=big]"} {
		_, err := parse(text, models, true)
		if !fault.Is(err, fault.KindInvalid) || !strings.Contains(fault.Of(err).Advice, "`default`, `big`") {
			t.Errorf("parse(%q): %v", text, err)
		}
	}
	if _, err := parse(" [branch=x]", models, false); err == nil {
		t.Error("a pull request has the option branch")
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{"@aloft do it [model=big]", "```\n@aloft", "> @aloft\n`@aloft` [", "@aloft [a=b](c)", "@aloft\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rest, ok := find(text, "aloft")
		if !strings.HasSuffix(text, rest) || !ok && rest != "" {
			t.Errorf("find(%q) = %q, %v", text, rest, ok)
		}
		q, err := parse(rest, []string{"big"}, true)
		if len(q.task) > maxTask || err != nil && fault.Is(err, fault.KindInternal) {
			t.Errorf("parse(%q) = %+v, %v", rest, q, err)
		}
	})
}
