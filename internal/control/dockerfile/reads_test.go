package dockerfile

import (
	"slices"
	"testing"
)

func TestReads(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		paths []string
		all   bool
	}{
		"Nothing":    {"# syntax=docker/dockerfile:1\nFROM a\nRUN --mount=type=secret,id=t --mount=type=cache,target=/c make\n", nil, false},
		"Copies":     {"FROM a AS x\nCOPY --chown=1:1 package.json ./lock/ /app/\nFROM b\nCOPY --from=x /o /o\nADD [\"a b\", \"/c\"]\n", []string{"package.json", "lock", "a b"}, false},
		"Continued":  {"FROM a\nCOPY one \\\n  # why\n  two \\\n  /to\n", []string{"one", "two"}, false},
		"Inline":     {"FROM a\nCOPY <<EOF /f\nCOPY everything /\nEOF\nADD https://example.com/x /x\n", nil, false},
		"Everything": {"FROM a\nCOPY . /app\n", nil, true},
		"Above":      {"FROM a\nCOPY .. /app\n", nil, true},
		"Pattern":    {"FROM a\nCOPY *.json /app\n", nil, true},
		"Variable":   {"FROM a\nARG F\nCOPY $F /app\n", nil, true},
		"Quoted":     {"FROM a\nCOPY \"x y\" /app\n", nil, true},
		"Bound":      {"FROM a\nRUN --mount=target=/src make -C /src\n", nil, true},
		"Later":      {"FROM a\nONBUILD COPY . /app\n", nil, true},
		"Language":   {"# syntax=example.com/mine:1\nFROM a\n", nil, true},
		"Mistake":    {"FROM a\nCOPY\n", nil, true},
	} {
		if paths, all := Reads(c.text); !slices.Equal(paths, c.paths) || all != c.all {
			t.Errorf("%s: %q, %v; want %q, %v", name, paths, all, c.paths, c.all)
		}
	}
}

func TestFromNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		"FROM a\nADD x /x\nRUN curl http://x\n": false, "FROM a\nadd https://x /x\n": true, "FROM a\nADD git@example.com:x /x\n": true, "FROM a\nARG U\nADD $U /x\n": true,
		"# syntax=docker/dockerfile:1\nFROM a\n": false, "# syntax=evil.example/x\nFROM a\n": true,
	} {
		if FromNetwork(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func FuzzReads(f *testing.F) {
	f.Add("FROM a\nCOPY <<E x \\\n[\"")
	f.Fuzz(func(t *testing.T, text string) {
		if paths, all := Reads(text); all && paths != nil {
			t.Errorf("all, and %q", paths)
		}
		_ = FromNetwork(text)
	})
}
