package environment

import (
	"strings"
	"testing"
)

func TestWithInstall(t *testing.T) {
	const script = "npm ci\nnpm run \"build\" # é"
	for name, text := range map[string]string{
		"nothing":  "",
		"empty":    "{}",
		"comments": "\ufeff{\n  // of the team\n  \"start\": \"x\", // last\n}",
		"another":  `{"install": "make", "start": "x"}`,
	} {
		got, err := WithInstall(text, script)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		e, findings := Parse("environment.json", []byte(got))
		if e.Install != script || findings.Worst() == Error {
			t.Errorf("%s: install is %q, %v, in\n%s", name, e.Install, findings, got)
		}
		if strings.Contains(text, "start") && e.Start != "x" || strings.Contains(text, "// of the team") && !strings.Contains(got, "// of the team") {
			t.Errorf("%s: something is lost in\n%s", name, got)
		}
	}
	const id = "snapshot-20260102-11111111-2222-3333-4444-555555555555"
	if got, err := WithSnapshot("{\"snapshot\": \"POPULATED_FROM_SETTINGS\", \"image\": \"debian:12\"} // why\n", id); err != nil || !strings.Contains(got, `"`+id+`"`) || strings.Contains(got, "POPULATED") || !strings.Contains(got, "debian:12") || !strings.Contains(got, "// why") {
		t.Errorf("with a snapshot: %q, %v", got, err)
	}
	for _, text := range []string{"{", "[]", `"x"`, "nonsense", strings.Repeat("[", 1<<20)} {
		if got, err := WithInstall(text, script); err == nil {
			t.Errorf("%.60q: %.60q", text, got)
		}
	}
}

func FuzzWithInstall(f *testing.F) {
	f.Add(`{"install": "make", /* why */ "start": "x",}`, "npm ci")
	f.Add(`{"install": {"a": 1}}`, "\x00")
	f.Fuzz(func(t *testing.T, text, install string) {
		got, err := WithInstall(text, install)
		if err != nil {
			return
		}
		if again, err := WithInstall(got, install); err != nil || again != got {
			t.Fatalf("%q, %v, and again %q", got, err, again)
		}
	})
}
