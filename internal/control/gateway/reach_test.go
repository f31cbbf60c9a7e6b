package gateway_test

import (
	"slices"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
)

// TestReach checks that dependencies and, recursively, submodules are granted
// as far as the rules allow, and that refusals are reported.
func TestReach(t *testing.T) {
	w := newWorld(t)
	lib, deep := w.Repo("lib", map[string]string{".gitmodules": "[submodule \"d\"]\n\tpath = d\n\turl = ../deep.git\n"}), w.Repo("deep", map[string]string{"a": "a"})
	app := w.Repo("app", map[string]string{".gitmodules": "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n[submodule \"x\"]\n\tpath = x\n\turl = git@elsewhere.example:o/x.git\n[submodule \"f\"]\n\turl = file:///etc\n\turl = --upload-pack=x\n"})
	own := []gateway.Source{{URL: app}}
	host := strings.TrimPrefix(w.URL, "http://")
	for name, tt := range map[string]struct {
		req     gateway.ReachRequest
		read    []string
		refused []string
	}{
		"OwnersOnly": {gateway.ReachRequest{Own: own, Named: []string{host + "/named", "https://elsewhere.example/o/y", "http://" + host + "/o/owned", "no repository"}},
			[]string{w.URL + "/named", lib, deep}, []string{"https://elsewhere.example/o/y is not available to this agent", "/o/owned is not available to this agent", "no repository cannot be read"}},
		"None":    {gateway.ReachRequest{Own: own, Ruled: true, Named: []string{host + "/named"}}, nil, []string{"git.dependencies"}},
		"Allowed": {gateway.ReachRequest{Own: own, Ruled: true, Allow: []string{host + "/lib", "elsewhere.example/o"}}, []string{lib, "ssh://git@elsewhere.example/o/x.git"}, nil},
		"ByScheme": {gateway.ReachRequest{Own: own, Ruled: true, Allow: []string{"https://elsewhere.example"}, Named: []string{"elsewhere.example/q", "elsewhere.example.evil/q", "file:///etc/x"}},
			[]string{"https://elsewhere.example/q"}, []string{"evil", "file:///etc/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.gw.Reach(t.Context(), tt.req)
			if !slices.Equal(got.Read, tt.read) {
				t.Errorf("granted %q, want %q", got.Read, tt.read)
			}
			if len(got.Refused) != len(tt.refused) {
				t.Fatalf("refused %q", got.Refused)
			}
			for i, want := range tt.refused {
				if !strings.Contains(got.Refused[i], want) {
					t.Errorf("%q does not say %q", got.Refused[i], want)
				}
			}
		})
	}
}

// TestSubmoduleByAnotherProtocol checks that a grant applies to one repository
// under any protocol, and to no other repository.
func TestSubmoduleByAnotherProtocol(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"a": "a"})
	m := w.machine(t, gateway.Grant{Repos: []string{url}})
	m.git("", "clone", "--quiet", "ssh://git@127.0.0.1/r.git", "r")
	m.fails("", []string{"clone", "ssh://git@127.0.0.1/s.git"}, "may not use the repository", "repositoryDependencies")
	m.fails("", []string{"clone", "http://127.0.0.1:1/r.git", "other-port"}, "may not use the repository")
}
