//go:build editor

package main

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"aloft/internal/need"
	"aloft/internal/wire/agentv1"
	"aloft/internal/wire/agentv1/agentv1connect"
)

// TestCodeServer starts the real code-server, which "make editor" installs, and
// checks that it refuses everybody who lacks the token that the caller got.
func TestCodeServer(t *testing.T) {
	bin, err := filepath.Abs("../../.bin/code-server/bin")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "code-server", filepath.Join(bin, "code-server"))
	d := start(t, func(d *daemon) {
		d.env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	})
	control := agentv1connect.NewControlServiceClient(http.DefaultClient, "http://"+d.addr)
	found := connect.NewRequest(&agentv1.DownloadCursorServerRequest{})
	found.Header().Set("Authorization", "Bearer "+token)
	if res, err := control.DownloadCursorServer(t.Context(), found); err != nil || !strings.HasPrefix(res.Msg.GetProgram(), bin) {
		t.Fatalf("%v, %v", res, err)
	}
	warm := func() *agentv1.WarmRemoteAccessServerResponse {
		t.Helper()
		req := connect.NewRequest(&agentv1.WarmRemoteAccessServerRequest{})
		req.Header().Set("Authorization", "Bearer "+token)
		res, err := control.WarmRemoteAccessServer(within(t), req)
		if err != nil {
			t.Fatal(err)
		}
		return res.Msg
	}
	first := warm()
	if again := warm(); !again.GetAlreadyRunning() || again.GetPort() != first.GetPort() || again.GetConnectionToken() != first.GetConnectionToken() {
		t.Errorf("asked again: %v, at first %v", again, first)
	}
	at := "http://127.0.0.1:" + strconv.Itoa(int(first.GetPort()))
	for password, in := range map[string]bool{"": false, token: false, first.GetConnectionToken(): true} {
		jar, err := cookiejar.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		browser := &http.Client{Jar: jar, Transport: &http.Transport{}}
		if res, err := browser.PostForm(at+"/login", url.Values{"password": {password}}); err != nil || res.Body.Close() != nil {
			t.Fatal(err)
		}
		res, err := browser.Get(at + "/?folder=" + url.QueryEscape(d.workspace))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if workbench := strings.Contains(string(page), "vscode-workbench-web-configuration"); err != nil || workbench != in {
			t.Errorf("with the password %.8q…: %s, the editor's page: %t, %v", password, res.Request.URL.Path, workbench, err)
		}
		browser.CloseIdleConnections()
	}
	_ = d.signal(syscall.SIGTERM)
	if _, err := http.Get(at + "/healthz"); err == nil {
		t.Error("it outlives exec-daemon")
	}
}
