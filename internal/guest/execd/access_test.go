package execd

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/editor"
	"aloft/internal/guest/terminal"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

func TestArtifacts(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "artifacts")
	r := serve(t, Config{Artifacts: folder})
	list := func() map[string]*agentv1.Artifact {
		t.Helper()
		res, err := r.control().ListArtifacts(t.Context(), connect.NewRequest(&agentv1.ListArtifactsRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]*agentv1.Artifact{}
		for _, a := range res.Msg.GetArtifacts() {
			all[a.GetName()] = a
		}
		return all
	}
	if got := list(); len(got) != 0 {
		t.Errorf("no folder: %v", got)
	}
	want := map[string][]byte{"a.txt": []byte("hello"), "empty": {}, "shots/one.webp": make([]byte, 300_000), "shots/two.webp": make([]byte, 70_000)}
	for name, b := range want {
		_, _ = rand.Read(b)
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Files that are still being uploaded are not listed. Nor are links that lead out of the
	// folder.
	if err := os.WriteFile(filepath.Join(folder, "shots", ".upload-0123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": secret, "up": "../..", "inner": "a.txt"} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second list comes from the cache
		got := list()
		if len(got) != len(want) {
			t.Errorf("%v", got)
		}
		for name, b := range want {
			sum := sha256.Sum256(b)
			if a := got[name]; a.GetSizeBytes() != int64(len(b)) || a.GetSha256() != hex.EncodeToString(sum[:]) || a.GetModifiedAt() == nil {
				t.Errorf("%s: %v", name, a)
			}
		}
	}
	want["a.txt"] = []byte("other") // the new contents have the same length, and maybe the same modification time
	if err := os.WriteFile(filepath.Join(folder, "a.txt"), want["a.txt"], 0o600); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(want["a.txt"]); list()["a.txt"].GetSha256() != hex.EncodeToString(sum[:]) {
		t.Error("a change was not seen")
	}
	for _, limit := range []int64{0, 1000, 65_536} {
		if got := upload(t, r, limit); !maps.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("limit %d: %d artifacts, or others", limit, len(got))
		}
	}
	for _, name := range []string{"link", "up/x", "../x", "/etc/passwd", "none", "."} {
		res, err := r.control().UploadArtifacts(t.Context(), connect.NewRequest(&agentv1.UploadArtifactsRequest{Names: []string{name}}))
		if err != nil || len(res.Msg.GetChunks()) != 1 || res.Msg.GetChunks()[0].GetError() == "" || len(res.Msg.GetChunks()[0].GetContents()) > 0 {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
}

// upload returns all artifacts. It reads one reply at a time.
func upload(t *testing.T, r *rig, limit int64) map[string][]byte {
	t.Helper()
	got := map[string][]byte{}
	var from *agentv1.ArtifactPosition
	for {
		res, err := r.control().UploadArtifacts(t.Context(), connect.NewRequest(&agentv1.UploadArtifactsRequest{From: from, Limit: limit}))
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, c := range res.Msg.GetChunks() {
			if c.GetError() != "" || c.GetOffset() != int64(len(got[c.GetName()])) {
				t.Fatalf("%v", c)
			}
			got[c.GetName()] = append(got[c.GetName()], c.GetContents()...)
			size += len(c.GetContents())
			if c.GetLast() && c.GetSizeBytes() != int64(len(got[c.GetName()])) {
				t.Errorf("%s: %d bytes, %d came", c.GetName(), c.GetSizeBytes(), len(got[c.GetName()]))
			}
		}
		if limit > 0 && int64(size) > limit {
			t.Errorf("%d bytes in a reply, want at most %d", size, limit)
		}
		if from = res.Msg.GetNext(); from == nil {
			return got
		}
	}
}

// TestRefreshGithubAccessToken checks that git in the agent's processes gets
// the newest credential and no older one.
func TestRefreshGithubAccessToken(t *testing.T) {
	need.Command(t, "git")
	env := os.Environ()
	r := serve(t, Config{SetEnv: func(_ context.Context, set map[string]string, _ []string) error {
		for name, value := range set {
			env = append(env, name+"="+value)
		}
		return nil
	}})
	shown := make(chan []string, 100)
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown <- r.Header.Values("Authorization")
		http.NotFound(w, r)
	})}
	l, err := listenLocal(t)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	gateway := "http://" + l.Addr().String()
	config := filepath.Join(t.TempDir(), "gitconfig")
	if err := os.WriteFile(config, []byte("[http \""+gateway+"/\"]\n\textraHeader = Authorization: Bearer first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env = append(env, "GIT_CONFIG_GLOBAL="+config, "GIT_TERMINAL_PROMPT=0")
	for _, token := range []string{"second-token", "third\\\"token"} {
		if _, err := r.control().RefreshGithubAccessToken(t.Context(), connect.NewRequest(&agentv1.RefreshGithubAccessTokenRequest{
			AccessToken: token, GatewayUrl: gateway + "/",
		})); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "git", "ls-remote", gateway+"/https/x/y")
		cmd.Env = env
		if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("not found")) {
			t.Errorf("%v: %s", err, out)
		}
		if got := <-shown; len(got) != 1 || got[0] != "Bearer "+token {
			t.Errorf("git showed %q", got)
		}
	}
	for _, bad := range []*agentv1.RefreshGithubAccessTokenRequest{
		{}, {AccessToken: "a b"}, {AccessToken: "a\nb"}, {AccessToken: "a", GatewayUrl: "file:///etc"}, {AccessToken: "a", GatewayUrl: "http://u:p@h"},
	} {
		if _, err := r.control().RefreshGithubAccessToken(t.Context(), connect.NewRequest(bad)); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if strings.Contains(r.log.String(), "second-token") {
		t.Error("the token is in the log")
	}
}

func TestRemoteAccess(t *testing.T) {
	need.Command(t, "python3")
	r := serve(t, Config{RemoteServers: []editor.Program{{
		Paths: []string{"no-such-server", "python3"},
		Args: func(port int, _, dir string) []string {
			return []string{"-m", "http.server", "--bind", "127.0.0.1", "--directory", dir, strconv.Itoa(port)}
		},
		Env: func(token string) []string { return []string{"TOKEN=" + token} },
	}}})
	warm := func(port int32) (*agentv1.WarmRemoteAccessServerResponse, error) {
		res, err := r.control().WarmRemoteAccessServer(t.Context(), connect.NewRequest(&agentv1.WarmRemoteAccessServerRequest{Port: port}))
		if err != nil {
			return nil, err
		}
		return res.Msg, nil
	}
	first, err := warm(0)
	if err != nil || first.GetPort() == 0 || first.GetAlreadyRunning() || len(first.GetConnectionToken()) != 64 {
		t.Fatalf("%v, %v", first, err)
	}
	if res, err := http.Get("http://127.0.0.1:" + strconv.Itoa(int(first.GetPort()))); err != nil || res.Body.Close() != nil || res.StatusCode != 200 {
		t.Errorf("%v, %v", res, err)
	}
	if again, err := warm(0); err != nil || !again.GetAlreadyRunning() || again.GetPort() != first.GetPort() {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := warm(first.GetPort() + 1); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Error(err)
	}
	if found, err := r.control().DownloadCursorServer(t.Context(), connect.NewRequest(&agentv1.DownloadCursorServerRequest{})); err != nil || !strings.Contains(found.Msg.GetProgram(), "python3") {
		t.Errorf("%v, %v", found, err)
	}
	// If no server is found, the error lists the programs that were searched
	// for.
	none := serve(t, Config{RemoteServers: []editor.Program{{Paths: []string{"no-such-server", "/no/%s/server"}}}})
	_, err = none.control().WarmRemoteAccessServer(t.Context(), connect.NewRequest(&agentv1.WarmRemoteAccessServerRequest{}))
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "image") {
		t.Error(err)
	}
	_, err = none.control().DownloadCursorServer(t.Context(), connect.NewRequest(&agentv1.DownloadCursorServerRequest{Commit: "abc123"}))
	if connect.CodeOf(err) != connect.CodeNotFound || !strings.Contains(err.Error(), "abc123") {
		t.Error(err)
	}
	if _, err := none.control().DownloadCursorServer(t.Context(), connect.NewRequest(&agentv1.DownloadCursorServerRequest{Commit: "../x"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Error(err)
	}
}

func TestTerminalService(t *testing.T) {
	need.Command(t, "tmux")
	dir := t.TempDir()
	tmux := &terminal.Tmux{Socket: filepath.Join(dir, "s"), Dir: dir}
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", tmux.Socket, "kill-server").Run() })
	host := terminal.New(terminal.Config{Dir: dir, Terminals: tmux})
	t.Cleanup(func() { _ = host.Close() })
	r := serve(t, Config{Terminals: host})
	c := agentv1connect.NewTerminalServiceClient(r.client, r.url, connect.WithInterceptors(bearer(testToken)))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // the timeout ends a hang
	defer cancel()
	made, err := c.CreateTerminal(ctx, connect.NewRequest(&agentv1.CreateTerminalRequest{Name: "t1", Command: "cat", Columns: 70}))
	if err != nil || !made.Msg.GetCreated() || made.Msg.GetTerminal().GetColumns() != 70 {
		t.Fatalf("%v, %v", made, err)
	}
	if again, err := c.CreateTerminal(ctx, connect.NewRequest(&agentv1.CreateTerminalRequest{Name: "t1"})); err != nil || again.Msg.GetCreated() {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := c.CreateTerminal(ctx, connect.NewRequest(&agentv1.CreateTerminalRequest{Name: "t1", Exclusive: true})); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Error(err)
	}
	if _, err := c.CreateTerminal(ctx, connect.NewRequest(&agentv1.CreateTerminalRequest{Columns: 70_000})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Error(err)
	}
	if _, err := c.SendTerminalKeys(ctx, connect.NewRequest(&agentv1.SendTerminalKeysRequest{Name: "t1", Keys: []*agentv1.TerminalKeys{
		{Keys: &agentv1.TerminalKeys_Text{Text: "hello ä"}}, {Keys: &agentv1.TerminalKeys_Key{Key: "Enter"}},
	}})); err != nil {
		t.Fatal(err)
	}
	attached, err := c.AttachTerminal(ctx, connect.NewRequest(&agentv1.AttachTerminalRequest{Name: "t1", ReadOnly: true}))
	if err != nil {
		t.Fatal(err)
	}
	p, err := host.PTY(attached.Msg.GetPtyId())
	if err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for b, from := make([]byte, 1<<10), int64(0); !strings.Contains(seen.String(), "hello ä"); {
		n, at, err := p.Read(ctx, from, b)
		if err != nil {
			t.Fatalf("%v; seen %q", err, seen.String())
		}
		seen.Write(b[:n])
		from = at + int64(n)
	}
	var read *connect.Response[agentv1.ReadTerminalResponse]
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // the terminal's echo comes before cat's output
		read, err = c.ReadTerminal(ctx, connect.NewRequest(&agentv1.ReadTerminalRequest{Name: "t1", HistoryLines: -1}))
		if err != nil || strings.Count(read.Msg.GetText(), "hello ä") >= 2 {
			break
		}
		<-tick.C
	}
	if err != nil || strings.Count(read.Msg.GetText(), "hello ä") != 2 || read.Msg.GetCursorRow() != 2 || read.Msg.GetTerminal().GetCommand() != "cat" {
		t.Errorf("%v, %v", read, err)
	}
	if _, err := c.CloseTerminal(ctx, connect.NewRequest(&agentv1.CloseTerminalRequest{Name: "t1"})); err != nil {
		t.Error(err)
	}
	if list, err := c.ListTerminals(ctx, connect.NewRequest(&agentv1.ListTerminalsRequest{})); err != nil || len(list.Msg.GetTerminals()) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	for name, err := range map[string]error{
		"read": func() error {
			_, err := c.ReadTerminal(ctx, connect.NewRequest(&agentv1.ReadTerminalRequest{Name: "t1"}))
			return err
		}(),
		"attach": func() error {
			_, err := c.AttachTerminal(ctx, connect.NewRequest(&agentv1.AttachTerminalRequest{Name: "t1"}))
			return err
		}(),
		"close": func() error {
			_, err := c.CloseTerminal(ctx, connect.NewRequest(&agentv1.CloseTerminalRequest{Name: "t1"}))
			return err
		}(),
	} {
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUsualRemoteServers checks that known remote servers are started with
// their flags. The stand-ins have the servers' names, refuse all other flags,
// and serve HTTP.
func TestUsualRemoteServers(t *testing.T) {
	python := need.Command(t, "python3")
	for name, script := range map[string]string{
		"openvscode-server": `[ "$#" = 7 ] && [ "$1 $3 $5 $7" = "--host --port --connection-token --accept-server-license-terms" ] && [ ${#6} = 64 ] || exit 64
exec ` + python + ` -m http.server --bind "$2" "$4"`,
		"code-server": `[ "$#" = 7 ] && [ "$1 $3 $4 $5 $6 $7" = "--bind-addr --auth password --disable-telemetry --disable-update-check $PWD" ] && [ ${#PASSWORD} = 64 ] || exit 64
exec ` + python + ` -m http.server --bind "${2%:*}" "${2##*:}"`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, name)
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":/usr/bin:/bin")
			t.Setenv("HOME", dir)
			r := serve(t, Config{})
			if found, err := r.control().DownloadCursorServer(t.Context(), connect.NewRequest(&agentv1.DownloadCursorServerRequest{})); err != nil || found.Msg.GetProgram() != program {
				t.Errorf("%v, %v", found, err)
			}
			res, err := r.control().WarmRemoteAccessServer(t.Context(), connect.NewRequest(&agentv1.WarmRemoteAccessServerRequest{}))
			if err != nil || res.Msg.GetProgram() != program {
				t.Fatalf("%v, %v", res, err)
			}
			page, err := http.Get("http://127.0.0.1:" + strconv.Itoa(int(res.Msg.GetPort())))
			if err != nil || page.Body.Close() != nil || page.StatusCode != 200 {
				t.Errorf("%v, %v", page, err)
			}
		})
	}
	// The editor's own build is found below the home folder, by its commit id.
	home := t.TempDir()
	program := filepath.Join(home, ".cursor-server/bin/abc123/bin/cursor-server")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	r := serve(t, Config{})
	if found, err := r.control().DownloadCursorServer(t.Context(), connect.NewRequest(&agentv1.DownloadCursorServerRequest{Commit: "abc123"})); err != nil || found.Msg.GetProgram() != program {
		t.Errorf("%v, %v", found, err)
	}
}
