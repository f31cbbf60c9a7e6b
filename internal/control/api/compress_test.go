package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"aloft/internal/agent"
)

// gunzip returns the body of a compressed reply.
func gunzip(t *testing.T, body []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// Every reply decodes to the same body, whichever Accept-Encoding the client
// sends.
func TestCompression(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	for range 9 {
		h.begin()
	}
	for n := range 30 {
		h.append(id, runID, turn(n, 2)...)
	}
	h.append(id, runID, finish())
	for _, of := range []struct {
		name, method, path, accepts string
		compressed, varies          bool
	}{
		{"List", "GET", "/v1/agents", "gzip", true, true},
		{"AsBrowsersAsk", "GET", "/v1/agents", "gzip, deflate, br, zstd", true, true},
		{"Legacy", "GET", "/v0/agents", "gzip", true, true},
		{"Journal", "GET", "/v1/agents/" + id + "/events?last=300&pieces=false", "gzip", true, true},
		{"Description", "GET", "/openapi.yaml", "gzip", true, true},
		{"OfClientWithoutGzip", "GET", "/v1/agents", "identity", false, true},
		{"OfClientThatRefusesGzip", "GET", "/v1/agents", "gzip;q=0", false, true},
		{"Small", "GET", "/v1/me", "gzip", false, true},
		{"Head", "HEAD", "/v1/agents", "gzip", false, true},
		{"EventStream", "GET", "/v1/agents/" + id + "/runs/" + runID + "/stream", "gzip", false, false},
		{"ReplyToPost", "POST", "/v1/agents/" + id + "/archive", "gzip", false, false},
	} {
		t.Run(of.name, func(t *testing.T) {
			plain := h.want(h.call(of.method, of.path, "", "Accept-Encoding", "identity"), 200)
			got := h.want(h.call(of.method, of.path, "", "Accept-Encoding", of.accepts), 200)
			if compressed := got.header.Get("Content-Encoding") == "gzip"; compressed != of.compressed {
				t.Fatalf("Content-Encoding %q, want gzip: %v", got.header.Get("Content-Encoding"), of.compressed)
			}
			if varies := strings.Contains(got.header.Get("Vary"), "Accept-Encoding"); varies != of.varies {
				t.Errorf("Vary %q, want Accept-Encoding: %v", got.header.Get("Vary"), of.varies)
			}
			if got.header.Get("Content-Type") != plain.header.Get("Content-Type") {
				t.Errorf("Content-Type %q, want %q", got.header.Get("Content-Type"), plain.header.Get("Content-Type"))
			}
			if !of.compressed {
				return
			}
			if !bytes.Equal(got.body, plain.body) {
				t.Errorf("%d bytes that differ from the plain %d", len(got.body), len(plain.body))
			}
			if got.sent > plain.sent/2 {
				t.Errorf("%d of %d bytes are sent", got.sent, plain.sent)
			}
		})
	}
}

// Streams, files and errors are never compressed, however long they are. Nor
// are replies that contain both a secret and text from the request.
func TestWhatIsNotCompressed(t *testing.T) {
	h := newHouse(t)
	plain := map[string]bool{
		"downloadArtifact": true, "getEnvironmentBuildLog": true, "getBuildLog": true, "openBuildPTY": true, "readFile": true, "readFolder": true,
		"getEventImage": true, "openSSH": true, "streamRun": true, "openAgentPTY": true, "openAgentDesktop": true, "forwardPort": true,
		"getArtifactContents": true, "metrics": true, "visitProvider": true, "providerCallback": true, "mcpSignInCallback": true,
	}
	for _, rt := range h.api.routes() {
		if rt.Method != http.MethodGet {
			if compresses(rt) {
				t.Errorf("%s: a reply to %s, which may hold a secret, is compressed", rt.ID, rt.Method)
			}
			continue
		}
		id := strings.TrimPrefix(rt.ID, "legacy")
		if compresses(rt) == plain[id] && (strings.HasPrefix(rt.Path, "/v1/") || plain[id]) {
			t.Errorf("%s: compressed: %v", rt.ID, compresses(rt))
		}
	}
	if a := h.call("GET", "/v1/agents?cursor="+strings.Repeat("x", 4000), "", "Accept-Encoding", "gzip"); a.status < 400 || a.header.Get("Content-Encoding") != "" {
		t.Errorf("an error of status %d has Content-Encoding %q", a.status, a.header.Get("Content-Encoding"))
	}
}

// A client that follows a journal gets each event immediately.
func TestFollowedJournalIsNotHeldBack(t *testing.T) {
	h := newHouse(t)
	id, runID := h.begin()
	req, err := http.NewRequestWithContext(t.Context(), "GET", h.http.URL+"/v1/agents/"+id+"/events?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+annsKey)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := h.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("Content-Encoding %q", resp.Header.Get("Content-Encoding"))
	}
	lines := bufio.NewReader(resp.Body)
	for seq := range 5 {
		if seq > 1 { // the first two events create the agent and its run
			h.append(id, runID, &agent.TextDelta{Text: "x"})
		}
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, fmt.Sprintf(`{"seq":%d,`, seq+1)) {
			t.Fatalf("event %d: %q, %v", seq+1, line, err)
		}
	}
}
