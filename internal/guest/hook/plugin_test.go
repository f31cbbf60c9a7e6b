package hook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/hook"
)

// TestPluginHooks runs the hooks of a repository's plugins, and of nothing that only
// looks like a plugin.
func TestPluginHooks(t *testing.T) {
	t.Parallel()
	say := func(word string) string {
		return file(hook.SessionStart, command(`echo "`+word+` $CURSOR_PLUGIN_ROOT" >>"$CURSOR_PROJECT_DIR/said"; echo '{}'`))
	}
	const manifest = "/.cursor-plugin/plugin.json"
	p := tree(t, map[string]string{
		"project/.cursor/hooks.json":                             say("project"),
		"project/.cursor/plugins/b" + manifest:                   `{"name":"b"}`,
		"project/.cursor/plugins/b/hooks/hooks.json":             say("b"),
		"project/.cursor/plugins/a" + manifest:                   `{"name":"a"}`,
		"project/.cursor/plugins/a/hooks/hooks.json":             say("a"),
		"project/.aloft/plugins/c" + manifest:                    `{"name":"c"}`,
		"project/.aloft/plugins/c/hooks/hooks.json":              say("c"),
		"project/.cursor/plugins/none/hooks/hooks.json":          say("none"),
		"project/.cursor/plugins/bad" + manifest:                 `{"name":"B A D"}`,
		"project/.cursor/plugins/bad/hooks/hooks.json":           say("bad"),
		"project/.cursor/plugins/escapes" + manifest:             `{"name":"escapes"}`,
		"project" + manifest:                                     `{"name":"root"}`,
		"project/hooks/hooks.json":                               say("root"),
		"outside/hooks.json":                                     say("outside"),
		"outside/plugin" + manifest:                              `{"name":"outside"}`,
		"outside/plugin/hooks/hooks.json":                        say("outside"),
		"home/.cursor/plugins/home" + manifest:                   `{"name":"home"}`,
		"home/.cursor/plugins/home/hooks/hooks.json":             say("home"),
		"project/web/.cursor/plugins/web" + manifest:             `{"name":"web"}`,
		"project/web/.cursor/plugins/web/hooks/hooks.json":       say("web"),
		"project/.cursor/plugins/a/.cursor/plugins/x" + manifest: `{"name":"x"}`,
	})
	outside := filepath.Join(filepath.Dir(p.Project), "outside")
	for link, to := range map[string]string{
		".cursor/plugins/escapes/hooks": outside, ".cursor/plugins/linked": filepath.Join(outside, "plugin"),
	} {
		if err := os.Symlink(to, filepath.Join(p.Project, link)); err != nil {
			t.Fatal(err)
		}
	}
	set := Load(p)
	set.Run(t.Context(), session(p), hook.Input{Event: hook.SessionStart})
	said, err := os.ReadFile(filepath.Join(p.Project, "said"))
	if err != nil {
		t.Fatal(err)
	}
	want := "project \n"
	for _, name := range []string{".cursor/plugins/a", ".cursor/plugins/b", ".aloft/plugins/c"} {
		want += filepath.Base(name) + " " + filepath.Join(p.Project, name) + "\n"
	}
	if string(said) != want {
		t.Errorf("the hooks said\n%swant\n%s", said, want)
	}
	if warned := strings.Join(set.Warnings, "\n"); len(set.Warnings) != 2 || !strings.Contains(warned, "bad") || !strings.Contains(warned, "escapes") {
		t.Errorf("warnings %q", set.Warnings)
	}
}
