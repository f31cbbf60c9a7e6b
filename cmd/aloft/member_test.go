package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/cli"
)

// TestTeamCommands tests the requests and the output of the commands for the
// team.
func TestTeamCommands(t *testing.T) {
	replies := map[string]string{
		"GET /v1/members":                    `{"items":[{"id":3,"email":"ada@example.com","firstName":"Ada","role":"admin","disabled":true}]}`,
		"POST /v1/members":                   `{"member":{"id":4,"email":"g@example.com","role":"viewer"},"link":{"url":"http://a/sign-in#link=x","expiresAt":"2030-01-02T03:04:05Z"}}`,
		"PATCH /v1/members/3":                `{"id":3,"email":"ada@example.com","role":"member","disabled":true}`,
		"POST /v1/members/3/link":            `{"url":"http://a/sign-in#link=y","expiresAt":"2030-01-02T03:04:05Z"}`,
		"GET /v1/me/keys":                    `{"items":[{"id":7,"kind":"key","name":"laptop","current":true,"createdAt":"2026-01-02T03:04:05Z"}]}`,
		"POST /v1/me/keys":                   `{"id":8,"kind":"key","name":"deploy","createdAt":"2026-01-02T03:04:05Z","key":"aloft_new"}`,
		"DELETE /v1/me/keys/7":               ``,
		"GET /v1/settings":                   `{"defaultModel":"","retentionDays":30,"privacyMode":true,"displayAgentSummary":false}`,
		"PATCH /v1/settings":                 `{"defaultModel":"m","retentionDays":0}`,
		"GET /v1/repository-access":          `{"mode":"credentials","everyone":["git.test/o/r"],"members":[{"userId":3,"repositories":["git.test/a/*"]}]}`,
		"PATCH /v1/repository-access":        `{"mode":"allow-list","everyone":["git.test/o/r"],"members":[]}`,
		"GET /v1/usage/disk":                 `{"people":[{"userId":3,"user":"Ada","bytes":3145728,"inodes":7},{"userId":0,"bytes":1048576,"inodes":1}],"items":[{"kind":"machine","id":"m-1","agentId":"bc-1","userId":3,"bytes":2097152,"inodes":6},{"kind":"journal","id":"bc-1","agentId":"bc-1","userId":3,"bytes":1048576,"inodes":1}],"quotaBytes":4194304}`,
		"GET /v1/usage":                      `{"from":"2026-01-01","to":"2026-01-02","items":[{"day":"2026-01-01","user":"Ada","runs":1,"turns":2,"inputTokens":3,"outputTokens":4},{"day":"2026-01-02","user":"Ada","runs":10,"turns":20,"inputTokens":30,"outputTokens":40,"cacheReadTokens":5}]}`,
		"GET /v1/rules/team/skills-draft.md": `{"text":"draft"}`, "POST /v1/team/skills/publish": `{"text":"draft"}`,
		"GET /v1/team/skills/versions":                 `{"items":[{"userId":3,"createdAt":"2026-01-02T03:04:05Z","current":true,"text":"now"}]}`,
		"GET /v1/memories":                             `{"repositories":["git.test/o/r"],"items":[{"id":"mem-1","repository":"git.test/o/r","status":"proposed","proposal":{"action":"create","title":"Build","text":"make"},"revision":3}]}`,
		"GET /v1/memories?repository=git.test%2Fo%2Fr": `{"repositories":[],"items":[]}`,
		"GET /v1/memories/mem-1":                       `{"id":"mem-1","repository":"git.test/o/r","status":"approved","title":"Build","text":"make\u001b[31m","proposal":{"action":"update","title":"Build","text":"ninja","author":{"agentId":"bc-1"}},"revision":3}`,
		"PATCH /v1/memories/mem-1":                     `{"id":"mem-1"}`, "POST /v1/memories/mem-1/approve": `{"id":"mem-1"}`, "POST /v1/memories/mem-1/reject": `{"id":"mem-1"}`, "DELETE /v1/memories/mem-1?revision=3": `{"id":"mem-1"}`,
		"GET /v1/audit?limit=2": `{"items":[{"id":1,"time":"2026-01-02T03:04:05Z","address":"192.0.2.1","action":"signIn","target":"eve@example.com","outcome":"unauthorized"}]}`,
	}
	var asked, body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		asked, body = r.Method+" "+r.URL.RequestURI(), string(data)
		_, _ = io.WriteString(w, replies[asked])
	}))
	defer server.Close()
	for _, tt := range []struct {
		args  string
		exit  int
		asked string
		body  string
		says  string
	}{
		{"member list", cli.OK, "GET /v1/members", "", "admin, disabled"},
		{"member invite g@example.com --role viewer", cli.OK, "POST /v1/members", `"role":"viewer"`, "http://a/sign-in#link=x\n"},
		{"member update 3 --role member --disable", cli.OK, "PATCH /v1/members/3", `{"role":"member","disabled":true}`, "3 ada@example.com: member, disabled"},
		{"member update 3 --enable", cli.OK, "PATCH /v1/members/3", `{"disabled":false}`, ""},
		{"member update 3", cli.Usage, "", "", "nothing to change"},
		{"member update ada --disable", cli.Usage, "", "", "invalid ID"},
		{"member link 3", cli.OK, "POST /v1/members/3/link", "", "http://a/sign-in#link=y\n"},
		{"key list", cli.OK, "GET /v1/me/keys", "", "laptop (this one)"},
		{"key create deploy --days 9", cli.OK, "POST /v1/me/keys", `"expiresInDays":9`, "aloft_new\n"},
		{"key delete 7", cli.OK, "DELETE /v1/me/keys/7", "", "Deleted 7."},
		{"settings", cli.OK, "GET /v1/settings", "", "privacy-mode"},
		{"settings set default-model m", cli.OK, "PATCH /v1/settings", `{"defaultModel":"m"}`, "default-model"},
		{"settings set fix-failed-checks off", cli.OK, "PATCH /v1/settings", `{"fixFailedChecks":false}`, ""},
		{"settings set privacy-mode off", cli.OK, "PATCH /v1/settings", `{"privacyMode":false}`, ""},
		{"settings set retention-days 0", cli.OK, "PATCH /v1/settings", `{"retentionDays":0}`, ""},
		{"settings set machine-retention-days 7", cli.OK, "PATCH /v1/settings", `{"machineRetentionDays":7}`, "machine-retention-days"},
		{"settings set retention-days x", cli.Usage, "", "", "invalid number"},
		{"settings set privacy-mode maybe", cli.Usage, "", "", "must be on or off"},
		{"settings set nothing x", cli.Usage, "", "", "unknown setting"},
		{"access", cli.OK, "GET /v1/repository-access", "", "In force: credentials"},
		{"access use allow-list", cli.OK, "PATCH /v1/repository-access", `{"mode":"allow-list"}`, "In force: allow-list"},
		{"access allow git.test/o/x", cli.OK, "PATCH /v1/repository-access", `{"everyone":["git.test/o/r","git.test/o/x"]}`, "all members"},
		{"access allow git.test/b/* --member 3", cli.OK, "PATCH /v1/repository-access", `{"members":[{"userId":3,"repositories":["git.test/a/*","git.test/b/*"]}]}`, ""},
		{"access remove git.test/a/* --member ada@example.com", cli.OK, "PATCH /v1/repository-access", `{"members":[{"userId":3,"repositories":[]}]}`, ""},
		{"access remove git.test/o/x", cli.NotFound, "GET /v1/repository-access", "", "is not on that list"},
		{"access allow git.test/o/x --member eve@example.com", cli.Usage, "GET /v1/members", "", "no member"},
		{"usage --by person", cli.OK, "GET /v1/usage", "", "Ada     11    22     33     5       44"},
		{"usage disk", cli.OK, "GET /v1/usage/disk", "", "Ada         3.0  7"},
		{"usage disk --by agent", cli.OK, "GET /v1/usage/disk", "", "bc-1   3.0  7"},
		{"usage disk --by moon", cli.Usage, "", "", "must be person"},
		{"usage --by moon", cli.Usage, "", "", "must be day, person"},
		{"memory", cli.OK, "GET /v1/memories", "", "mem-1  git.test/o/r  Build  create"},
		{"memory list --repo git.test/o/r", cli.OK, "GET /v1/memories?repository=git.test%2Fo%2Fr", "", "aloft settings set memory review"},
		{"memory show mem-1", cli.OK, "GET /v1/memories/mem-1", "", "Waits for approval: update, by agent bc-1\nBuild\nninja\n"},
		{"memory edit mem-1 -", cli.OK, "PATCH /v1/memories/mem-1", `{"revision":3,"text":"","title":"Build"}`, "Changed mem-1."},
		{"memory approve mem-1", cli.OK, "POST /v1/memories/mem-1/approve", `{"revision":3}`, "Approved mem-1."},
		{"memory approve mem-1 --revision 2", cli.OK, "POST /v1/memories/mem-1/approve", `{"revision":2}`, ""},
		{"memory reject mem-1", cli.OK, "POST /v1/memories/mem-1/reject", `{"revision":3}`, "Rejected mem-1."},
		{"memory delete mem-1", cli.OK, "DELETE /v1/memories/mem-1?revision=3", "", "Deleted mem-1."},
		{"settings set memory review", cli.OK, "PATCH /v1/settings", `{"memory":"review"}`, ""},
		{"settings set memory-repositories git.test/o/r", cli.OK, "PATCH /v1/settings", `{"memoryRepositories":["git.test/o/r"]}`, ""},
		{"rules publish", cli.OK, "POST /v1/team/skills/publish", `{"text":"draft"}`, "Published"},
		{"rules versions", cli.OK, "GET /v1/team/skills/versions", "", "member 3"},
		{"rules versions 1", cli.OK, "GET /v1/team/skills/versions", "", "now\n"},
		{"rules versions 2", cli.Usage, "GET /v1/team/skills/versions", "", "no version"},
		{"audit --limit 2", cli.OK, "GET /v1/audit?limit=2", "", "eve@example.com"},
	} {
		asked, body = "", ""
		env := func(name string) string {
			return map[string]string{"ALOFT_URL": server.URL, "ALOFT_API_KEY": "aloft_test", "HOME": t.TempDir()}[name]
		}
		var out bytes.Buffer
		exit := run(t.Context(), strings.Fields(tt.args), env, strings.NewReader(""), &out, &out)
		if exit != tt.exit || asked != tt.asked || !strings.Contains(body, tt.body) || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%s: exit %d, asked %q with %q:\n%s", tt.args, exit, asked, body, out.String())
		}
	}
}
