package e2e

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/backup"
	"aloft/internal/control/gateway/gittest"
)

// TestBackup backs up a server while an agent works, and restores the backup into an
// empty installation. Agents, journals, artifacts, API keys and secrets are there. The
// interrupted run has ended, and a follow-up continues from the pushed branch.
func TestBackup(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("r", map[string]string{"README.md": "r\n"})
	const script = `
scripts:
  - match: make a report
    turns:
      - calls:
          - {tool: Shell, args: {command: "mkdir -p /opt/cursor/artifacts; printf hello > /opt/cursor/artifacts/report.txt; echo one > pushed.txt"}}
      - text: Reported.
  - match: work on
    turns:
      - calls:
          - {tool: Shell, args: {command: "for i in $(seq 1 40); do echo tick $i; sleep 0.1; done"}}
      - text: Worked.
  - match: go on
    turns:
      - calls:
          - {tool: Shell, args: {command: "cat pushed.txt; [ \"$MY_TOKEN\" = kept-in-the-safe-01 ] && echo decrypted"}}
      - text: Went on.
`
	a := start(t, scripted(t, script))
	if status, body := a.do("PUT", "/v1/secrets/MY_TOKEN", object{"value": "kept-in-the-safe-01", "type": "runtime_secret"}); status >= 300 {
		t.Fatalf("put a secret: %d %s", status, body)
	}
	status, body := a.do("POST", "/v1/me/keys", object{"name": "second"})
	if status >= 300 {
		t.Fatalf("create a key: %d %s", status, body)
	}
	_, second, _ := strings.Cut(body, `"key":"`)
	second, _, _ = strings.Cut(second, `"`)
	done := a.finish(a.create(url, "make a report", nil))
	works := a.create(url, "work on", nil)
	eventually(t, "an agent works", func() bool { return strings.Contains(a.events(works.AgentID), "tick 3") })

	dir := t.TempDir()
	passphrase, file := filepath.Join(dir, "passphrase"), filepath.Join(dir, "aloft.age")
	if err := os.WriteFile(passphrase, []byte("correct horse battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if unknown, err := backup.Unknown(a.Data); err != nil || len(unknown) > 0 {
		t.Errorf("entries of the data folder are missing in backup.Folder: %v, %v", unknown, err)
	}
	said := a.output("backup", "--data", a.Data, "--passphrase-file", passphrase, file)
	if !strings.Contains(said, "Backed up") || !strings.Contains(said, "live disks of machines (2)") || strings.Contains(said, "does not know") {
		t.Errorf("backup says %s", said)
	}
	if out, err := a.command(t.Context(), "restore", "--data", a.Data, "--passphrase-file", passphrase, file).CombinedOutput(); err == nil || !strings.Contains(string(out), "a server is using") {
		t.Errorf("restore over the running server: %v, %s", err, out)
	}
	journal := a.events(done.AgentID)
	a.Stop()

	b := &aloft{t: t, Data: filepath.Join(dir, "new", "data"), config: a.config, env: a.env}
	if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("SQLite")) {
		t.Errorf("the file is not encrypted, or %v", err)
	}
	restore := exec.CommandContext(t.Context(), binary(t), "restore", "--data", b.Data, "--passphrase-file", passphrase, "-")
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	restore.Stdin = in
	if out, err := restore.CombinedOutput(); err != nil {
		t.Fatalf("restore: %v: %s", err, out)
	}
	b.Start()
	t.Cleanup(b.cleanUp)
	if got := b.events(done.AgentID); got != journal {
		t.Errorf("the journal is\n%s\nwant\n%s", got, journal)
	}
	if b.Key != a.Key {
		t.Error("admin.key has another key")
	}
	b.Key, second = second, b.Key
	if status, body := b.do("GET", "/v1/me", nil); status != http.StatusOK {
		t.Errorf("the second key: %d %s", status, body)
	}
	b.Key = second
	folder := t.TempDir()
	b.output("agent", "artifacts", done.AgentID, "--download", folder)
	if text, err := os.ReadFile(filepath.Join(folder, "report.txt")); err != nil || string(text) != "hello" {
		t.Errorf("the artifact: %q, %v", text, err)
	}
	if r := b.wait(works); r.Status != "FINISHED" {
		t.Errorf("the run that the backup interrupted is %s:\n%s", r.Status, last(b.events(works.AgentID)))
	}
	r := b.finish(b.followUp(done, "go on"))
	events := b.events(r.AgentID)
	events = events[len(journal):]
	if !strings.Contains(events, "one\\n") || !strings.Contains(events, "decrypted") {
		t.Errorf("after the restore the agent did:\n%s", events)
	}
}
