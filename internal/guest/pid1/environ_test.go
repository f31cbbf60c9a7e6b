package pid1

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	t.Parallel()
	user := User{Name: "ubuntu", UID: 1000, Home: "/home/ubuntu", Shell: "/bin/zsh"}
	there := []string{"/usr/local/go/bin", "/usr/bin", "/bin", caBundle}
	exists := func(path string) bool { return slices.Contains(there, path) }
	image := []string{"PATH=/opt/tool/bin:/usr/bin", "HOME=/root", "LANG=de_DE.UTF-8", "ALOFT_POD_SOCKET=/s", "KEPT=image", "OVER=image", "=odd"}
	got := Environ(image, user, map[string]string{"OVER": "given", "NO_COLOR": "0"}, "/aloft/bin", exists)
	want := []string{
		"CURSOR_AGENT=1",
		"FORCE_COLOR=0",
		"GIT_DISCOVERY_ACROSS_FILESYSTEM=0",
		"GIT_LFS_SKIP_SMUDGE=1",
		"HOME=/home/ubuntu",
		"HOSTNAME=cursor",
		"KEPT=image",
		"LANG=de_DE.UTF-8",
		"LOGNAME=ubuntu",
		"NODE_EXTRA_CA_CERTS=" + caBundle,
		"NO_COLOR=0",
		"OVER=given",
		"PATH=/opt/tool/bin:/usr/bin:/usr/local/go/bin:/bin:/aloft/bin",
		"REQUESTS_CA_BUNDLE=" + caBundle,
		"SHELL=/bin/zsh",
		"SSL_CERT_FILE=" + caBundle,
		"TERM=xterm-256color",
		"USER=ubuntu",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOwnEnviron checks the table in docs/guide/environments.md: every variable
// reaches the agent's commands, and none reaches Aloft's own programs.
func TestOwnEnviron(t *testing.T) {
	t.Parallel()
	user := User{Name: "ubuntu", UID: 1000, Home: "/home/ubuntu", Shell: "/bin/bash"}
	page, err := os.ReadFile("../../../docs/guide/environments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range []string{
		"PATH", "HOME, USER, SHELL", "LD_PRELOAD, LD_LIBRARY_PATH, LD_AUDIT", "GIT_*", "BASH_ENV, ENV, PROMPT_COMMAND", "NODE_OPTIONS, NODE_EXTRA_CA_CERTS", "PYTHON*",
		"TMUX*", "SSH_*", "XDG_*", "TMPDIR", "GODEBUG, GOTRACEBACK", "RIPGREP_CONFIG_PATH, CTAGS", "HTTP_PROXY, HTTPS_PROXY", "EXEC_DAEMON_*",
	} {
		if !strings.Contains(string(page), "| `"+strings.ReplaceAll(names, ", ", "`, `")+"` |") {
			t.Errorf("the page does not say what holds for %s", names)
		}
		for name := range strings.SplitSeq(names, ", ") {
			for _, full := range []string{strings.Replace(name, "*", "_CONFIG", 1), strings.Replace(name, "*", "PATH", 1)} {
				agents := Environ([]string{"PATH=/usr/bin"}, user, map[string]string{full: "/workspace/evil"}, "/aloft/bin", func(string) bool { return true })
				if !slices.Contains(agents, full+"=/workspace/evil") {
					t.Errorf("the agent's commands do not have %s", full)
				}
				own := OwnEnviron(Environ([]string{"PATH=/usr/bin", "LD_PRELOAD=/image.so"}, user, nil, "/aloft/bin", func(string) bool { return true }), user, "/workspace")
				for _, kv := range own {
					if strings.Contains(kv, "evil") || strings.HasPrefix(kv, "LD_PRELOAD=") {
						t.Errorf("programs of our own have %s", kv)
					}
				}
			}
		}
	}
	own := OwnEnviron([]string{"PATH=/workspace/bin:/home/ubuntu/.local/bin:relative::/usr/bin:/tmp/x:/opt/tool/bin", "GIT_SSH_COMMAND=evil", "LANG=C"}, user, "/workspace")
	if want := []string{"PATH=/usr/bin:/opt/tool/bin", "LANG=C"}; !slices.Equal(own, want) {
		t.Errorf("got %q, want %q", own, want)
	}
}
