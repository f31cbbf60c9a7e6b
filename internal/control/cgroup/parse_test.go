package cgroup_test

import (
	"testing"

	"aloft/internal/control/cgroup"
)

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
