package dockerfiletest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"aloft/internal/control/dockerfile"
	"aloft/internal/fault"
)

// room checks that the bytes that a step writes are counted, including deleted
// files, and that a build that exceeds the limit ends and frees the space.
func (b *bench) room(t *testing.T) {
	const size = 48 << 20
	of := func() *dockerfile.RunningBuild {
		t.Helper()
		all := b.RunningBuilds()
		if len(all) != 1 {
			t.Fatalf("%d builds are under way", len(all))
		}
		return all[0]
	}
	used := func(u *dockerfile.RunningBuild) int64 {
		t.Helper()
		n, err := u.DiskBytes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	line := fmt.Sprintf("RUN exec 3>/gone && busybox rm /gone && busybox head -c %d /dev/zero >&3 && busybox head -c %d /dev/zero >/big && echo it is writ''ten && busybox sleep 600\n", size, size)
	var before int64
	var build *dockerfile.RunningBuild
	_, _, err := b.Build(t.Context(), dockerfile.Spec{Root: b.repo, Context: ".", Contents: base + line}, func(printed string) {
		if build == nil {
			build = of()
			before = used(build)
		}
		if strings.Contains(printed, "it is written") {
			// While an engine prepares the base image, temporary copies of the
			// image use disk space.
			if n := used(build); before > size || n < 2*size-size/2 || n > 4*size {
				t.Errorf("it holds %d bytes at first, and %d when it has written %d", before, n, 2*size)
			}
			if !b.Stop(build.ID(), errors.New("it is too much")) {
				t.Error("it cannot be stopped")
			}
		}
	})
	if f := fault.Of(err); f.Code != "disk_limit" || f.Advice == "" {
		t.Errorf("error is %v", err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := used(build); n > size/2; n = used(build) { // a daemon removes the files asynchronously
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%d bytes are left of it", n)
		}
	}
	if b.Stop(build.ID(), errors.New("again")) || len(b.RunningBuilds()) > 0 {
		t.Error("it is under way when it has ended")
	}
}
