package container

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/egress"
	"aloft/internal/control/machine"
	"aloft/internal/control/machine/container/link"
	"aloft/internal/loopbacktest"
	"aloft/internal/policy"
)

// gatewayChild is the argument that makes this test binary act as an egress
// process.
const gatewayChild = "gateway-of-a-test"

func gateway(args []string) int {
	var dir, logs string
	for _, arg := range args {
		switch name, value, _ := strings.Cut(arg, "="); name {
		case "--dir":
			dir = value
		case "--log":
			logs = value
		}
	}
	if err := egress.RunProcess(context.Background(), dir, logs, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// client returns a client of the egress process of a machine.
func client(t testing.TB, m machine.Machine) *egress.Client {
	t.Helper()
	n, ok := m.(machine.Networked)
	if !ok {
		t.Fatal("the machine has no gateway")
	}
	return egress.NewClient(n.DialGateway)
}

// opened returns a policy that also allows the host's loopback, on which the
// tests' servers listen.
func opened(mode policy.Mode, allow ...string) policy.Network {
	return policy.Network{Mode: mode, Allow: allow, Open: []string{"127.0.0.1/32"}}
}

// recorded waits until the connection log contains a finished connection for
// which wanted returns true.
func recorded(t testing.TB, m machine.Machine, wanted func(policy.Connection) bool) {
	t.Helper()
	c := client(t, m)
	var all []policy.Connection
	for after := uint64(0); ; {
		page, err := c.Connections(t.Context(), after, 1000, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Ended) == 0 {
			t.Fatalf("no such connection: %+v", all)
		}
		for _, conn := range page.Ended {
			if wanted(conn) {
				return
			}
		}
		all = append(all, page.Ended...)
		after = page.Ended[len(page.Ended)-1].Seq
	}
}

func TestNetwork(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 1<<20) // 16 MiB
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			_, _ = io.WriteString(w, body)
		case "/count":
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		default:
			fmt.Fprint(w, "hello from outside")
		}
	}))
	t.Cleanup(srv.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(srv.URL, "http://"), ":")
	url := "http://host.aloft.internal:" + port
	_, refusedPort, _ := strings.Cut(loopbacktest.Closed(t), ":")
	for name, path := range engines(t) {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, t.TempDir(), path)
			m := create(t, r, machine.Spec{Image: "host", Network: opened(policy.AllowAll)})
			for what, c := range map[string]struct{ command, want string }{
				"http":             {"curl -sS -m 20 " + url, "hello from outside"},
				"large download":   {"curl -sS -m 60 " + url + "/large | wc -c", fmt.Sprintln(len(body))},
				"large upload":     {"head -c 20000000 /dev/zero | curl -sS -m 60 -T - " + url + "/count", "20000000"},
				"1,000 requests":   {"curl -sS -m 60 -Z --parallel-immediate --parallel-max 300 -o /dev/null -w '%{http_code}\\n' '" + url + "/[1-1000]' 2>/dev/null | sort | uniq -c | tr -d ' '", "1000200\n"},
				"refused":          {"curl -sS -m 20 http://172.30.0.1:" + refusedPort + " 2>&1 | grep -c -i 'connect'", "1\n"},
				"metadata address": {"curl -sS -m 20 http://169.254.169.254/ 2>&1 | grep -c -i 'connect'", "1\n"},
				"host's network":   {"curl -sS -m 20 http://10.0.0.1/ 2>&1 | grep -c -i 'connect'", "1\n"},
				"no such name":     {"curl -sS -m 20 http://no-such-name.invalid/ 2>&1 | grep -c -i 'resolve'", "1\n"},
				"resolver":         {"cat /etc/resolv.conf", link.Resolver},
			} {
				if got := ask(t, m, "sh", "-c", c.command); got.Output != c.want {
					t.Errorf("%s: %q is %q, want %q", what, c.command, got.Output, c.want)
				}
			}
			recorded(t, m, func(c policy.Connection) bool { return c.Allowed && c.Received > int64(len(body)) })
			recorded(t, m, func(c policy.Connection) bool { return !c.Allowed && c.Address == "169.254.169.254:80" })
		})
	}
}
