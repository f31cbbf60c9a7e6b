package search

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aloft/internal/embeddingtest"
)

// meant returns an index of a tree that ranks by meaning, with its endpoint.
func meant(t *testing.T, files map[string]string) (*Index, string, *embeddingtest.Server) {
	t.Helper()
	s := embeddingtest.New(t)
	x, dir := small(t, files)
	x.cfg.Embed = &Embedder{URL: s.URL, Model: embeddingtest.Model, Key: embeddingtest.Key}
	return x, dir, s
}

// sent returns the texts that were sent since the last call, sorted.
func sent(s *embeddingtest.Server) []string {
	texts, _ := s.Inputs()
	s.Forget()
	slices.Sort(texts)
	return texts
}

// TestFindsByMeaning checks that a file is found that has no word of the query.
func TestFindsByMeaning(t *testing.T) {
	x, _, s := meant(t, map[string]string{
		"boat.txt": "repair the wooden hull and paint over every plank below\n", "engine.txt": "maintenance for an automobile\n", "kite.txt": "how to fly\n",
	})
	s.Synonyms("car", "automobile")
	s.Synonyms("repair", "maintenance")
	a := ask(t, x, Query{Text: "repair car"})
	if got := paths(a); len(got) == 0 || got[0] != "engine.txt" || len(a.Notes) != 0 {
		t.Errorf("by meaning: %q, %q", got, a.Notes)
	}
	if got := paths(ask(t, x, Query{Text: "repair car", Folders: []string{filepath.Join(x.cfg.Dir, "nowhere")}})); len(got) != 0 {
		t.Errorf("in another folder: %q", got)
	}
	x.cfg.Embed, x.meaning = nil, nil
	if got := paths(ask(t, x, Query{Text: "repair car"})); !slices.Equal(got, []string{"boat.txt"}) {
		t.Errorf("by keywords: %q", got)
	}
}

// TestEmbedsOnce checks that only the query and changed pieces are sent, also
// after a restart and after a file was moved back and forth.
func TestEmbedsOnce(t *testing.T) {
	x, dir, s := meant(t, map[string]string{"a.txt": "alpha\n", "b.txt": "beta\n"})
	ask(t, x, Query{Text: "alpha"})
	if diff := cmp.Diff([]string{"a.txt\nalpha\n", "alpha", "b.txt\nbeta\n"}, sent(s)); diff != "" {
		t.Errorf("first: %s", diff)
	}
	ask(t, x, Query{Text: "beta"})
	if diff := cmp.Diff([]string{"beta"}, sent(s)); diff != "" {
		t.Errorf("second: %s", diff)
	}
	write(t, filepath.Join(dir, "a.txt"), "gamma\n")
	ask(t, x, Query{Text: "gamma"})
	if diff := cmp.Diff([]string{"a.txt\ngamma\n", "gamma"}, sent(s)); diff != "" {
		t.Errorf("after a change: %s", diff)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	y := New(x.cfg)
	defer y.Close()
	write(t, filepath.Join(dir, "a.txt"), "alpha\n") // its first content
	a := ask(t, y, Query{Text: "alpha"})
	if diff := cmp.Diff([]string{"alpha"}, sent(s)); diff != "" || paths(a)[0] != "a.txt" {
		t.Errorf("after a restart: %s, %q", diff, paths(a))
	}
	z := New(Config{Dir: dir, State: x.cfg.State, Ctags: "none", Embed: &Embedder{URL: s.URL, Model: "another", Key: embeddingtest.Key}})
	defer z.Close()
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, z, Query{Text: "alpha"}); len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "does not exist") {
		t.Errorf("another model: %q", a.Notes)
	}
}

// TestHiddenIsNotSent checks that files which the agent may not read are not
// sent.
func TestHiddenIsNotSent(t *testing.T) {
	x, _, s := meant(t, map[string]string{"a.txt": "alpha\n", "secret.txt": "alpha secret\n", ".gitignore": "ignored.txt\n", "ignored.txt": "alpha\n"})
	ask(t, x, Query{Text: "alpha", Hidden: func(name string) bool { return name == "secret.txt" }})
	for _, text := range sent(s) {
		if strings.HasPrefix(text, "secret.txt") || strings.HasPrefix(text, "ignored.txt") {
			t.Errorf("sent %q", text)
		}
	}
}

// TestEndpointFails checks that the keywords' order stays when the endpoint
// fails, and that pieces which were embedded before the failure are kept.
func TestEndpointFails(t *testing.T) {
	x, _, s := meant(t, map[string]string{"boat.txt": "repair the wooden hull and paint over every plank below\n", "engine.txt": "maintenance of an automobile\n"})
	s.Synonyms("car", "automobile")
	s.Synonyms("repair", "maintenance")
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusBadRequest} {
		s.Fail(status, 0)
		a := ask(t, x, Query{Text: "repair car"})
		if got := paths(a); !slices.Equal(got, []string{"boat.txt"}) || len(a.Notes) != 1 ||
			!strings.Contains(a.Notes[0], fmt.Sprint("ranked by keywords only, because the embedding endpoint failed: it answered ", status)) || !strings.Contains(a.Notes[0], "had an error") {
			t.Errorf("%d: %q, %q", status, got, a.Notes)
		}
	}
	s.Fail(0, 0)
	for name, reply := range map[string]any{
		"a page": "<html>", "no vectors": map[string]any{"data": []any{}}, "words": map[string]any{"data": []any{map[string]any{"index": 0, "embedding": "x"}}},
	} {
		s.Send(func([][]float32) any { return reply })
		if a := ask(t, x, Query{Text: "repair car"}); !slices.Equal(paths(a), []string{"boat.txt"}) || len(a.Notes) != 1 {
			t.Errorf("%s: %q, %q", name, paths(a), a.Notes)
		}
	}
	s.Send(nil)
	if a := ask(t, x, Query{Text: "repair car"}); paths(a)[0] != "engine.txt" || len(a.Notes) != 0 {
		t.Errorf("when it works again: %q, %q", paths(a), a.Notes)
	}
}

// TestGrowsBySearches checks that one search embeds a limited number of pieces,
// says so, and that the next ones embed the others.
func TestGrowsBySearches(t *testing.T) {
	files := map[string]string{}
	for i := range embedNew + 10 {
		files[fmt.Sprintf("f%04d.txt", i)] = fmt.Sprintf("piece number %d\n", i)
	}
	files["z.txt"] = "only alpha\n"
	x, _, s := meant(t, files)
	a := ask(t, x, Query{Text: "alpha"})
	texts := sent(s)
	if len(texts) != embedNew+1 || !slices.Contains(texts, "z.txt\nonly alpha\n") {
		t.Errorf("sent %d texts, the hit's among them: %v", len(texts), slices.Contains(texts, "z.txt\nonly alpha\n"))
	}
	if want := fmt.Sprintf("11 of %d pieces of code were ranked by keywords only; the next searches include more of them", embedNew+11); !slices.Equal(a.Notes, []string{want}) {
		t.Errorf("notes %q", a.Notes)
	}
	if a = ask(t, x, Query{Text: "alpha"}); len(a.Notes) != 0 || len(sent(s)) != 12 {
		t.Errorf("the second search: %q", a.Notes)
	}
	// A failure in the middle keeps what was embedded.
	for i := range 300 {
		write(t, filepath.Join(x.cfg.Dir, fmt.Sprintf("g%03d.txt", i)), fmt.Sprintf("another piece %d\n", i))
	}
	s.Fail(http.StatusServiceUnavailable, 3)
	a = ask(t, x, Query{Text: "alpha"})
	if len(a.Notes) != 1 || !strings.Contains(a.Notes[0], "503") {
		t.Errorf("after a failure: %q", a.Notes)
	}
	before := len(sent(s))
	s.Fail(0, 0)
	if a = ask(t, x, Query{Text: "alpha"}); len(a.Notes) != 0 || before+len(sent(s)) > 303 {
		t.Errorf("pieces were embedded twice: %q", a.Notes)
	}
}

// TestVectorFile checks that the file stays bounded, drops what is not in use,
// and survives damage.
func TestVectorFile(t *testing.T) {
	dir := t.TempDir()
	open := func() *vectors {
		v, err := openVectors(dir, "m")
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	v := open()
	live := keyOf("live")
	used := func(k vectorKey) bool { return k == live }
	if err := v.add([]vectorKey{live}, [][]float32{{3, 4}}, used); err != nil {
		t.Fatal(err)
	}
	for round := range 4 {
		var keys []vectorKey
		var all [][]float32
		for i := range maxVectors / 2 {
			keys, all = append(keys, keyOf(fmt.Sprint(round, i))), append(all, []float32{1, 0})
		}
		if err := v.add(keys, all, used); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, vectorsName))
	if err != nil || info.Size() > int64(vectorsHead+(maxVectors+maxUnused)*18) || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	v = open()
	near, err := v.near([]float32{6, 8})
	if err != nil || near[live] < 0.999 || len(near) != v.count {
		t.Errorf("%v of %d, %v", near[live], len(near), err)
	}
	if near, err = v.near([]float32{-6, -8}); err != nil || near[live] != 0 {
		t.Errorf("the opposite: %v, %v", near[live], err)
	}
	if _, err = v.near([]float32{1, 2, 3}); err == nil {
		t.Error("a vector of another width was compared")
	}
	good, err := os.ReadFile(v.name)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "half a head": good[:20], "half a record": good[:len(good)-1], "another magic": append([]byte("x"), good[1:]...),
		"huge width": append(slices.Clone(good[:vectorsHead-4]), 0xff, 0xff, 0xff, 0xff), "no width": append(slices.Clone(good[:vectorsHead-4]), 0, 0, 0, 0),
	} {
		if err := os.WriteFile(v.name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		v := open()
		if err := v.add([]vectorKey{live}, [][]float32{{3, 4}}, used); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if near, err := open().near([]float32{3, 4}); err != nil || near[live] < 0.999 {
			t.Errorf("%s: %v, %v", name, near[live], err)
		}
	}
}
