package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
)

// as returns the server as seen by a new member.
func (a *aloft) as(email string) *aloft {
	a.t.Helper()
	for _, call := range []struct {
		path string
		body object
	}{
		{"/v1/members", object{"email": email, "firstName": email}},
		{"/v1/sub-tokens", object{"forUserEmail": email}},
	} {
		status, body := a.do("POST", call.path, call.body)
		if status/100 != 2 {
			a.t.Fatalf("%s: %d %s", call.path, status, body)
		}
		var got struct{ AccessToken string }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			a.t.Fatal(err)
		}
		if got.AccessToken != "" {
			member := *a
			member.Key = got.AccessToken
			return &member
		}
	}
	a.t.Fatal("there is no token")
	return nil
}

// du returns the disk usage of files in bytes, each inode once.
func du(t *testing.T, paths ...string) (total int64) {
	t.Helper()
	out, err := exec.Command("du", append([]string{"-sxc", "--block-size=1"}, paths...)...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil {
		total, err = strconv.ParseInt(strings.Fields(lines[len(lines)-1])[0], 10, 64)
	}
	if err != nil {
		t.Fatalf("du %v: %v", paths, err)
	}
	return total
}

// TestLedger has two members whose machines write files of different sizes.
// Each member sees their own usage, which equals du's result. A member over the
// quota can start nothing more until they have deleted an agent.
func TestLedger(t *testing.T) {
	t.Parallel()
	const big, small, tolerance = 64 << 20, 8 << 20, 1 << 20
	git := gittest.New(t)
	url := git.Repo("ledger", map[string]string{"README.md": "ledger\n"})
	a := start(t, scripted(t, `
scripts:
  - match: much
    turns:
      - calls:
          - {tool: Shell, args: {command: "head -c `+strconv.Itoa(big)+` /dev/urandom > /var/tmp/much && sync"}}
      - text: Done.
  - match: little
    turns:
      - calls:
          - {tool: Shell, args: {command: "head -c `+strconv.Itoa(small)+` /dev/urandom > /var/tmp/little && sync"}}
      - text: Done.
`)+"quotas: {disk_bytes: "+strconv.Itoa(big)+"}\n")
	ada, ben := a.as("ada@example.com"), a.as("ben@example.com")
	runs := map[*aloft]run{ada: ada.finish(ada.create(url, "much", nil)), ben: ben.finish(ben.create(url, "little", nil))}
	type usage struct {
		People []struct {
			User  string
			Bytes int64
		}
		Items []struct {
			Kind, ID, AgentID string
			Bytes, Inodes     int64
		}
	}
	for who, least := range map[*aloft]int64{ada: big, ben: small} {
		r := runs[who]
		var got usage
		who.get("/v1/usage/disk", &got)
		var machine int64
		for _, i := range got.Items {
			if i.AgentID != r.AgentID {
				t.Errorf("somebody sees %+v of another", i)
			}
			if i.Kind == "machine" {
				machine += i.Bytes
				if i.Inodes < 10 {
					t.Errorf("%+v has too few inodes", i)
				}
			}
		}
		folders, err := filepath.Glob(filepath.Join(a.Data, "machines", "machines", r.AgentID+"-*"))
		if err != nil || len(folders) != 1 {
			t.Fatalf("machines of %s: %v, %v", r.AgentID, folders, err)
		}
		if want := du(t, folders[0]); machine < least || machine < want-tolerance || machine > want+tolerance {
			t.Errorf("the machine uses %d bytes; du says %d", machine, want)
		}
		if len(got.People) != 1 || got.People[0].Bytes < machine {
			t.Errorf("the sums are %+v", got.People)
		}
	}
	var all usage
	a.get("/v1/usage/disk", &all)
	kinds := map[string]bool{}
	for _, i := range all.Items {
		kinds[i.Kind] = true
	}
	if len(all.People) != 3 || !kinds["machine"] || !kinds["journal"] || !kinds["mirror"] || !kinds["image"] {
		t.Errorf("the admin sees kinds %v of %+v", kinds, all.People)
	}

	more := object{"prompt": object{"text": "little"}, "repos": []object{{"url": url}}}
	r := runs[ada]
	for _, path := range []string{"/v1/agents", "/v1/agents/" + r.AgentID + "/fork", "/v1/agents/" + r.AgentID + "/snapshots"} {
		body := object{"prompt": more["prompt"]}
		if path == "/v1/agents" {
			body = more
		}
		if status, reply := ada.do("POST", path, body); status != http.StatusTooManyRequests || !strings.Contains(reply, "aloft agent delete "+r.AgentID) {
			t.Errorf("over the quota, %s: %d %s", path, status, reply)
		}
	}
	ben.finish(ben.followUp(runs[ben], "little"))
	if status, reply := ada.do("DELETE", "/v1/agents/"+r.AgentID, nil); status != http.StatusOK {
		t.Fatalf("delete: %d %s", status, reply)
	}
	ada.finish(ada.create(url, "little", nil))
}
