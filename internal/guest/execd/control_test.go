package execd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"aloft/internal/guest/tool"
	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

func TestEveryRequestNeedsTheToken(t *testing.T) {
	began := time.Now()
	r := serve(t, Config{})
	for name, header := range map[string]string{
		"none": "", "wrong": "Bearer " + strings.Repeat("f", 64), "short": "Bearer 0123", "basic": "Basic " + testToken, "bare": testToken,
	} {
		for _, client := range []*http.Client{http.DefaultClient, r.client} { // HTTP/1.1 and HTTP/2
			for _, path := range []string{"/", agentv1connect.ControlServicePingProcedure, agentv1connect.ExecServiceExecStreamProcedure} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", header)
				res, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusTooManyRequests {
					t.Errorf("%s token, %s: %s", name, path, res.Status)
				}
			}
		}
	}
	if _, err := r.control().Ping(t.Context(), connect.NewRequest(&agentv1.PingRequest{})); err != nil {
		t.Errorf("the right token, after many wrong ones: %v", err)
	}
	if n := strings.Count(r.log.String(), "refused a request"); n == 0 || n > failuresPerSecond*(2+int(time.Since(began).Seconds())) {
		t.Errorf("%d refusals are logged in %s", n, time.Since(began))
	}
	// A server without a token is refused, because it is always a mistake.
	if _, err := New(Config{Token: "secret", StateDir: t.TempDir()}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a server with a bad token: %v", err)
	}
}

// TestTokenChanges replaces the token. The old token must then be refused.
func TestTokenChanges(t *testing.T) {
	r := serve(t, Config{})
	other := strings.Repeat("ab", 32)
	put := func(bearer, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, r.url+"/token", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+bearer)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	for _, step := range []struct {
		bearer, body string
		status       int
	}{
		{other, other, http.StatusUnauthorized}, {testToken, "short", http.StatusBadRequest}, {testToken, strings.Repeat("f", 1000), http.StatusBadRequest},
		{testToken, other, http.StatusNoContent}, {testToken, testToken, http.StatusUnauthorized}, {other, testToken, http.StatusNoContent},
	} {
		if got := put(step.bearer, step.body); got != step.status {
			t.Errorf("%.8s takes the place of %.8s: %d, want %d", step.body, step.bearer, got, step.status)
		}
	}
}

func TestPing(t *testing.T) {
	r := serve(t, Config{Version: "v1", BootID: "boot-1"})
	for _, c := range []struct {
		name   string
		client *http.Client
		option connect.ClientOption
	}{
		{"Connect over HTTP/1.1", http.DefaultClient, connect.WithClientOptions()},
		{"Connect", r.client, connect.WithClientOptions()},
		{"JSON over HTTP/1.1", http.DefaultClient, connect.WithProtoJSON()},
		{"gRPC", r.client, connect.WithGRPC()},
		{"gRPC-Web over HTTP/1.1", http.DefaultClient, connect.WithGRPCWeb()},
	} {
		client := agentv1connect.NewControlServiceClient(c.client, r.url, connect.WithInterceptors(bearer(testToken)), c.option)
		res, err := client.Ping(t.Context(), connect.NewRequest(&agentv1.PingRequest{}))
		if err != nil || res.Msg.GetVersion() != "v1" || res.Msg.GetBootId() != "boot-1" {
			t.Errorf("%s: %v, %v", c.name, res, err)
		}
	}
	missing := connect.NewClient[agentv1.PingRequest, agentv1.PingResponse](r.client, r.url+"/agent.v1.ControlService/NoSuchRPC", connect.WithInterceptors(bearer(testToken)))
	if _, err := missing.CallUnary(t.Context(), connect.NewRequest(&agentv1.PingRequest{})); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("an RPC that is not there: %v", err)
	}
}

// TestMessageLimit sends a message that is one byte too long.
func TestMessageLimit(t *testing.T) {
	r := serve(t, Config{})
	zeros := io.LimitReader(zeroReader{}, maxMessage+1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+agentv1connect.ControlServiceWriteBinaryFileProcedure, zeros)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+testToken)
	req.Header.Set("Content-Type", "application/proto")
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(body), "resource_exhausted") {
		t.Errorf("%s %s, %v; want resource_exhausted", res.Status, body, err)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestExec(t *testing.T) {
	r := serve(t, Config{Tools: []tool.Tool{shellTool(func(_ context.Context, _ string, say func(string)) string {
		say("part")
		return "whole"
	})}})
	for range 2 { // the second request attaches to the running call
		stream, err := r.control().Exec(t.Context(), connect.NewRequest(&agentv1.ExecRequest{CallId: "c1", ToolCall: shellCall("x")}))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for stream.Receive() {
			got = append(got, stream.Msg().GetDelta().GetDelta().GetShellToolCallDelta().GetStdout()+stream.Msg().GetCompleted().GetText())
		}
		if err := stream.Err(); err != nil || !slices.Equal(got, []string{"part", "whole"}) {
			t.Errorf("%q, %v", got, err)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	r := serve(t, Config{Workspace: dir})
	ctx, c := t.Context(), r.control()

	write := func(path, contents string) error {
		_, err := c.WriteTextFile(ctx, connect.NewRequest(&agentv1.WriteTextFileRequest{Path: path, Contents: contents}))
		return err
	}
	read := func(path string) (string, error) {
		res, err := c.ReadTextFile(ctx, connect.NewRequest(&agentv1.ReadTextFileRequest{Path: path}))
		if err != nil {
			return "", err
		}
		return res.Msg.GetContents(), nil
	}
	if err := write("a/b.txt", "one"); err != nil {
		t.Fatal(err)
	}
	if got, err := read(filepath.Join(dir, "a/b.txt")); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	// A write preserves the file's mode and hard links.
	if err := errors.Join(os.Chmod(filepath.Join(dir, "a/b.txt"), 0o755), os.Symlink("a/b.txt", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := write("link", "two"); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "a/b.txt")); err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if got, err := read("a/b.txt"); got != "two" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.WriteBinaryFile(ctx, connect.NewRequest(&agentv1.WriteBinaryFileRequest{Path: "bin", Contents: []byte{0xff, 0}})); err != nil {
		t.Fatal(err)
	}
	if res, err := c.ReadBinaryFile(ctx, connect.NewRequest(&agentv1.ReadBinaryFileRequest{Path: "bin"})); err != nil || !bytes.Equal(res.Msg.GetContents(), []byte{0xff, 0}) {
		t.Errorf("%v, %v", res, err)
	}
	list, err := c.ListDirectory(ctx, connect.NewRequest(&agentv1.ListDirectoryRequest{Path: "."}))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list.Msg.GetEntries() {
		names = append(names, e.GetName())
		if e.GetIsDirectory() != (e.GetName() == "a") || e.GetIsSymlink() != (e.GetName() == "link") {
			t.Errorf("entry %v", e)
		}
	}
	if !slices.Equal(names, []string{"a", "bin", "link"}) {
		t.Errorf("entries %v", names)
	}

	huge := filepath.Join(dir, "huge")
	if err := errors.Join(
		os.Truncate(must(t, huge), 1<<30),
		os.Symlink("loop", filepath.Join(dir, "loop")),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]connect.Code{
		"none": connect.CodeNotFound, "a": connect.CodeInvalidArgument, "bin": connect.CodeInvalidArgument, "": connect.CodeInvalidArgument,
		"huge": connect.CodeResourceExhausted, "loop": connect.CodeInvalidArgument, "pipe": connect.CodeInvalidArgument,
		"a/b.txt/c": connect.CodeInvalidArgument, "nul\x00": connect.CodeInvalidArgument, strings.Repeat("x", 300): connect.CodeInvalidArgument,
	} {
		if _, err := read(path); connect.CodeOf(err) != want {
			t.Errorf("read %q: %v, want %v", path, err, want)
		}
	}
	for _, path := range []string{"a", "pipe", "loop", "a/b.txt/c", ""} {
		if err := write(path, "x"); connect.CodeOf(err) != connect.CodeInvalidArgument {
			t.Errorf("write %q: %v", path, err)
		}
	}
	if _, err := c.ListDirectory(ctx, connect.NewRequest(&agentv1.ListDirectoryRequest{Path: "pipe"})); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("list of a pipe: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".aloft-*")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// must creates an empty file and returns its path.
func must(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGetDiff(t *testing.T) {
	need.Command(t, "git")
	dir := t.TempDir()
	r := serve(t, Config{Workspace: dir})
	ctx, c := t.Context(), r.control()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	diff := func(base string) string {
		t.Helper()
		res, err := c.GetDiff(ctx, connect.NewRequest(&agentv1.GetDiffRequest{Base: base}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg.GetDiff()
	}
	hash := func() string {
		t.Helper()
		res, err := c.GetWorkspaceChangesHash(ctx, connect.NewRequest(&agentv1.GetWorkspaceChangesHashRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg.GetHash()
	}

	_, err := c.GetDiff(ctx, connect.NewRequest(&agentv1.GetDiffRequest{}))
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("outside a repository: %v", err)
	}
	run("init", "-q")
	put("first", "1\n")
	if got := diff(""); !strings.Contains(got, "+++ b/first") {
		t.Errorf("before any commit: %q", got)
	}
	put(".gitignore", "ignored\n")
	run("add", ".")
	run("commit", "-q", "-m", "one")
	if got := diff(""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
	clean := hash()
	put("first", "2\n")
	put("ünew", "n\n")
	put("ignored", "i\n")
	put("bin", "\x00\xff")
	got := diff("")
	for _, want := range []string{"-1\n+2\n", "+++ b/ünew\n@@ -0,0 +1 @@\n+n\n", "Binary files /dev/null and b/bin differ"} {
		if !strings.Contains(got, want) {
			t.Errorf("diff %q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "ignored") {
		t.Error("an ignored file is in the diff")
	}
	seen := map[string]bool{clean: true, hash(): true}
	put("bin", "\x00\xfe") // the diff shows the change only in the object's name
	seen[hash()] = true
	if len(seen) != 3 {
		t.Errorf("hashes %v, want three", slices.Collect(maps.Keys(seen)))
	}
	run("commit", "-q", "-a", "-m", "two")
	if got := diff("HEAD~1"); !strings.Contains(got, "-1\n+2\n") {
		t.Errorf("against the commit before: %q", got)
	}
	for _, base := range []string{"nosuch", "--output=/tmp/x", "HEAD:first"} {
		_, err := c.GetDiff(ctx, connect.NewRequest(&agentv1.GetDiffRequest{Base: base}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("base %q: %v", base, err)
		}
	}
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "status", "--porcelain").Output()
	if err != nil || string(out) != "?? bin\n?? \"\\303\\274new\"\n" {
		t.Errorf("the index was changed: %q, %v", out, err)
	}
	put("long", strings.Repeat("line\n", maxDiff/4))
	res, err := c.GetDiff(ctx, connect.NewRequest(&agentv1.GetDiffRequest{}))
	if err != nil || !res.Msg.GetTruncated() || len(res.Msg.GetDiff()) > maxDiff || !strings.HasSuffix(res.Msg.GetDiff(), "\n") {
		t.Errorf("a long diff: %d bytes, %v, %v", len(res.Msg.GetDiff()), res.Msg.GetTruncated(), err)
	}
}

func TestUpdateEnvironmentVariables(t *testing.T) {
	var set map[string]string
	var unset []string
	r := serve(t, Config{SetEnv: func(_ context.Context, s map[string]string, u []string) error { set, unset = s, u; return nil }})
	ask := func(r *rig, req *agentv1.UpdateEnvironmentVariablesRequest) error {
		_, err := r.control().UpdateEnvironmentVariables(t.Context(), connect.NewRequest(req))
		return err
	}
	if err := ask(r, &agentv1.UpdateEnvironmentVariablesRequest{Set: map[string]string{"A": "1 $x"}, Unset: []string{"B"}}); err != nil {
		t.Fatal(err)
	}
	if set["A"] != "1 $x" || !slices.Equal(unset, []string{"B"}) {
		t.Errorf("%v, %v", set, unset)
	}
	for _, bad := range []*agentv1.UpdateEnvironmentVariablesRequest{
		{Set: map[string]string{"A B": "s3cret"}}, {Set: map[string]string{"A": "s3cret\x00"}}, {Unset: []string{"1"}}, {Set: map[string]string{"": "s3cret"}},
	} {
		if err := ask(r, bad); connect.CodeOf(err) != connect.CodeInvalidArgument || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := ask(serve(t, Config{}), &agentv1.UpdateEnvironmentVariablesRequest{}); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("without a hook: %v", err)
	}
}

// TestGetDiffOfTheSameMoment changes a file right after the index was written,
// so that the file's size and times equal those in the index. The diff must
// still contain the change.
func TestGetDiffOfTheSameMoment(t *testing.T) {
	need.Command(t, "git")
	dir := t.TempDir()
	then := time.Now().Add(-time.Hour)
	put := func(name, text string) {
		t.Helper()
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(filepath.Join(dir, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("config", "core.trustctime", "false") // no test can set the ctime
	put("file", "1\n")
	git("add", "file")
	git("commit", "-q", "-m", "one")
	put("file", "2\n")
	put(".git/index", "")
	if err := os.WriteFile(filepath.Join(dir, "other"), []byte("untracked\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := serve(t, Config{Workspace: dir}).control().GetDiff(t.Context(), connect.NewRequest(&agentv1.GetDiffRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	if d := res.Msg.GetDiff(); !strings.Contains(d, "+2") || !strings.Contains(d, "+untracked") {
		t.Errorf("the diff is\n%s", d)
	}
}

func TestGetDiffCursorIgnore(t *testing.T) {
	need.Command(t, "git")
	top := t.TempDir()
	dir := filepath.Join(top, "work") // the repository's root is above the workspace
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		cmd.Dir = top
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	put := func(text string) {
		t.Helper()
		for _, name := range []string{"work/plain", "work/a*.key", "work/ab.key", "work/private/x", "work/d/open.key", "beside.key"} {
			name = filepath.Join(top, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	names := func(c agentv1connect.ControlServiceClient) []string {
		t.Helper()
		res, err := c.GetDiff(t.Context(), connect.NewRequest(&agentv1.GetDiffRequest{}))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for line := range strings.Lines(res.Msg.GetDiff()) {
			if name, ok := strings.CutPrefix(line, "+++ b/"); ok {
				all = append(all, strings.TrimSpace(name))
			}
		}
		return all
	}
	put("1\n")
	git("init", "-q")
	git("add", "work/plain", "work/ab.key", "work/private")
	git("commit", "-q", "-m", "one")
	put("2\n")
	c := serve(t, Config{Workspace: dir}).control()
	if got := names(c); len(got) != 5 {
		t.Errorf("without .cursorignore: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, ".cursorignore"), []byte("a[*].key\nprivate/\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := names(c), []string{"work/.cursorignore", "work/ab.key", "work/d/open.key", "work/plain"}; !slices.Equal(got, want) {
		t.Errorf("diff of %q, want %q", got, want)
	}
}

// TestGetDiffRunsNothing checks that no program named in the workspace's git
// configuration runs when exec-daemon compares the workspace.
func TestGetDiffRunsNothing(t *testing.T) {
	need.Command(t, "git")
	dir := t.TempDir()
	ran := filepath.Join(t.TempDir(), "ran")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	put("file", "1\n")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	evil := "touch " + ran + "; cat"
	put("included", "[filter \"more\"]\n\tclean = "+evil+"\n")
	put(".gitattributes", "file filter=evil diff=evil\nother filter=more\nnew filter=evil\n")
	for _, kv := range [][2]string{
		{"core.fsmonitor", evil}, {"core.hooksPath", dir}, {"filter.evil.clean", evil}, {"filter.evil.process", evil}, {"diff.evil.textconv", evil},
		{"diff.evil.command", evil}, {"diff.external", evil}, {"core.pager", evil}, {"pager.diff", evil}, {"include.path", filepath.Join(dir, "included")},
		{"core.sshCommand", evil}, {"alias.diff", "!" + evil}, {"alias.rev-parse", "!" + evil},
	} {
		git("config", kv[0], kv[1])
	}
	put("post-index-change", "#!/bin/sh\n"+evil+"\n")
	put("file", "2\n")
	put("new", "n\n")
	put("other", "o\n")
	r := serve(t, Config{Workspace: dir})
	res, err := r.control().GetDiff(t.Context(), connect.NewRequest(&agentv1.GetDiffRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"-1\n+2\n", "+n\n", "+o\n"} {
		if !strings.Contains(res.Msg.GetDiff(), want) {
			t.Errorf("the diff lacks %q:\n%s", want, res.Msg.GetDiff())
		}
	}
	if _, err := r.control().GetWorkspaceChangesHash(t.Context(), connect.NewRequest(&agentv1.GetWorkspaceChangesHashRequest{})); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the workspace's configuration ran")
	}
}
