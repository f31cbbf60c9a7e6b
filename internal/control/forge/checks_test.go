package forge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWholeIsNeverCut checks that an endless list is an error, so that a
// truncated list is never mistaken for a complete one.
func TestWholeIsNeverCut(t *testing.T) {
	pages := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pages++
		w.Header().Set("Link", fmt.Sprintf(`<%s?page=%d>; rel="next"`, r.URL.Path, pages))
		_, _ = w.Write([]byte(`[1]`))
	}))
	defer server.Close()
	w, err := NewWire(WireOptions{API: server.URL, Tokens: Token("t"), Headers: func(http.Header, string) {}, Words: func([]byte) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	r := Repo{Host: strings.TrimPrefix(server.URL, "http://"), Path: "o/r"}
	got := 0
	err = AllPages(t.Context(), w, Ask{Repo: r, Path: []string{"list"}}, func(items []int) { got += len(items) })
	if err == nil || got != maxWholePages || pages != maxWholePages {
		t.Errorf("%d items of %d pages, %v", got, pages, err)
	}
}

// TestByNameKeepsFailures checks that if there are too many checks, those that
// determine the verdict are kept.
func TestByNameKeepsFailures(t *testing.T) {
	var all []Check
	for i := range MaxChecks {
		all = append(all, Check{Name: fmt.Sprintf("a%04d", i), State: Success})
	}
	all = append(all, Check{Name: "y", State: Pending}, Check{Name: "z", State: Failure})
	got := ByName(all)
	if n := len(got); n != MaxChecks || got[n-1].Name != "z" || got[n-2].Name != "y" || got[0].Name != "a0000" || Verdict(got) != Failure {
		t.Errorf("%d checks, from %+v to %+v", n, got[0], got[n-1])
	}
}
