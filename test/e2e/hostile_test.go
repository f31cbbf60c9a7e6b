package e2e

import (
	"net/http"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// Root in a machine impersonates pod-daemon, and sends the server small replies
// that take much memory when decoded. Users' requests fail, the server's memory
// stays bounded, and the machine can be removed.
func TestHostileReplies(t *testing.T) {
	git := gittest.New(t)
	url := git.Repo("hostile", map[string]string{"hostile": build(t, "hostile")})
	a := start(t, scripted(t, setUpScript))
	for _, reply := range []string{"parts", "details"} {
		r := a.setUp(url, nil)
		a.inMachine(r.AgentID, "cp hostile /tmp/hostile && chmod 755 /tmp/hostile && (sudo setsid nohup /tmp/hostile "+reply+" > /tmp/said 2>&1 &) && until grep -q listening /tmp/said; do sleep 0.05; done")
		for range 3 {
			if status, body := a.do("GET", "/v1/agents/"+r.AgentID+"/files?path=/", nil); status < http.StatusBadRequest {
				t.Errorf("%s: a folder is listed: %d, %d bytes", reply, status, len(body))
			}
		}
		a.do("GET", "/v1/agents/"+r.AgentID+"/terminals", nil)
	}
	if peak := a.memory(); peak > serverMemory {
		t.Errorf("the server has taken %d MiB", peak>>20)
	}
}
