package forge

import (
	"strings"
	"testing"
)

func TestInert(t *testing.T) {
	const b = mentionBreak
	for text, want := range map[string]string{
		"/lgtm":                         `\/lgtm`,
		"Done.\n  /ok-to-test now\nx":   "Done.\n  \\/ok-to-test now\nx",
		"```\n/merge\n```":              "```\n\\/merge\n```",
		"/usr/bin is a path, /x too":    "/usr/bin is a path, /x too",
		"@dependabot merge":             "@" + b + "dependabot merge",
		"```\n@Mergifyio queue\n```":    "```\n@" + b + "Mergifyio queue\n```",
		"`@dependabot merge`":           "`@" + b + "dependabot merge`",
		"ask @acme/everybody, or @all.": "ask @" + b + "acme/everybody, or @" + b + "all.",
		"(@a),@b":                       "(@" + b + "a),@" + b + "b",
		"mail me@example.com":           "mail me@example.com",
		"https://example.com/@x/y":      "https://example.com/@x/y",
		"`@Override` and \\`@team\\`":   "`@Override` and \\`@" + b + "team\\`",
		"```java\n@Override\n```\n@x":   "```java\n@Override\n```\n@" + b + "x",
		"````\n```\n@Override\n````":    "````\n```\n@Override\n````",
		"    ```\n@team":                "    ```\n@" + b + "team",
		"```a`b\n@team":                 "```a`b\n@" + b + "team",
		`import "@cursor/sdk" in code`:  `import "@` + b + `cursor/sdk" in code`,
	} {
		got := Inert(text, MaxBody)
		if got != want {
			t.Errorf("%q becomes %q; want %q", text, got, want)
		}
		if again := Inert(got, MaxBody); again != got {
			t.Errorf("%q becomes %q, and again %q", text, got, again)
		}
		if back := AsWritten(got); back != text {
			t.Errorf("%q is read back as %q", text, back)
		}
	}
	if got := Inert(strings.Repeat("@a ", 100), 50); len(got) > 50 {
		t.Errorf("%d bytes", len(got))
	}
}

// A suggestion is applied to the code, so it is sent unchanged or as plain code.
func TestSuggestionsAreUnchanged(t *testing.T) {
	for suggestion, kind := range map[string]string{"@Override\nvoid f() {}": "suggestion", "import \"@cursor/sdk\"": "suggestion", "x\n/approve": "", "@dependabot merge": ""} {
		c := LineComment{Body: "Better:", Suggestion: suggestion, Mark: Mark("x")}
		got := c.Text("suggestion")
		if strings.Contains(got, "```suggestion\n"+suggestion+"\n```") != (kind != "") {
			t.Errorf("%q is sent as %q", suggestion, got)
		}
	}
}

func FuzzInert(f *testing.F) {
	f.Add("```\n/merge @dependabot merge\n````\n\\`@a` ~~~")
	f.Fuzz(func(t *testing.T, text string) {
		got := Inert(text, MaxBody)
		if command.MatchString(got) || bot.MatchString(got) {
			t.Errorf("%q becomes %q", text, got)
		}
	})
}
