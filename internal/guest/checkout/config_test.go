package checkout

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/need"
)

const gateway = "http://127.0.0.1:26499"

// resolved returns the URL that git with the configuration would request for
// repo.
func resolved(t *testing.T, c Config, repo string) string {
	t.Helper()
	text, err := c.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(need.Command(t, "git"), "ls-remote", "--get-url", repo)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_SYSTEM="+file, "GIT_CONFIG_GLOBAL=/dev/null")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestConfigLeadsToTheGateway(t *testing.T) {
	t.Parallel()
	tests := []struct{ run, asked, want string }{
		{"https://github.com/o/r", "https://github.com/o/r", "/https/github.com/o/r"},
		{"https://github.com/o/r", "https://other.example/x.git", "/https/other.example/x.git"},
		{"https://github.com/o/r", "http://other.example:81/x.git", "/http/other.example:81/x.git"},
		{"https://github.com/o/r", "git@github.com:o/sub.git", "/ssh/git@github.com/o/sub.git"},
		{"https://github.com/o/r", "ssh://git@h.example/o/r", "/ssh/git@h.example/o/r"},
		{"http://127.0.0.1:8080/o/r.git", "http://127.0.0.1:8080/o/r.git", "/http/127.0.0.1:8080/o/r.git"},
		{"ssh://git@h.example/o/r", "ssh://git@h.example/o/r", "/ssh/git@h.example/o/r"},
		{"dev@h.example:o/r.git", "dev@h.example:o/r.git", "/ssh/dev@h.example/o/r.git"},
		{"h.example:o/r.git", "h.example:o/r.git", "/ssh/h.example/o/r.git"},
		{"file:///srv/x.git", "file:///srv/x.git", "/file/srv/x.git"},
	}
	for _, tt := range tests {
		if got := resolved(t, Config{Gateway: gateway, RepoURLs: []string{tt.run}, CredentialFile: "/none"}, tt.asked); got != gateway+tt.want {
			t.Errorf("run of %s: %s is asked as %s, want %s", tt.run, tt.asked, got, gateway+tt.want)
		}
	}
	// URLs of the machine's own files are not rewritten.
	for _, local := range []string{"file:///workspace", "/workspace"} {
		if got := resolved(t, Config{Gateway: gateway, RepoURLs: []string{"https://github.com/o/r"}}, local); got != local {
			t.Errorf("%s is asked as %s", local, got)
		}
	}
}

func TestConfigKeepsOddValues(t *testing.T) {
	t.Parallel()
	text, err := Config{Gateway: gateway, AuthorName: `A "B" \ #c; d`, AuthorEmail: "x", CredentialFile: "/none"}.Text()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(need.Command(t, "git"), "config", "--file", file, "user.name").Output()
	if err != nil || string(out) != `A "B" \ #c; d`+"\n" {
		t.Errorf("git reads %q, %v", out, err)
	}
	if _, err := (Config{AuthorName: "a\n[core]\n\tsshCommand = x"}).Text(); err == nil {
		t.Error("a line break got into the configuration")
	}
	if _, err := Credential(gateway, "a\nb"); err == nil {
		t.Error("a line break got into the credential")
	}
}
