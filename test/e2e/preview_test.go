package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"

	"github.com/coder/websocket"
)

// webProgram is a web server in a machine. It prints the cookies that it gets,
// tries to set forbidden cookies, and echoes WebSocket messages.
const webProgram = `
const crypto = require('crypto')
require('http').createServer((q, s) => {
  s.setHeader('Set-Cookie', ['own=1; Path=/', 'theirs=1; Path=/; Domain=preview.localhost', 'aloft-preview=forged; Path=/'])
  s.end('inside ' + q.url + ', cookies ' + (q.headers.cookie || 'none') + ', key ' + (q.headers.authorization || 'none'))
}).on('upgrade', (q, c) => {
  const accept = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  c.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + '\r\n\r\n')
  c.once('data', d => {
    const n = d[1] & 127, mask = d.subarray(2, 6)
    c.write(Buffer.concat([Buffer.from([0x81, n]), Buffer.from(d.subarray(6, 6 + n).map((b, i) => b ^ mask[i % 4]))]))
  })
}).listen(+process.argv[2], '127.0.0.1')
`

// browser returns a client that keeps cookies and resolves every name to the
// server.
func (a *aloft) browser() *http.Client {
	a.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, strings.TrimPrefix(a.URL, "http://"))
	}}}
}

// TestPreviewInABrowser opens two programs in a machine with a browser-like
// client, each at its own origin.
func TestPreviewInABrowser(t *testing.T) {
	t.Parallel()
	need.Command(t, "node")
	need.Command(t, "curl")
	git := gittest.New(t)
	const command = `for port in 3000 3001; do
  setsid node web.js $port </dev/null >/tmp/log 2>&1 &
  until curl -fsS http://127.0.0.1:$port/; do sleep 0.1; done
done`
	a := start(t, scripted(t, shellScript(command)))
	r := a.finish(a.create(git.Repo("web", map[string]string{
		"web.js": webProgram, ".aloft/environment.json": `{"ports": [{"port": 3000, "name": "web"}, 3001]}`,
	}), "Serve the web", nil))
	var previews [2]struct{ URL, SignInURL string }
	for i, port := range []string{"3000", "3001"} {
		status, body := a.do("POST", "/v1/agents/"+r.AgentID+"/ports/"+port+"/preview", nil)
		if status != http.StatusCreated || json.Unmarshal([]byte(body), &previews[i]) != nil {
			t.Fatalf("preview: %d %s", status, body)
		}
	}
	if shown := a.output("agent", "show", "--json", r.AgentID); !strings.Contains(shown, `"ports":[{"port":3000,"name":"web"},{"port":3001}]`) {
		t.Errorf("the agent is shown without its ports: %s", shown)
	}
	if found := a.output("agent", "ports", "--json", r.AgentID); !strings.Contains(found, `[{"port":3000,"program":"node"},{"port":3001,"program":"node"}]`) {
		t.Errorf("the ports found are %s", found)
	}
	if byName := a.output("agent", "preview", "--json", r.AgentID, "web"); !strings.Contains(byName, previews[0].URL) {
		t.Errorf("the preview of web is %s; want one at %s", byName, previews[0].URL)
	}
	c := a.browser()
	get := func(address string) (int, string, *http.Response) {
		resp, err := c.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body), resp
	}
	if status, body, _ := get(previews[0].URL); status != http.StatusUnauthorized {
		t.Errorf("who has not signed in sees %d %s", status, body)
	}
	// The first visit redirects from the sign-in to the program.
	status, body, resp := get(previews[0].SignInURL)
	if status != http.StatusOK || body != "inside /, cookies none, key none" {
		t.Errorf("signed in, it sees %d %q", status, body)
	}
	for _, cookie := range resp.Cookies() {
		if cookie.Domain != "" || strings.Contains(cookie.Value, "forged") {
			t.Errorf("the program gives the cookie %v", cookie)
		}
	}
	// The program gets its own cookie back, without the session cookie.
	if _, body, _ := get(previews[0].URL + "again?x=1"); !strings.HasPrefix(body, "inside /again?x=1, cookies ") || !strings.Contains(body, "own=1") || strings.Contains(body, "aloft-preview") {
		t.Errorf("the second time it sees %q", body)
	}
	// Neither the other program's origin nor the API gets that cookie.
	if status, body, _ := get(previews[1].URL); status != http.StatusUnauthorized {
		t.Errorf("the other preview, not signed in: %d %s", status, body)
	}
	if status, body, _ := get(previews[1].SignInURL); status != http.StatusOK || body != "inside /, cookies none, key none" {
		t.Errorf("the other preview: %d %q", status, body)
	}
	if status, body, _ := get(a.URL + "/v1/agents"); status != http.StatusUnauthorized {
		t.Errorf("the API, with the browser's cookies: %d %s", status, body)
	}
	u, err := url.Parse(previews[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := http.Header{}
	for _, cookie := range c.Jar.Cookies(u) {
		cookies.Add("Cookie", cookie.String())
	}
	speak := func(header http.Header) (string, error) {
		header = header.Clone()
		ws, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(previews[0].URL, "http")+"ws", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: c.Transport}, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return "", err
		}
		defer func() { _ = ws.CloseNow() }()
		if err := ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			return "", err
		}
		_, heard, err := ws.Read(t.Context())
		return string(heard), err
	}
	if heard, err := speak(cookies); heard != "hello" {
		t.Errorf("over a WebSocket it hears %q, %v", heard, err)
	}
	if heard, err := speak(http.Header{}); err == nil {
		t.Errorf("a WebSocket of somebody not signed in hears %q", heard)
	}
	cookies.Set("Origin", "http://"+strings.Replace(u.Host, "3000-", "3001-", 1))
	if heard, err := speak(cookies); err == nil {
		t.Errorf("a WebSocket of another origin hears %q", heard)
	}
}
