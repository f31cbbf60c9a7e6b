package probe

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"aloft/internal/control/machine/container"
)

// ProjectQuotas reports whether the file system of dir has project quotas. The
// server needs none, because it measures what machines use.
func ProjectQuotas(dir string) container.Check {
	c := container.Check{Name: "project quotas", OK: true, Detail: "unknown"}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return c
	}
	var stat unix.Stat_t
	if unix.Stat(dir, &stat) != nil {
		return c
	}
	if kind, has, ok := projectQuota(string(mounts), unix.Major(stat.Dev), unix.Minor(stat.Dev)); ok {
		c.Detail = "not available on " + kind + ": disk usage is measured"
		if has {
			c.Detail = "available on " + kind + ", not used: disk usage is measured"
		}
	}
	return c
}

// projectQuota finds the file system of a device in the text of mountinfo. It
// returns the type, and whether project quotas are enabled. ok is false if the
// device is not mounted.
func projectQuota(mounts string, major, minor uint32) (kind string, has, ok bool) {
	for line := range strings.Lines(mounts) {
		before, after, found := strings.Cut(line, " - ")
		fields, about := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 6 || len(about) < 3 || fields[2] != fmt.Sprintf("%d:%d", major, minor) {
			continue
		}
		options := strings.Split(about[2], ",")
		return about[0], slices.Contains(options, "prjquota") || slices.Contains(options, "pquota"), true
	}
	return "", false, false
}
