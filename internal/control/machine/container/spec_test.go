package container

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"aloft/internal/control/image"
	"aloft/internal/control/machine"
)

var update = flag.Bool("update", false, "write the golden files")

func TestBundleConfig(t *testing.T) {
	at := hostPaths{rootfs: "/data/machines/m-1/rootfs", run: "/data/machines/m-1/run", cgroup: "/aloft-00000000-m-1"}
	host := facts{arch: "amd64", kernel: [2]int{6, 1}, swapLimit: true, raiseLimits: true}
	binds := image.Image{Binds: []image.Bind{{Source: "/usr", Target: "/usr"}}}
	for name, c := range map[string]struct {
		spec machine.Spec
		img  image.Image
		eng  engine
	}{
		"plain":  {machine.Spec{ID: "m-1"}, image.Image{}, engine{}},
		"limits": {machine.Spec{ID: "m-1", Env: map[string]string{"LANG": "de_DE.UTF-8", socketEnv: "/elsewhere"}, Limits: machine.Limits{MemoryBytes: 1 << 30, CPUs: 1.5, PIDs: 100}}, binds, engine{}},
		"image":  {machine.Spec{ID: "m-1", Env: map[string]string{"A": "spec"}}, image.Image{Config: image.Config{Env: []string{"PATH=/opt/go/bin:/bin", "A=image", "B=image", "broken", "=", "N=\x00"}}}, engine{}},
		"docker": {machine.Spec{ID: "m-1"}, image.Image{}, engine{docker: true}},
		"gvisor": {machine.Spec{ID: "m-1", Limits: machine.Limits{MemoryBytes: 1 << 30, PIDs: 100}}, binds, engine{gvisor: true}},
	} {
		t.Run(name, func(t *testing.T) {
			at := at
			if c.eng.docker {
				at.userns, at.docker = "/proc/1/fd/9", true
			}
			data, err := bundleConfig(c.spec, c.img, at, c.eng, host)
			if err != nil {
				t.Fatal(err)
			}
			// Remove the seccomp filter, which has its own tests and would
			// dominate the golden file.
			var doc map[string]any
			if err := json.Unmarshal(data, &doc); err != nil {
				t.Fatal(err)
			}
			linux := doc["linux"].(map[string]any)
			if _, filtered := linux["seccomp"]; filtered == c.eng.gvisor {
				t.Errorf("filtered: %v", filtered)
			}
			delete(linux, "seccomp")
			got, err := json.MarshalIndent(doc, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("config differs from %s; run with -update and look at the diff:\n%s", golden, got)
			}
		})
	}
}

func TestCheckSpec(t *testing.T) {
	for name, s := range map[string]machine.Spec{
		"empty name":      {Env: map[string]string{"": "x"}},
		"name with =":     {Env: map[string]string{"A=B": "x"}},
		"NUL":             {Env: map[string]string{"A": "x\x00y"}},
		"negative memory": {Limits: machine.Limits{MemoryBytes: -1}},
		"tiny memory":     {Limits: machine.Limits{MemoryBytes: 4096}},
		"negative CPUs":   {Limits: machine.Limits{CPUs: -1}},
	} {
		if err := checkSpec(s); err == nil {
			t.Errorf("%s is no error", name)
		}
	}
}
