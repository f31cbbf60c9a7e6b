package execd

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/guest/tool"
	"aloft/internal/wire/agentv1"
)

const secret = "s3cr3t-value/of+a key"

// injected returns the value of a variable in an environment that lists which
// variables are secrets.
func injected(name string) string {
	return map[string]string{
		"CLOUD_AGENT_INJECTED_SECRET_NAMES":  "DEPLOY_KEY, SHORT",
		"CURSOR_AGENT_INJECTED_SECRET_NAMES": "OTHER",
		"DEPLOY_KEY":                         secret, "SHORT": "1", "OTHER": "another-secret", "HOME": "/home/agent",
	}[name]
}

func TestSecretsDoNotLeave(t *testing.T) {
	pieces := []string{"key: s3cr3t-", "value/of+a", " key, hex ", hex.EncodeToString([]byte(secret)), " and 1\n", "another-secre"}
	r := serve(t, Config{Secrets: NewSecrets(injected), Tools: []tool.Tool{shellTool(func(_ context.Context, _ string, say func(string)) string {
		for _, p := range pieces {
			say(p)
		}
		return strings.Join(pieces, "") + base64.StdEncoding.EncodeToString([]byte("."+secret))
	})}})
	s := r.stream(t)
	s.ask("c1", shellCall("x"))
	var heard strings.Builder
	var done *agentv1.ExecCompleted
	for done == nil {
		element := s.next()
		heard.WriteString(element.GetDelta().GetDelta().GetShellToolCallDelta().GetStdout())
		done = element.GetCompleted()
	}
	want := "key: [REDACTED], hex [REDACTED] and 1\nanother-secre"
	// If the two halves of a secret arrive far apart, the first half is output if it is too
	// short to count as a secret.
	if got := strings.Replace(heard.String(), "s3cr3t-[", "[", 1); got != want {
		t.Errorf("heard %q", heard.String())
	}
	for _, text := range []string{done.GetText(), done.GetToolCall().GetShellToolCall().GetResult().GetSuccess().GetStdout()} {
		if !strings.HasPrefix(text, want) || !strings.Contains(text, "secre") || strings.Count(text, "[REDACTED]") != 3 {
			t.Errorf("the result is %q", text)
		}
	}
	kept, err := os.ReadFile(r.calls.record.path("c1"))
	if err != nil || strings.Contains(string(kept), "s3cr3t") {
		t.Errorf("the kept result is %q, %v", kept, err)
	}
}

// TestTheEndOfAnIdleLineLeaves checks that a prompt that might be the beginning
// of a secret is sent while its command waits for input.
func TestTheEndOfAnIdleLineLeaves(t *testing.T) {
	shown := make(chan struct{})
	var once sync.Once
	r := serve(t, Config{Secrets: NewSecrets(injected), Tools: []tool.Tool{shellTool(func(_ context.Context, _ string, say func(string)) string {
		say("yes or an")
		<-shown
		return "over"
	})}})
	s := r.stream(t)
	s.ask("c1", shellCall("x"))
	var heard strings.Builder
	for done := false; !done; {
		element := s.next()
		heard.WriteString(element.GetDelta().GetDelta().GetShellToolCallDelta().GetStdout())
		if heard.String() == "yes or an" {
			once.Do(func() { close(shown) })
		}
		done = element.GetCompleted() != nil
	}
	if heard.String() != "yes or an" {
		t.Errorf("heard %q", heard.String())
	}
}

func TestASecretThatComesLaterDoesNotLeaveEither(t *testing.T) {
	r := serve(t, Config{
		Secrets: NewSecrets(injected),
		SetEnv:  func(context.Context, map[string]string, []string) error { return nil },
		Tools:   []tool.Tool{shellTool(func(_ context.Context, command string, _ func(string)) string { return command })},
	})
	ask := func(id string) string {
		s := r.stream(t)
		s.ask(id, shellCall("old "+secret+", new a-new-value, added added-value"))
		return s.result().GetText()
	}
	if got := ask("c1"); got != "old [REDACTED], new a-new-value, added added-value" {
		t.Errorf("before: %q", got)
	}
	_, err := r.control().UpdateEnvironmentVariables(t.Context(), connect.NewRequest(&agentv1.UpdateEnvironmentVariablesRequest{
		Set: map[string]string{"DEPLOY_KEY": "a-new-value", "ADDED": "added-value", "CLOUD_AGENT_INJECTED_SECRET_NAMES": "DEPLOY_KEY,ADDED"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := ask("c2"); got != "old [REDACTED], new [REDACTED], added [REDACTED]" {
		t.Errorf("after: %q", got)
	}
}

func TestSecretsDoNotLeaveByErrorsOrTheDiff(t *testing.T) {
	r := serve(t, Config{Secrets: NewSecrets(injected)})
	for _, path := range []string{"/no/another-secret", "/no/s3cr3t-value%2Fof+a%20key\x00"} {
		_, err := r.control().ReadTextFile(t.Context(), connect.NewRequest(&agentv1.ReadTextFileRequest{Path: path}))
		if e, ok := errors.AsType[*connect.Error](err); !ok || strings.Contains(e.Message(), "secret") {
			t.Errorf("%q: %v", path, err)
		}
	}
	repo := r.workspace
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.email", "a@b"}, {"config", "user.name", "a"}, {"commit", "-q", "--allow-empty", "-m", "x"}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", repo}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(repo, "f"), []byte("key = "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := r.control().GetDiff(t.Context(), connect.NewRequest(&agentv1.GetDiffRequest{}))
	if err != nil || !strings.Contains(res.Msg.GetDiff(), "+key = [REDACTED]") {
		t.Errorf("%v, %v", res, err)
	}
	// Files are not redacted, because an editor writes back what it has read.
	text, err := r.control().ReadTextFile(t.Context(), connect.NewRequest(&agentv1.ReadTextFileRequest{Path: "f"}))
	if err != nil || text.Msg.GetContents() != "key = "+secret+"\n" {
		t.Errorf("%v, %v", text, err)
	}
}

func TestSecretsDoNotGoIntoTheLog(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(NewSecrets(injected).Writer(&out), nil))
	log.Info("x", "error", errors.New("open /another-secret: s3cr3t-value/of+a key"))
	if got := out.String(); !strings.HasSuffix(got, `"error":"open /[REDACTED]: [REDACTED]"}`+"\n") {
		t.Error(got)
	}
}
