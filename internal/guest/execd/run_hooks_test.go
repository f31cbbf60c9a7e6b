package execd

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// hooks starts a server on a workspace that contains a hooks.json.
func hooks(t *testing.T, text string) (agentv1connect.HookServiceClient, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".cursor"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".cursor", "hooks.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := serve(t, Config{Workspace: dir, Folder: func(shell string) string { return "/in/" + shell }})
	return agentv1connect.NewHookServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken))), dir
}

func TestRunHooks(t *testing.T) {
	client, dir := hooks(t, `{"version":1,"hooks":{
		"preToolUse":[{"command":"echo '{\"updated_input\":{\"command\":\"ls -l\"}}'","matcher":"^Shell$"}],
		"beforeShellExecution":[{"command":"cat > told; echo no >&2; exit 2","matcher":"^ls -l$"}],
		"beforeReadFile":[{"command":"grep -q '\"content\":\"hello\"' && exit 2"}],
		"stop":[{"command":"true"}],
		"onMoon":[]}}`)
	run := func(events ...*agentv1.HookEvent) *agentv1.RunHooksResponse {
		t.Helper()
		res, err := client.RunHooks(t.Context(), connect.NewRequest(&agentv1.RunHooksRequest{ConversationId: "bc-1", Events: events}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	// The hooks of an event see the changes made by the hooks of earlier
	// events.
	res := run(
		&agentv1.HookEvent{Name: "preToolUse", Subject: "Shell", Fields: []byte(`{"tool_name":"Shell","tool_input":{"command":"ls"}}`)},
		&agentv1.HookEvent{Name: "beforeShellExecution", Subject: "ls", Fields: []byte(`{"command":"ls"}`)},
	)
	if res.GetPermission() != "deny" || res.GetAgentMessage() != "no" || string(res.GetUpdatedInput()) != `{"command":"ls -l"}` || len(res.GetRuns()) != 2 {
		t.Errorf("got %v", res)
	}
	if told, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || !strings.Contains(string(told), `"command":"ls -l"`) {
		t.Errorf("the hook was told %s, %v", told, err)
	}
	if len(res.GetWarnings()) != 1 || !slices.Contains(res.GetPresent(), "stop") || slices.Contains(res.GetPresent(), "postToolUse") {
		t.Errorf("warnings %q, present %q", res.GetWarnings(), res.GetPresent())
	}
	// Hooks get a file's content unredacted.
	if err := os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(&agentv1.HookEvent{Name: "beforeReadFile", Fields: []byte(`{"file_path":"secret.txt"}`)}).GetPermission(); got != "deny" {
		t.Errorf("got %q", got)
	}
	if got := run(&agentv1.HookEvent{Name: "beforeReadFile", Fields: []byte(`{"file_path":"/dev/zero"}`)}).GetPermission(); got != "" {
		t.Errorf("got %q", got)
	}
	for _, bad := range []*agentv1.RunHooksRequest{
		{Events: []*agentv1.HookEvent{{Name: "stop", Fields: []byte(`[`)}}},
		{Events: make([]*agentv1.HookEvent, maxHookEvents+1)},
	} {
		if _, err := client.RunHooks(t.Context(), connect.NewRequest(bad)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestTranscript sends a conversation in pieces. Hooks must find it in the
// agent's home folder, and it must be nowhere else.
func TestTranscript(t *testing.T) {
	dir, home, outside := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".cursor"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := `{"version":1,"hooks":{"stop":[{"command":"cat \"$CURSOR_TRANSCRIPT_PATH\" > seen; cat > told"}]}}`
	if err := os.WriteFile(filepath.Join(dir, ".cursor", "hooks.json"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r := serve(t, Config{Workspace: dir, Home: home})
	client := agentv1connect.NewHookServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken)))
	send := func(id, piece string, at int64, want string) {
		t.Helper()
		_ = os.Remove(filepath.Join(dir, "seen"))
		res, err := client.RunHooks(t.Context(), connect.NewRequest(&agentv1.RunHooksRequest{
			ConversationId: id, Transcript: []byte(piece), TranscriptAt: at, Events: []*agentv1.HookEvent{{Name: "stop"}},
		}))
		if err != nil {
			t.Fatal(err)
		}
		seen, _ := os.ReadFile(filepath.Join(dir, "seen")) // a file that does not exist counts as ""
		if string(seen) != want || res.Msg.GetTranscriptSize() != int64(len(want)) {
			t.Errorf("%q at %d: the hook saw %q of %d bytes, want %q", piece, at, seen, res.Msg.GetTranscriptSize(), want)
		}
	}
	send("bc-1", "one\n", 0, "one\n")
	send("bc-1", "two\n", 4, "one\ntwo\n")
	send("bc-1", "", 8, "one\ntwo\n")
	send("bc-1", "late\n", 99, "one\ntwo\n")
	send("bc-1", "anew\n", 0, "anew\n")
	send("bc-2", "other\n", 0, "other\n")
	if told, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || !strings.Contains(string(told), `"transcript_path":"`+home+`/.aloft/transcripts/bc-2.jsonl"`) {
		t.Errorf("the hook was told %s, %v", told, err)
	}
	// Neither a name nor a symbolic link can lead out of the home folder.
	send("../../x", "x\n", 0, "")
	if err := errors.Join(os.RemoveAll(filepath.Join(home, ".aloft")), os.Symlink(outside, filepath.Join(home, ".aloft"))); err != nil {
		t.Fatal(err)
	}
	send("bc-1", "x\n", 0, "")
	if entries, err := os.ReadDir(outside); err != nil || len(entries) > 0 {
		t.Errorf("outside there are %v, %v", entries, err)
	}
}

// TestHooksAreToldTheFolder checks that hooks of a Shell call get the shell's
// current folder, and that other hooks get the folder in the request.
func TestHooksAreToldTheFolder(t *testing.T) {
	client, dir := hooks(t, `{"version":1,"hooks":{"preToolUse":[{"command":"cat > told"}]}}`)
	for want, e := range map[string]*agentv1.HookEvent{
		`"cwd":"/in/side"`: {Name: "preToolUse", Fields: []byte(`{"tool_name":"Shell","cwd":"/workspace"}`), OfShell: true, Shell: "side"},
		`"cwd":"/there"`:   {Name: "preToolUse", Fields: []byte(`{"tool_name":"Shell","cwd":"/there"}`)},
	} {
		if _, err := client.RunHooks(t.Context(), connect.NewRequest(&agentv1.RunHooksRequest{Events: []*agentv1.HookEvent{e}})); err != nil {
			t.Fatal(err)
		}
		if told, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || !strings.Contains(string(told), want) {
			t.Errorf("the hook was told %s, %v; want %s", told, err, want)
		}
	}
}
