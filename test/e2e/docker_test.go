package e2e

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// dockerScript starts Docker with the command START, builds an image from scratch
// with a static program, and runs it.
const dockerScript = `
scripts:
  - turns:
      - calls:
          - tool: Shell
            args:
              timeout: 120000
              command: |
                chmod +x probe
                START
                for i in $(seq 300); do sudo docker version >/dev/null 2>&1 && break; sudo grep -q 'failed to start daemon' /var/log/docker.log && break; sleep 0.1; done
                (sudo docker build -q -t probe . && sudo docker run --rm --network=none probe; echo "status $?"; sudo tail -3 /var/log/docker.log) > out.txt 2>&1
                rm probe; git rm -q --cached probe; cat out.txt
      - text: Done.
`

// dockerImage returns the folder of an image with Debian's Docker.
func dockerImage(t *testing.T) string {
	t.Helper()
	image, err := filepath.Abs("../../.bin/docker-image")
	if err != nil {
		t.Fatal(err)
	}
	need.Command(t, "mmdebstrap")
	if out, err := exec.Command("../../hack/docker-image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v\n%s", err, out)
	}
	return image
}

// Debian's Docker runs a container in a gVisor machine, and in a runc machine
// if the server allows it. Otherwise Docker fails at once with an explanation.
func TestDockerInside(t *testing.T) {
	t.Parallel()
	const service = "sudo service docker start"
	const daemon = "sudo sh -c 'dockerd >/var/log/docker.log 2>&1 &'"
	machine := "machine:\n  image: rootfs:" + dockerImage(t) + "\n"
	// Without arguments the probe prints its usage and exits with 2.
	const ran = `usage: probe .*\nstatus 2`
	for _, c := range []struct{ name, config, start, want string }{
		{"runsc", machine + "  class: strong\n  docker: true\n  strong: " + runsc(t) + "\n", service, ran},
		{"runc", machine + "  docker: true\n", service, ran},
		{"not allowed", machine, daemon, `failed to start daemon`},
	} {
		t.Run(c.name, func(t *testing.T) {
			git := gittest.New(t)
			url := git.Repo("docker", map[string]string{
				"probe": build(t, "probe"), "Dockerfile": "FROM scratch\nCOPY probe /probe\nENTRYPOINT [\"/probe\"]\n",
			})
			a := start(t, scripted(t, strings.ReplaceAll(dockerScript, "START", c.start))+c.config)
			r := a.finish(a.create(url, "Run a container", nil))
			if got := gittest.Git(t, git.Path("docker"), "show", pushed(t, r)+":out.txt"); !regexp.MustCompile(c.want).MatchString(got) {
				t.Errorf("it says %q, want %q", got, c.want)
			}
		})
	}
}

// A project uses Docker Compose: install builds its image once, and start
// starts its containers. Their data survives sleep and is part of forks, and a
// published port can be forwarded.
func TestDockerProject(t *testing.T) {
	t.Parallel()
	git := gittest.New(t)
	url := git.Repo("composed", map[string]string{
		".cursor/environment.json": `{"user": "ubuntu", "install": "cp /bin/busybox . && sh up.sh && sudo docker build -q -t box .", "start": "sh up.sh && sudo docker-compose up -d"}`,
		".gitignore":               "busybox\n",
		"up.sh":                    "sudo service docker start\nfor i in $(seq 300); do sudo docker info >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1\n",
		"Dockerfile":               "FROM scratch\nCOPY busybox /bin/busybox\nRUN [\"/bin/busybox\", \"--install\", \"/bin\"]\nRUN mkdir /data\n",
		"docker-compose.yml": `version: "3"
services:
  database: {image: box, command: [sh, -c, "touch /data/rows; exec sleep 100000"], volumes: ["data:/data"]}
  web: {image: box, command: [httpd, -f, -p, "80", -h, /data], ports: ["8080:80"], volumes: ["data:/data"]}
volumes: {data: {}}
`,
	})
	a := start(t, scripted(t, forkScript)+"\nmachine:\n  image: rootfs:"+dockerImage(t)+"\n  docker: true\n  idle_minutes: 0.05\n") // 3 s
	r := a.finish(a.create(url, "Begin", nil))
	in := func(agentID, command string) string {
		t.Helper()
		return a.output("agent", "exec", agentID, "--", "sh", "-c", "cd /workspace; for i in $(seq 100); do curl -fsS -o /dev/null http://127.0.0.1:8080/rows && break; sleep 0.1; done; "+command)
	}
	const rows = "curl -sS http://127.0.0.1:8080/rows"
	add := func(agentID, row string) {
		t.Helper()
		in(agentID, "sudo docker-compose exec -T database sh -c 'echo "+row+" >> /data/rows'")
	}
	add(r.AgentID, "one")
	a.machineIs(r.AgentID, "hibernated")
	if got := in(r.AgentID, rows); got != "one\n" {
		t.Errorf("after it woke the volume holds %q", got)
	}
	_, runs := a.fork(r.AgentID, object{"n": 1, "prompt": object{"text": "Try it"}})
	fork := a.finish(runs[0])
	add(fork.AgentID, "fork")
	add(r.AgentID, "two")
	for id, want := range map[string]string{r.AgentID: "one\ntwo\n", fork.AgentID: "one\nfork\n"} {
		if got := in(id, rows); got != want {
			t.Errorf("the volume holds %q, want %q", got, want)
		}
	}
	if got := in(r.AgentID, "sudo docker images -q box | wc -l"); got != "1\n" {
		t.Errorf("images: %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t), "agent", "forward", r.AgentID, "8080:0")
	cmd.Env = append(os.Environ(), "ALOFT_URL="+a.URL, "ALOFT_API_KEY="+a.Key)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, _, _ := strings.Cut(line, " ")
	resp, err := http.Get("http://" + at + "/rows")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "one\ntwo\n" {
		t.Errorf("the published port answers %q, %v", got, err)
	}
}
