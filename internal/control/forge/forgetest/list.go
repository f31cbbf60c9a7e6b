package forgetest

import (
	"context"
	"fmt"
	"testing"

	"aloft/internal/control/forge"
)

// archived is a repository that every server lists as archived.
var archived = forge.Repo{Path: "acme/archived"}

// listed returns the repositories that the token can access.
func (s *Server) listed() []forge.Repo {
	all, _ := s.Fake.Repositories(context.Background(), forge.Repo{}) // never fails
	return append([]forge.Repo{archived}, all...)
}

// repositories checks a list of repositories that needs several pages.
func repositories(t *testing.T, h Host) {
	want := []string{h.Repo.Path}
	if h.Add != nil {
		for n := range 7 {
			path := fmt.Sprintf("team/service-%d", n)
			h.Add(t, path)
			want = append(want, path)
		}
	}
	all, err := h.Forge.(forge.Listing).Repositories(t.Context(), forge.Repo{Host: h.Repo.Host})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range all {
		if got[r.Path]++; r.Host != h.Repo.Host || r.Path == archived.Path || got[r.Path] > 1 {
			t.Errorf("listed %v", r)
		}
	}
	for _, path := range want {
		if got[path] != 1 {
			t.Errorf("%s is not listed", path)
		}
	}
	if h.Add != nil && len(all) != len(want) {
		t.Errorf("listed %v, want %v", all, want)
	}
}
