package agent

import (
	"slices"
	"testing"
)

func TestFolders(t *testing.T) {
	for _, tt := range []struct{ urls, want []string }{
		{nil, []string{"/workspace"}},
		{[]string{"https://h/o/app.git"}, []string{"/workspace"}},
		{[]string{"https://h/o/app.git", "git@h:api", "ssh://h/x/../..git"}, []string{"/workspace/app", "/workspace/api", "/workspace/repository"}},
		{[]string{"https://h/a/x", "https://h/b/X/", "https://h/c/x-2", "https://h/d/x"}, []string{"/workspace/x", "/workspace/X-2", "/workspace/x-2-2", "/workspace/x-3"}},
		{[]string{"https://h/a/.git", "https://h/a/%2e%2e", "https://h/a/-rf"}, []string{"/workspace/repository", "/workspace/2e-2e", "/workspace/rf"}},
	} {
		var repos []Repo
		for _, u := range tt.urls {
			repos = append(repos, Repo{URL: u})
		}
		if got := Folders(repos); !slices.Equal(got, tt.want) {
			t.Errorf("%v: got %v, want %v", tt.urls, got, tt.want)
		}
	}
}
