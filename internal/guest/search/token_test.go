package search

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func tokens(text string) (all []string) {
	new(tokenizer).each([]byte(text), func(token []byte, _ bool) { all = append(all, string(token)) })
	return all
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{
		"parseConfig":                  "parseconfig pars config",
		"parse_config":                 "parseconfig pars config",
		"ParseConfigs parsing":         "parseconfigs pars config pars",
		"HTTPServer":                   "httpserver http serv",
		"userID2 x":                    "userid2 user id2",
		"__init__":                     "init",
		"MAX_SIZE":                     "maxsize max size",
		"scheduled scheduler schedule": "schedul schedul schedul",
		"queries query":                "query query",
		"class pass status":            "class pass status",
		"Größe":                        "größ",
		"a b c":                        "",
		"0123456789abcdef":             "",
		"sha256":                       "sha256",
		"running stopped":              "run stop",
	} {
		if got := strings.Join(tokens(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTermsLeaveOutIdleWords(t *testing.T) {
	var got []string
	for _, x := range terms("where is the config of the server parsed?") {
		got = append(got, x.text)
	}
	if want := []string{"config", "serv", "pars"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if len(terms("what is this")) == 0 {
		t.Error("a query of idle words alone has none")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("parseConfig HTTPServer __x__ ÄÖ日本語 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		for _, token := range tokens(text) {
			if len(token) == 0 || len(token) > 2*maxWhole || strings.ToValidUTF8(text, "") == text && !utf8.ValidString(token) {
				t.Errorf("token %q of %q", token, text)
			}
		}
		terms(text)
	})
}

func FuzzChunks(f *testing.F) {
	f.Add([]byte(strings.Repeat("a\n\nfunc x() {\n}\n", 40)), "x.go")
	f.Add([]byte("\n\n\r\n"), "x.py")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		last, line := 0, 1
		for _, c := range chunks(text, findSymbols(name, text)) {
			if c.start < last || c.end <= c.start || c.end > len(text) || c.lines < 1 || len(bytes.TrimSpace(text[last:c.start])) > 0 {
				t.Fatalf("%+v after byte %d", c, last)
			}
			if line += bytes.Count(text[last:c.start], []byte("\n")); c.line != line {
				t.Fatalf("%+v begins at line %d", c, line)
			}
			if got := bytes.Count(bytes.TrimSuffix(text[c.start:c.end], []byte("\n")), []byte("\n")) + 1; got != c.lines {
				t.Fatalf("%+v has %d lines", c, got)
			}
			line += bytes.Count(text[c.start:c.end], []byte("\n"))
			last = c.end
		}
		if len(bytes.TrimSpace(text[last:])) > 0 {
			t.Fatalf("%q is in no chunk", text[last:])
		}
	})
}

func TestSymbols(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a.go":    {"package a\n\ntype T struct{}\n\nfunc (t *T) Do() {}\n\nfunc F[X any](x X) {}\n\nconst (\n\tLimit = 1\n)\n", "T:3 Do:5 F:7 Limit:10"},
		"a.py":    {"class A:\n    def go(self):\n        pass\n\nLIMIT = 1\nasync def f(): ...\n", "A:1 go:2 LIMIT:5 f:6"},
		"a.ts":    {"export class A {\n  private async go(x: number): Promise<void> {\n  }\n}\nexport const limit = 1;\nexport default function f() {}\ninterface I {}\n", "A:1 go:2 limit:5 f:6 I:7"},
		"A.java":  {"public class A {\n    private static int go(int x) {\n    }\n}\n", "A:1 go:2"},
		"a.c":     {"#define LIMIT 1\nstruct point { int x; };\nstatic int *go(int x)\n{\n", "LIMIT:1 point:2 go:3"},
		"a.rs":    {"pub struct A;\nimpl A {\n    pub(crate) async fn go() {}\n}\nconst LIMIT: u8 = 1;\n", "A:1 go:3 LIMIT:5"},
		"a.rb":    {"class A\n  def self.go\n  end\nend\n", "A:1 go:2"},
		"a.sh":    {"go() {\n  :\n}\n", "go:1"},
		"a.proto": {"message A {\n}\nservice S {\n  rpc Go(A) returns (A);\n}\n", "A:1 S:3 Go:4"},
		"a.md":    {"# One\n\n## Two words\n", "One:1 Two words:3"},
		"a.txt":   {"func F() {}\n", ""},
	} {
		var got []string
		for _, s := range findSymbols(name, []byte(c.text)) {
			got = append(got, fmt.Sprintf("%s:%d", s.name, s.line))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, " "), c.want)
		}
	}
}
