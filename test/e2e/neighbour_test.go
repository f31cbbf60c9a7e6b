package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// A service in one machine listens on all addresses. Another machine cannot
// reach it on any of them, although it may connect to everything else.
func TestMachinesDoNotReachOneAnother(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("neighbours", map[string]string{"README.md": "neighbours\n"})
	a := start(t, scripted(t, `
scripts:
  - match: listen
    turns:
      - calls:
          - tool: Shell
            args:
              is_background: true
              command: exec perl -MIO::Socket::IP -e '$s = IO::Socket::IP->new(Listen => 5, LocalHost => "::", LocalPort => 4711, V6Only => 0, ReuseAddr => 1) or die; while ($c = $s->accept) { print $c "the neighbour\n"; close $c }'
      - calls:
          - tool: Shell
            args:
              command: |
                until (exec 3<>/dev/tcp/127.0.0.1/4711) 2>/dev/null; do sleep 0.05; done
                for ip in $(hostname -I); do echo "at $ip: $(timeout 5 cat < /dev/tcp/$ip/4711 2>&1 | tail -1)" >> seen.txt; done
      - text: Done.
  - match: 'reach ([0-9a-f:. ]+)'
    turns:
      - calls:
          - tool: Shell
            args:
              timeout: 120000
              command: |
                for ip in {{match 1}} $(ip -4 neigh | cut -d' ' -f1) $(hostname -I | sed 's/[0-9]* *$/9/'); do
                  echo "at $ip: $(timeout 5 cat < /dev/tcp/$ip/4711 2>&1 | tail -1)" >> seen.txt
                done
      - text: Done.
`))
	seen := func(r run) string {
		return gittest.Git(t, git.Path("neighbours"), "show", pushed(t, a.finish(r))+":seen.txt")
	}
	var addresses []string
	for line := range strings.Lines(seen(a.create(url, "listen", nil))) {
		ip, said, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "at "), ": ")
		if said != "the neighbour" {
			t.Errorf("the service does not answer itself: %s", line)
		}
		addresses = append(addresses, ip)
	}
	if len(addresses) == 0 {
		t.Fatal("the machine has no address")
	}
	got := seen(a.create(url, "reach "+strings.Join(addresses, " "), nil))
	if strings.Contains(got, "the neighbour") || strings.Count(got, "at ") <= len(addresses) {
		t.Errorf("it was tried:\n%s", got)
	}
}
