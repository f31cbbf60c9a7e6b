package oomlog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"aloft/internal/control/machine"
)

// TestParse parses messages of the kernel's log, including process names with
// which a machine imitates another machine's messages.
func TestParse(t *testing.T) {
	log := strings.Split(strings.TrimSpace(`
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[   2915]  1000  2915   699051    17504    16256     1248         0   401408        0           500 my program
[   2916]  1000  2916     1000      100       10       90         0    40140        0           500 sh
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/docker/7/aloft-1-m-1/machine,task_memcg=/docker/7/aloft-1-m-1/machine,task=my program,pid=2915,uid=1000
Memory cgroup out of memory: Killed process 2915 (my program) total-vm:2796204kB, anon-rss:65024kB
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/aloft-1-m-1/machine/docker/x,task_memcg=/aloft-1-m-1/machine/docker/x,task=postgres,pid=3,uid=1
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/aloft-1-m-10/machine,task_memcg=/aloft-1-m-10/machine,task=another,pid=4,uid=1
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/aloft-1-m-2/machine/aloft-1-m-1/machine,task_memcg=/aloft-1-m-1/machine,task=disguised,pid=5,uid=1
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/aloft-1-m-2/machine,task_memcg=/x,task=a,oom_memcg=/aloft-1-m-1/machine,pid=6,uid=1
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/aloft-1-m-1/machine,task=host,pid=7,uid=1
[garbage]
oom-kill:oom_memcg=/aloft-1-m-1/machine
`), "\n")
	page := int64(unix.Getpagesize())
	want := []Kill{
		{machine.Process{Name: "my program", Bytes: 17504 * page}, []machine.Process{{Name: "my program", Bytes: 17504 * page}, {Name: "sh", Bytes: 100 * page}}, false},
		{machine.Process{Name: "postgres"}, nil, true},
	}
	if diff := cmp.Diff(want, parse(log, "aloft-1-", "aloft-1-m-1", "machine")); diff != "" {
		t.Error(diff)
	}
}
