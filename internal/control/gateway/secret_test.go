package gateway_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/gateway"
	"aloft/internal/control/gateway/gittest"
)

const deployKey = "k3y-that-must-not-be-pushed/1"

func withSecret(g *gateway.Grant) {
	g.Secrets = map[string]string{"DEPLOY_KEY": deployKey, "SHORT": "1"}
}

func TestPushWithASecretIsRefused(t *testing.T) {
	short := func(m *machine, rev string) string { return m.git("r", "rev-parse", rev)[:12] }
	for name, tt := range map[string]struct {
		make  func(m *machine)
		where func(m *machine) string
	}{
		"InAFile": {func(m *machine) {
			m.commit("r", "more", map[string]string{"src/config.env": "KEY=" + deployKey + "\n"})
		}, func(m *machine) string { return "src/config.env in commit " + short(m, "HEAD") }},
		"InABinaryFile": {func(m *machine) {
			m.commit("r", "more", map[string]string{"a.bin": "\x00\xff" + noise(1<<20) + deployKey + noise(1<<20)})
		}, func(m *machine) string { return "a.bin in commit " + short(m, "HEAD") }},
		"InBase64": {func(m *machine) {
			m.commit("r", "more", map[string]string{"a": base64.StdEncoding.EncodeToString([]byte("user:" + deployKey))})
		}, func(m *machine) string { return "a in commit " + short(m, "HEAD") }},
		"TakenOutAgain": {func(m *machine) {
			m.commit("r", "oops", map[string]string{"a": deployKey})
			m.commit("r", "mended", map[string]string{"a": "nothing"})
		}, func(m *machine) string { return "a in commit " + short(m, "HEAD~") }},
		"InAMessage": {func(m *machine) {
			m.commit("r", "use "+deployKey, map[string]string{"a": "b"})
		}, func(m *machine) string { return "the message or the author of commit " + short(m, "HEAD") }},
		"InAName": {func(m *machine) {
			m.commit("r", "more", map[string]string{"d/" + hex.EncodeToString([]byte(deployKey)): "b"})
		}, func(m *machine) string { return "a file's name in the folder /d in commit " + short(m, "HEAD") }},
		"InANamedFile": {func(m *machine) {
			m.commit("r", "more", map[string]string{"x" + strings.ReplaceAll(deployKey, "/", "%2F"): deployKey})
		}, func(m *machine) string { return "x[REDACTED] in commit " + short(m, "HEAD") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			m, _ := checkedOut(t, w, withSecret)
			m.commit("r", "fine", map[string]string{"fine": "fine 1\n"})
			tt.make(m)
			objects := mirrorObjects(t, w)
			said := m.fails("r", []string{"push", "origin", branch},
				"[remote rejected] "+branch+" -> "+branch+" (secret in push)", "remote: The push contains a secret", "remote:   "+tt.where(m))
			for place, text := range map[string]string{"git's words": said, "the log": w.log.String()} {
				if strings.Contains(text, deployKey) || strings.Contains(text, hex.EncodeToString([]byte(deployKey))) {
					t.Errorf("the secret is in %s:\n%s", place, text)
				}
			}
			if got := w.Branch("r", branch); got != "" {
				t.Errorf("the upstream has it at %s", got)
			}
			if mirrorObjects(t, w) != objects {
				t.Error("the mirror took objects")
			}
			leftInQuarantine(t, w)
			// Without the secret, the push succeeds.
			m.git("r", "reset", "--quiet", "--hard", "origin/main")
			id := m.commit("r", "mended", map[string]string{"a": "KEY=$DEPLOY_KEY\n"})
			m.git("r", "push", "origin", branch)
			if got := w.Branch("r", branch); got != id {
				t.Errorf("upstream has %q, want %s", got, id)
			}
		})
	}
}

// TestOldSecretsAreLetBe checks that secrets that are already in the repository
// do not prevent pushes.
func TestOldSecretsAreLetBe(t *testing.T) {
	w := newWorld(t)
	url := w.Repo("r", map[string]string{"old.env": deployKey})
	grant := oneRepo(url, branch)
	withSecret(&grant)
	m := w.machine(t, grant)
	m.git("", "clone", "--quiet", url, "r")
	m.git("r", "checkout", "--quiet", "-b", branch)
	id := m.commit("r", "more", map[string]string{"b.txt": "two\n"})
	m.git("r", "push", "origin", branch)
	if got := w.Branch("r", branch); got != id {
		t.Errorf("upstream has %q, want %s", got, id)
	}
}

func TestManyPlacesAreNotAllNamed(t *testing.T) {
	w := newWorld(t)
	m, _ := checkedOut(t, w, withSecret)
	files := map[string]string{}
	for i := range 3000 {
		files[fmt.Sprintf("d%d/f%d", i%50, i)] = fmt.Sprint(i, deployKey)
	}
	m.commit("r", "more", files)
	said := m.fails("r", []string{"push", "origin", branch}, "(secret in push)")
	if n := strings.Count(said, "in commit"); n != 5 {
		t.Errorf("%d places are named:\n%s", n, said)
	}
	leftInQuarantine(t, w)
}

// BenchmarkSecrets measures a push of a large tree with and without scanning
// for secrets.
func BenchmarkSecrets(b *testing.B) {
	for name, n := range map[string]int{"Without": 0, "With10": 10, "With200": 200} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b)
			files := tree(5000)
			files["large"] = noise(64 << 20)
			url := w.Repo("r", map[string]string{"a.txt": "one\n"})
			grant := oneRepo(url, branch)
			grant.AllowForce = true
			grant.Secrets = map[string]string{}
			for i := range n {
				grant.Secrets[fmt.Sprint(i)] = fmt.Sprintf("%s-%d", deployKey, i)
			}
			m := w.machine(b, grant)
			m.git("", "clone", "--quiet", url, "r")
			m.git("r", "checkout", "--quiet", "-b", branch)
			gittest.Write(b, filepath.Join(m.dir, "r"), files)
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				if err := os.WriteFile(filepath.Join(m.dir, "r", "large"), []byte(noise(64<<20)+fmt.Sprint(i)), 0o600); err != nil {
					b.Fatal(err)
				}
				m.commit("r", fmt.Sprint(i), nil)
				b.StartTimer()
				m.git("r", "push", "--quiet", "origin", branch)
			}
		})
	}
}
