package container

import (
	"testing"

	"aloft/internal/control/machine"
)

// TestDockerNested runs a Docker of its own in a privileged container, as the
// nodes of kind do, and a container in it. A program in another container uses
// the machine's Docker by its socket, as Testcontainers does.
func TestDockerNested(t *testing.T) {
	m := create(t, dockerRuntime(t), machine.Spec{Image: dockerImage(t), Network: anywhere, Limits: machine.Limits{MemoryBytes: 2 << 30, CPUs: 2, PIDs: 2000}})
	startDocker(t, m)
	makeContainerImage(t, m)
	do(t, m, `mkdir /tmp/node; cd /tmp/node; mkdir usr etc var tmp run proc sys dev root
ln -s usr/bin usr/sbin usr/lib usr/lib64 .; ln -s /run var/run
tar -c . | docker import - node
docker run -d --name node --privileged --tmpfs /run -v /var/lib/docker -v /usr:/usr:ro -v /etc:/etc:ro node sh -c 'exec dockerd >/tmp/log 2>&1'
for i in $(seq 300); do docker exec node docker info >/dev/null 2>&1 && break; sleep 0.1; done
docker exec node docker info >/dev/null || { docker exec node tail -20 /tmp/log; exit 1; }
docker save box | docker exec -i node docker load`)
	for command, want := range map[string]string{
		"docker exec node docker run --rm box cat /built":                                                                   "built",
		"docker exec node docker info -f '{{.Driver}}'":                                                                     "overlay2",
		"docker exec node docker run --rm -m 64m box echo limited":                                                          "limited",
		"docker run --rm -v /var/run/docker.sock:/var/run/docker.sock -v /usr:/usr:ro node docker run --rm box echo beside": "beside",
	} {
		if got := do(t, m, command); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}
