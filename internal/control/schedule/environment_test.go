package schedule

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/environment"
)

func TestTerminalNames(t *testing.T) {
	var terminals []environment.Terminal
	for _, name := range []string{"Run Next.js", "run:it", "Run-Next-js", "日本", "", "-x-", strings.Repeat("a", 100), strings.Repeat("a", 101)} {
		terminals = append(terminals, environment.Terminal{Name: name})
	}
	want := []string{"Run-Next-js", "run-it", "Run-Next-js-2", "terminal", "terminal-2", "x", strings.Repeat("a", 60), strings.Repeat("a", 60) + "-2"}
	if got := terminalNames(terminals); !slices.Equal(got, want) {
		t.Errorf("names are %q; want %q", got, want)
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	out := &tail{most: 10}
	for range 1000 {
		if _, err := out.Write([]byte("0123456")); err != nil {
			t.Fatal(err)
		}
	}
	if want := "… 6990 earlier bytes omitted\n4560123456"; out.text() != want {
		t.Errorf("it is %q; want %q", out.text(), want)
	}
	var news []string
	out = &tail{most: 100, news: func(s string) { news = append(news, s) }}
	for _, s := range []string{"one\ntwo\nthr", "ee\n"} {
		if _, err := out.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(news, []string{"two"}) || out.text() != "one\ntwo\nthree\n" {
		t.Errorf("news %q, text %q", news, out.text())
	}
}
