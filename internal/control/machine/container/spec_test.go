package container

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aloft/internal/control/cgroup"
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
			// The filter has its own tests and would dominate the golden file.
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

func TestSeccompProfile(t *testing.T) {
	allowed := func(arch string, kernel [2]int, caps []string, call string) bool {
		t.Helper()
		p, err := seccompProfile(arch, kernel, caps)
		if err != nil {
			t.Fatal(err)
		}
		if p.DefaultAction != specs.ActErrno {
			t.Fatalf("what no rule allows ends in %s", p.DefaultAction)
		}
		return slices.ContainsFunc(p.Syscalls, func(s specs.LinuxSyscall) bool {
			return s.Action == specs.ActAllow && slices.Contains(s.Names, call) && len(s.Args) == 0
		})
	}
	for call, want := range map[string]bool{
		"read": true, "landlock_create_ruleset": true, "seccomp": true, "ptrace": true, "arch_prctl": true, "chroot": true,
		"mount": false, "bpf": false, "keyctl": false, "init_module": false, "kexec_load": false, "reboot": false,
		"unshare": false, "clone3": false, "io_uring_setup": false, "open_by_handle_at": false,
	} {
		if got := allowed("amd64", [2]int{6, 1}, capabilities, call); got != want {
			t.Errorf("%s is allowed: %v", call, got)
		}
	}
	if allowed("amd64", [2]int{4, 4}, capabilities, "ptrace") {
		t.Error("ptrace is allowed on a kernel where it goes round the filter")
	}
	if allowed("arm64", [2]int{6, 1}, capabilities, "arch_prctl") {
		t.Error("arm64 has rules of amd64")
	}
	if !allowed("amd64", [2]int{6, 1}, []string{"CAP_SYS_ADMIN"}, "mount") {
		t.Error("the rules for capabilities are not read")
	}
	if _, err := seccompProfile("pdp11", [2]int{6, 1}, nil); err == nil {
		t.Error("a processor without rules is no error")
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

func TestParseStat(t *testing.T) {
	rest := " S " + strings.Repeat("0 ", 18) + "4242 0 0"
	for _, name := range []string{"sh", "a b", ") S 1 2 3", "(((", "\n)"} {
		start, state, err := parseStat([]byte("17 (" + name + ")" + rest))
		if err != nil || start != 4242 || state != 'S' {
			t.Errorf("%q: %d %c %v", name, start, state, err)
		}
	}
	for _, bad := range []string{"", "17", "17 (sh", "17 (sh) S 1 2"} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

func TestHierarchies(t *testing.T) {
	info := `25 22 0:22 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
26 22 0:23 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 none rw
27 22 0:24 / /home rw - ext4 /dev/x rw
torn line
`
	got := cgroup.Parse(info)
	if len(got) != 2 || !got[0].Has("cpu") || !got[0].Has("cpuacct") || got[0].V2 || !got[1].V2 || got[1].Dir != "/sys/fs/cgroup/unified" {
		t.Errorf("got %+v", got)
	}
}
