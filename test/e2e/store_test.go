package e2e

import (
	"net/http"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/control/store/postgres/postgrestest"
)

// PostgreSQL is killed during a call, and the server is killed while the
// database is down. New requests fail in the meantime, but the run continues to
// its end.
func TestStoreGoesAway(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("crash", map[string]string{"README.md": "crash\n"})
	database := postgrestest.Start(t, true)
	a := start(t, scripted(t, crashScript), "ALOFT_STORE="+strings.Replace(database.URL("postgres"), "aloft@", "aloft:pearl-of-the-sea@", 1))
	r := a.create(url, "Write one line", nil)
	seen := &watcher{t: t}
	in := output("tick 3")
	a.stream(r, "", func(f frame) bool {
		seen.take(f)
		return !in(f, seen.text)
	})
	database.Kill()
	if code, body := a.do(http.MethodPost, "/v1/agents", object{"prompt": object{"text": "More"}}); code != http.StatusServiceUnavailable || !strings.Contains(body, "store_unreachable") {
		t.Errorf("new work is answered with %d %s", code, body)
	}
	logged := a.log.String()
	a.Kill()
	if err := database.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Start()
	for !seen.done {
		a.stream(r, seen.last, func(f frame) bool { seen.take(f); return true })
	}
	r = a.finish(r)
	if seen.text != crashWords {
		t.Errorf("the client has read %q", seen.text)
	}
	if got := gittest.Git(t, git.Path("crash"), "show", pushed(t, r)+":ran.txt"); got != "ran" {
		t.Errorf("the command ran %d times", strings.Count(got, "ran"))
	}
	if strings.Contains(logged+a.log.String(), "pearl-of") {
		t.Error("the log has the password of the store")
	}
}
