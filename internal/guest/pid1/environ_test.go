package pid1

import (
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
