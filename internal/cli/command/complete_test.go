package command

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCompletion completes environments by id in arguments and by name after
// --env. Without a server it must complete nothing.
func TestCompletion(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/environments" {
			t.Errorf("request of %s", r.URL)
		}
		_, _ = w.Write([]byte(`{"items":[{"id":"env-1","name":"Shop"}]}`))
	}))
	complete := func(args ...string) string {
		a := &App{Config: NewConfig(func(name string) string {
			return map[string]string{"ALOFT_URL": server.URL, "ALOFT_API_KEY": "k"}[name]
		})}
		run := func(*cobra.Command, []string) {}
		root, env, show := &cobra.Command{Use: "aloft"}, &cobra.Command{Use: "env"}, &cobra.Command{Use: "build ENVIRONMENT|REPO", Run: run}
		start := &cobra.Command{Use: "run PROMPT", Run: run}
		start.Flags().String("env", "", "")
		env.AddCommand(show)
		root.AddCommand(env, start)
		a.AddCompletion(root)
		var out strings.Builder
		root.SetOut(&out)
		root.SetErr(&strings.Builder{})
		root.SetArgs(append([]string{"__complete"}, args...))
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(out.String(), "\n")
		return first
	}
	if got := complete("env", "build", ""); got != "env-1\tShop" {
		t.Errorf("argument: %q", got)
	}
	if got := complete("run", "--env", ""); got != "Shop\tenv-1" {
		t.Errorf("flag: %q", got)
	}
	server.Close()
	if got := complete("env", "build", ""); got != ":4" { // only the directive that disables file names
		t.Errorf("without a server: %q", got)
	}
}
