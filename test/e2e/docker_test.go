package e2e

import (
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

// Debian's Docker runs a container in a gVisor machine, and in a runc machine if
// the server allows it. Otherwise it says at once that it cannot.
func TestDockerInside(t *testing.T) {
	image, err := filepath.Abs("../../.bin/docker-image")
	if err != nil {
		t.Fatal(err)
	}
	need.Command(t, "mmdebstrap")
	if out, err := exec.Command("../../hack/docker-image.sh", image).CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v\n%s", err, out)
	}
	const service = "sudo service docker start"
	const daemon = "sudo sh -c 'dockerd --iptables=false --ip6tables=false --bridge=none >/var/log/docker.log 2>&1 &'"
	machine := "machine:\n  image: rootfs:" + image + "\n"
	// Without arguments the probe prints its usage and exits with 2.
	const ran = `usage: probe .*\nstatus 2`
	for _, c := range []struct{ name, config, start, want string }{
		{"runsc", machine + "  class: strong\n  docker: true\n  strong: " + runsc(t) + "\n", daemon, ran},
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
