package probe

import (
	"strings"
	"testing"
)

func TestProjectQuota(t *testing.T) {
	const mounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
23 22 8:2 / /data rw - xfs /dev/sdb rw,attr2,prjquota
24 22 8:3 / /more rw master:1 - ext4 /dev/sdc rw,usrquota,prjquota
25 22 8:4 / /users rw - xfs /dev/sdd rw,usrquota
broken
`
	for _, tt := range []struct {
		minor   uint32
		kind    string
		has, ok bool
	}{{1, "ext4", false, true}, {2, "xfs", true, true}, {3, "ext4", true, true}, {4, "xfs", false, true}, {5, "", false, false}} {
		if kind, has, ok := projectQuota(mounts, 8, tt.minor); kind != tt.kind || has != tt.has || ok != tt.ok {
			t.Errorf("8:%d: %q, %v, %v", tt.minor, kind, has, ok)
		}
	}
	if c := ProjectQuotas("/proc"); !c.OK || !strings.Contains(c.Detail, "not available on proc") {
		t.Errorf("/proc: %+v", c)
	}
}
