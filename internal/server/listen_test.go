package server

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"aloft/internal/cli"
)

func TestListen(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if at := urlOf(l); at != "http://"+l.Addr().String() {
		t.Errorf("at %s", at)
	}
	taken := l.Addr().String()
	for address, hint := range map[string]string{
		taken: "the port is in use", "8080": "127.0.0.1:8080", "localhost": "127.0.0.1:8080",
		"http://127.0.0.1:8080": "127.0.0.1:8080", "127.0.0.1:99999": "127.0.0.1:8080", "192.0.2.77:0": "0.0.0.0",
	} {
		_, err := Listen(t.Context(), address)
		if p := cli.ProblemOf(err); p.Exit != cli.Failure || !strings.HasPrefix(p.Message, "cannot listen on "+address+": ") || !strings.Contains(p.Hint, hint) {
			t.Errorf("%s: %+v", address, p)
		}
	}
	// Browsers cannot open 0.0.0.0.
	all, err := Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	at := urlOf(all)
	if u, err := url.Parse(at); err != nil || u.Hostname() != "localhost" || u.Port() == "0" {
		t.Errorf("at %s, %v", at, err)
	}
}

// A configuration file from a Windows editor, with a byte order mark and CRLF,
// is accepted.
func TestConfigOfWindows(t *testing.T) {
	file := t.TempDir() + "/aloft.yaml"
	if err := os.WriteFile(file, []byte("\ufeffgit: {allow_file: [/srv/git]}\r\nlimits:\r\n  turns: 3\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := LoadConfig(file, noEnv); err != nil || len(c.Git.AllowFile) != 1 || c.Limits.Turns != 3 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestFoldersOfRepositories(t *testing.T) {
	file := t.TempDir() + "/aloft.yaml"
	for text, want := range map[string]string{
		"true": "list of folders", "[srv/git]": "not an absolute path", "[true]": "list of folders", "/srv/git": "sequence",
		"false": "", "[]": "", "[/srv/git, /home/dev/repositories]": "",
	} {
		if err := os.WriteFile(file, []byte("git:\n  allow_file: "+text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadConfig(file, noEnv)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("allow_file: %s: %v", text, err)
		}
	}
}

// noEnv is an environment that contains only a home folder.
func noEnv(name string) string {
	return map[string]string{"HOME": "/nowhere", "ALOFT_DATA": "/var/lib/aloft"}[name]
}
