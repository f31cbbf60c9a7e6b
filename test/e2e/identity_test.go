package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// A program in a machine proves to which agent it belongs. The third party that
// checks the proof trusts only the server.
func TestMachineHasAnIdentity(t *testing.T) {
	t.Parallel()
	need.Command(t, "curl")
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "curl -s --unix-socket $CURSOR_AGENT_SOCKET http://localhost/v1/tokens/oidc -d '{\"aud\":\"https://vault.test\",\"nonce\":\"n-1\",\"agent\":\"bc-another\"}' > token.json; head -c 9 token.json"}}
      - text: Done.
`))
	r := a.finish(a.create(url, "Say who you are", nil))
	var reply struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(gittest.Git(t, git.Path("r"), "show", pushed(t, r)+":token.json")), &reply); err != nil {
		t.Fatal(err)
	}
	provider, err := oidc.NewProvider(t.Context(), a.URL)
	if err != nil {
		t.Fatal(err)
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: "https://vault.test"}).Verify(t.Context(), reply.Token)
	if err != nil {
		t.Fatal(err)
	}
	var claims struct{ Agent, Run, Owner, Branch string }
	if err := token.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if claims.Agent != r.AgentID || claims.Run != r.ID || claims.Owner != "1" || claims.Branch != pushed(t, r) || token.Nonce != "n-1" ||
		!strings.HasSuffix(token.Subject, ":agent:"+r.AgentID) || !token.Expiry.Equal(reply.ExpiresAt) {
		t.Errorf("token %+v, %+v", token, claims)
	}
}

// Files in the agent's artifacts folder can be downloaded while the agent
// works, and after its machine is gone.
func TestArtifactsOutliveTheMachine(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	a := start(t, scripted(t, `
scripts:
  - turns:
      - calls:
          - {tool: Shell, args: {command: "mkdir -p /opt/cursor/artifacts/deep; cd /opt/cursor/artifacts; printf hello > deep/report.txt; ln -s /etc/passwd link; head -c 9000000 /dev/zero > large; touch ../../made; printf 'bad' > \"$(printf 'n\\nl')\""}}
      - calls:
          - {tool: Shell, args: {command: "while [ ! -e /tmp/seen ]; do sleep 0.1; done"}}
      - text: Done.
`))
	r := a.create(url, "Make a report", nil)
	list := func() string {
		_, body := a.do("GET", "/v1/agents/"+r.AgentID+"/artifacts", nil)
		return body
	}
	eventually(t, "the artifact of an agent that works", func() bool { return strings.Contains(list(), "artifacts/deep/report.txt") })
	if out, err := a.command(t.Context(), "agent", "exec", r.AgentID, "--", "touch", "/tmp/seen").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a.finish(r)
	if status, body := a.do("POST", "/v1/agents/"+r.AgentID+"/archive", nil); status != 200 {
		t.Fatalf("archive: %d %s", status, body)
	}
	a.Kill()
	a.Start()
	if got := list(); strings.Contains(got, "link") || strings.Contains(got, "nl") || !strings.Contains(got, `"sizeBytes":9000000`) {
		t.Errorf("the list is %s", got)
	}
	folder := t.TempDir()
	if out, err := a.command(t.Context(), "agent", "artifacts", r.AgentID, "--download", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if b, err := os.ReadFile(filepath.Join(folder, "deep/report.txt")); err != nil || string(b) != "hello" {
		t.Errorf("the report holds %q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(folder, "large")); err != nil || info.Size() != 9_000_000 {
		t.Errorf("the large one: %v, %v", info, err)
	}
}
