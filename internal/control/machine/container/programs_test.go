package container

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"aloft/internal/control/machine"
	"aloft/internal/need"
	"aloft/internal/policy"

	"github.com/coder/websocket"
)

// openSockets is a Node program that opens the given number of connections.
// When all are open, it sends a word on each and counts the replies.
const openSockets = `
const net = require('net'), [port, n] = process.argv.slice(1).map(Number);
let open = 0, heard = 0, all = [];
for (let i = 0; i < n; i++) {
  const c = net.connect(port, '172.30.0.1', () => { if (++open == n) all.forEach(c => c.write('word\n')) });
  c.on('data', () => { c.end(); if (++heard == n) { console.log('heard', heard); process.exit() } });
  c.on('error', e => { console.log(e.message); process.exit(1) });
  all.push(c);
}`

// speakWebSocket is a Node program with its own WebSocket implementation. It
// sends one word and prints the reply.
const speakWebSocket = `
const c = require('http').get(process.argv[1], { headers: { Connection: 'Upgrade', Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==' } });
c.on('upgrade', (res, socket) => {
  socket.write(Buffer.from([0x81, 0x84, 0, 0, 0, 0, ...Buffer.from('word')]));
  socket.on('data', d => { console.log(res.statusCode, d.subarray(2, 2 + d[1]).toString()); process.exit() });
});
c.on('response', r => { console.log('refused', r.statusCode); process.exit(1) });`

// crowd are connections that are all open at once: none is answered before all are there.
type crowd struct {
	open     atomic.Int64
	complete chan struct{}
}

// TestPrograms has programs in machines connect to the test's servers.
func TestPrograms(t *testing.T) {
	for _, name := range []string{"node", "curl", "ping"} {
		need.Command(t, name)
	}
	const large, sockets = 200 << 20, 1000
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = io.CopyN(w, zeros{}, large) // the client counts
		case "/ws":
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			if kind, data, err := ws.Read(r.Context()); err == nil {
				_ = ws.Write(r.Context(), kind, append([]byte("heard "), data...))
			}
			_ = ws.Close(websocket.StatusNormalClosure, "")
		default:
			fmt.Fprint(w, "hello")
		}
	})
	plain := httptest.NewServer(handler)
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(handler)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // hide the errors of clients that do not trust the CA
	secure.StartTLS()
	t.Cleanup(secure.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	var current atomic.Pointer[crowd]
	many := tcpServer(t, func(c net.Conn) {
		crowd := current.Load()
		if crowd.open.Add(1) == sockets {
			close(crowd.complete)
		}
		word := make([]byte, 5)
		if _, err := io.ReadFull(c, word); err != nil {
			return
		}
		select {
		case <-crowd.complete:
			_, _ = c.Write(word)
		case <-t.Context().Done():
		}
	})
	port := func(s *httptest.Server) string {
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		return port
	}
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m := create(t, newRuntime(t, t.TempDir(), path), machine.Spec{Image: "host", Network: opened(policy.List, "host.aloft.internal", "127.0.0.1", "example.com")})
			ask(t, m, "sh", "-c", "cat > /tmp/authority.pem <<'EOF'\n"+string(authority)+"EOF")
			noPing := map[string]string{"runsc": "|Operation not permitted"}[name] // gVisor allows ping only to root
			tls := "curl -sS -m 20 --connect-to example.com:443:172.30.0.1:" + port(secure) + " https://example.com/ "
			connections := &crowd{complete: make(chan struct{})}
			current.Store(connections)
			for what, c := range map[string]struct{ command, want string }{
				"200 MB":                    {"curl -sS -m 120 http://host.aloft.internal:" + port(plain) + "/large | wc -c", fmt.Sprintln(large)},
				"WebSocket":                 {"node -e \"$0\" http://host.aloft.internal:" + port(plain) + "/ws", "101 heard word\n"},
				"an authority of our own":   {tls + "--cacert /tmp/authority.pem", "hello"},
				"an authority nobody knows": {tls + "2>&1 | grep -c -i certificate", "1\n"},
				"1,000 connections":         {fmt.Sprintf("node -e \"$0\" %d %d", many, sockets), fmt.Sprintf("heard %d\n", sockets)},
				"ping":                      {"ping -n -c 1 -w 60 172.30.0.1 2>&1 | grep -c -E ' 1 (packets )?received" + noPing + "'", "1\n"}, // -w repeats an echo request that was lost
				"ping of others":            {"ping -n -c 1 -W 60 192.0.2.1 2>&1 | grep -c -E 'From 172.30.0.1 .*Packet filtered" + noPing + "'", "1\n"},
				"ping of others by IPv6":    {"ping -n -c 1 -W 60 2001:db8::1 2>&1 | grep -c -E 'From fd00:a10f::1 .*Administratively prohibited" + noPing + "'", "1\n"},
			} {
				script := map[string]string{"WebSocket": speakWebSocket, "1,000 connections": openSockets}[what]
				if got := ask(t, m, "sh", "-c", c.command, script); got.Output != c.want {
					t.Errorf("%s: %q, want %q", what, got.Output, c.want)
				}
			}
			if n := connections.open.Load(); n != sockets {
				t.Errorf("%d connections were opened", n)
			}
		})
	}
}

// zeros is an endless reader of zeros.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// tcpServer runs do for each connection on a new port of the loopback, and
// returns the port.
func tcpServer(t *testing.T, do func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { do(c); _ = c.Close() }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}
