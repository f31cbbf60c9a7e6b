package environment_test

import (
	"strings"
	"testing"

	"aloft/internal/environment"
)

func TestPropose(t *testing.T) {
	const id = "snapshot-20260102-11111111-2222-3333-4444-555555555555"
	for _, tt := range []struct {
		name  string
		known environment.Known
		want  string // explanation of the environment without its snapshot
	}{
		{"nothing is known", environment.Known{}, ``},
		{"node", environment.Known{Files: map[string][]byte{"package.json": []byte(`{"scripts":{"dev":"vite"}}`), "package-lock.json": nil}}, "npm ci|npm run dev"},
		{"pnpm", environment.Known{Files: map[string][]byte{"package.json": []byte(`{"scripts":{"watch":"x"}}`), "pnpm-lock.yaml": nil}}, "pnpm install --frozen-lockfile|pnpm run watch"},
		{"go and python", environment.Known{Files: map[string][]byte{"go.mod": nil, "requirements.txt": nil}},
			"go mod download\npython3 -m venv ~/.venv && ~/.venv/bin/pip install -r requirements.txt"},
		{"autotools", environment.Known{Files: map[string][]byte{"configure": nil, "configure.ac": nil, "Makefile": []byte("all:\n")}}, "./configure"},
		{"a target", environment.Known{Files: map[string][]byte{"Makefile": []byte("all:\nbootstrap: x\n")}}, "make bootstrap"},
		{"what was typed counts", environment.Known{
			Files: map[string][]byte{"package.json": []byte("{"), "package-lock.json": nil},
			Typed: []string{"sudo apt-get install -y libpq-dev", "npm install", "ls", " npm ci --ignore-scripts ", "npm install", "rm -rf /", "npm ci \x1b[2J", "./hack/install.sh"},
		}, "npm ci --ignore-scripts\nnpm install\n./hack/install.sh"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.known.Snapshot = id
			e := proposed(t, tt.known)
			got := e.Install
			for _, terminal := range e.Terminals {
				got += "|" + terminal.Command
			}
			if got != tt.want || e.Snapshot != id {
				t.Errorf("%+v", e)
			}
		})
	}
	e := proposed(t, environment.Known{Typed: []string{"sudo service docker start", "service; reboot"}})
	if e.Start != "sudo service docker start" || e.Snapshot != "" {
		t.Errorf("%+v", e)
	}
}

// proposed parses a proposal like a repository's file.
func proposed(t *testing.T, k environment.Known) environment.Environment {
	t.Helper()
	p := environment.Propose(k)
	e, findings := environment.Parse("environment.json", []byte(p.Text))
	if findings.Worst() == environment.Error {
		t.Errorf("%s\n%v", p.Text, findings)
	}
	return e
}

// FuzzPropose checks that every proposal is a valid environment.
func FuzzPropose(f *testing.F) {
	f.Add("npm ci\nmake deps", `{"scripts":{"dev":"x"}}`, "deps:\n")
	f.Fuzz(func(t *testing.T, typed, project, makefile string) {
		e := proposed(t, environment.Known{
			Typed: strings.Split(typed, "\n"), Files: map[string][]byte{"package.json": []byte(project), "Makefile": []byte(makefile)},
		})
		if len(e.Install) > 1<<16 || len(e.Terminals) > 1 {
			t.Errorf("%+v", e)
		}
	})
}
