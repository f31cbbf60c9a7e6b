package seccomp_test

import (
	"slices"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"aloft/internal/control/machine/container/seccomp"
)

func TestProfile(t *testing.T) {
	capabilities := []string{"CAP_CHOWN", "CAP_SYS_CHROOT"}
	allowed := func(arch string, kernel [2]int, caps []string, call string) bool {
		t.Helper()
		p, err := seccomp.Profile(arch, kernel, caps)
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
	if _, err := seccomp.Profile("pdp11", [2]int{6, 1}, nil); err == nil {
		t.Error("a processor without rules is no error")
	}
}
