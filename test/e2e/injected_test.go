package e2e

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Secrets reach only the machine. A changed secret reaches the next run of a
// running machine. Its old value stays redacted, even after kill -9.
func TestSecretsReachTheMachineAndNothingElse(t *testing.T) {
	t.Parallel()
	const team, own, ownLater, call = "team-value-0001", "own-value-000002", "own-value-later-03", "call-value-00004"
	a := start(t, scripted(t, `
scripts:
  - match: show
    turns:
      - calls:
          - {tool: Shell, args: {command: "echo team=$TEAM_TOKEN own=$OWN_TOKEN call=$CALL_TOKEN mode=$MODE build=[$BUILD_TOKEN]; echo names=$CLOUD_AGENT_INJECTED_SECRET_NAMES; echo parts=${TEAM_TOKEN%%-*},${OWN_TOKEN%-0*},${OWN_TOKEN##*-},${CALL_TOKEN%%-*}; echo old=$(cat /tmp/old 2>/dev/null); printf %s $OWN_TOKEN > /tmp/old"}}
      - text: Shown.
`))
	set := func(path, value, kind string) {
		t.Helper()
		if status, text := a.do("PUT", path, object{"value": value, "type": kind}); status != 200 || strings.Contains(text, value) {
			t.Fatalf("%s: %d %s", path, status, text)
		}
	}
	set("/v1/team/secrets/TEAM_TOKEN", team, "runtime_secret")
	set("/v1/team/secrets/OWN_TOKEN", "shadowed-value-5", "runtime_secret")
	set("/v1/secrets/OWN_TOKEN", own, "runtime_secret")
	set("/v1/secrets/MODE", "plain-to-see", "environment_variable")
	set("/v1/team/secrets/BUILD_TOKEN", "build-value-000006", "build_secret")
	first := a.finish(a.create("", "show", object{"envVars": object{"CALL_TOKEN": call}}))
	wantLines(t, a.events(first.AgentID),
		"team=[REDACTED] own=[REDACTED] call=[REDACTED] mode=plain-to-see build=[]",
		"names=CALL_TOKEN,OWN_TOKEN,TEAM_TOKEN", "parts=team,own-value,000002,call", "old=")

	set("/v1/secrets/OWN_TOKEN", ownLater, "runtime_secret")
	if status, _ := a.do("DELETE", "/v1/team/secrets/TEAM_TOKEN", nil); status != 200 {
		t.Fatal(status)
	}
	second := a.finish(a.followUp(first, "show"))
	_, later, _ := strings.Cut(a.events(first.AgentID), second.ID)
	wantLines(t, later,
		"team= own=[REDACTED] call=[REDACTED] mode=plain-to-see build=[]", "names=CALL_TOKEN,OWN_TOKEN", "old=[REDACTED]")
	if status, text := a.do("POST", "/v1/team/secrets-rotation", nil); status != 200 {
		t.Fatal(status, text)
	}
	a.Kill()
	a.Start()
	a.finish(a.followUp(first, "show"))
	values := []string{team, own, ownLater, call, "shadowed-value-5", "build-value-000006"}
	for _, value := range values {
		if strings.Contains(a.events(first.AgentID), value) {
			t.Errorf("%s is in the journal", value)
		}
	}
	// ssh's output is redacted, but a downloaded file that contains a secret is
	// unchanged.
	v := a.visitor()
	if out, code := v.run(v.command(nil, "ssh", first.AgentID, "echo; cat /tmp/old; echo; env")); code != 0 || !strings.Contains(out, "\n[REDACTED]\n") ||
		!strings.Contains(out, "\nOWN_TOKEN=[REDACTED]\n") || strings.Contains(out, "\nTEAM_TOKEN=") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	v.want("", v.command(nil, "scp", "-q", first.AgentID+":/tmp/old", v.home+"/old"))
	if got, err := os.ReadFile(v.home + "/old"); err != nil || string(got) != ownLater {
		t.Errorf("fetched %q, %v", got, err)
	}
	// The agent itself wrote /tmp/old.
	a.Stop()
	for _, value := range values {
		if strings.Contains(a.log.String(), value) {
			t.Errorf("%s is in the log", value)
		}
	}
	nowhere(t, a.Data, values, func(path string) bool { return filepath.Base(path) == "old" })
}

func wantLines(t *testing.T, events string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(events, line) {
			t.Errorf("%q is not in the journal:\n%s", line, events)
		}
	}
}

// nowhere fails if a file below dir, or an argument of any process, contains
// one of the values. dir includes the machine's disk and the server's log.
func nowhere(t *testing.T, dir string, values []string, but func(path string) bool) {
	t.Helper()
	look := func(path string, data []byte) {
		for _, value := range values {
			if bytes.Contains(data, []byte(value)) {
				t.Errorf("%s holds %s", path, value)
			}
		}
	}
	read := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || but(path) {
			return nil //nolint:nilerr // a file that is gone contains nothing
		}
		if info, err := d.Info(); err != nil || info.Size() > 64<<20 {
			return nil //nolint:nilerr // a file that is gone contains nothing
		}
		if data, err := os.ReadFile(path); err == nil {
			read++
			look(path, data)
		}
		return nil
	})
	if err != nil || read < 5 {
		t.Fatalf("%d files were read, %v", read, err)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatal(lines, err)
	}
	for _, path := range lines {
		if data, err := os.ReadFile(path); err == nil {
			look(path, data)
		}
	}
}

// The role's credentials reach the machine, and the server renews them there
// before they expire.
func TestAWSRoleIsRenewedInTheMachine(t *testing.T) {
	t.Parallel()
	var given atomic.Int64 // number of credentials issued
	sts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := given.Add(1)
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIAEXAMPLE%d</AccessKeyId><SecretAccessKey>assumed-secret-%d</SecretAccessKey><SessionToken>assumed-token-%d</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`,
			n, n, n, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339Nano))
	}))
	defer sts.Close()
	a := start(t, scripted(t, `
scripts:
  - match: assume
    turns:
      - calls: [{tool: Shell, args: {command: "echo first ${AWS_SESSION_TOKEN##*-} all $AWS_SESSION_TOKEN $AWS_SECRET_ACCESS_KEY"}}]
      - calls: [{tool: Shell, args: {command: "echo then ${AWS_SESSION_TOKEN##*-} all $AWS_SESSION_TOKEN $AWS_SECRET_ACCESS_KEY"}}]
      - text: Assumed.
`)+fmt.Sprintf("\nsecrets: {aws: {region: eu-west-1, endpoint: %q}}\n", sts.URL), "AWS_ACCESS_KEY_ID=AKIASERVER", "AWS_SECRET_ACCESS_KEY=the-servers-own", "AWS_EC2_METADATA_DISABLED=true")
	if status, text := a.do("PUT", "/v1/secrets/CURSOR_AWS_ASSUME_IAM_ROLE_ARN", object{"value": "arn:aws:iam::123456789012:role/agents", "type": "environment_variable"}); status != 200 {
		t.Fatal(status, text)
	}
	r := a.create("", "assume", object{"runMode": "allowlist"})
	a.answer(a.asked(), `{"decision":"allow_once"}`)
	later := a.asked()       // the first command has ended, and no other runs
	upTo := given.Load() + 2 // the server requests new credentials only after the previous ones have reached the machine
	eventually(t, "others are given", func() bool { return given.Load() >= upTo })
	a.answer(later, `{"decision":"allow_once"}`)
	a.finish(r)
	events := a.events(r.AgentID)
	m := regexp.MustCompile(`(?s)first (\d+) all \[REDACTED\] \[REDACTED\].*then (\d+) all \[REDACTED\] \[REDACTED\]`).FindStringSubmatch(events)
	if m == nil || m[1] == m[2] {
		t.Errorf("the commands saw %q", m)
	}
	if strings.Contains(events, "assumed-token") || strings.Contains(events, "assumed-secret") {
		t.Errorf("%s", events)
	}
}
