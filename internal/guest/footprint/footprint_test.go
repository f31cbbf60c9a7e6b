package footprint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fileResident returns how much of the program's file is resident in this
// process's memory, in KiB.
func fileResident(t *testing.T) (kib int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	own := false
	for line := range strings.Lines(string(maps)) {
		switch fields := strings.Fields(line); {
		case !strings.HasSuffix(fields[0], ":"): // this is the first line of a mapping
			own = fields[len(fields)-1] == program
		case own && fields[0] == "Rss:":
			n, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	if kib == 0 {
		t.Fatal("the program's file is not mapped")
	}
	return kib
}

// populate makes all pages of the program's file that are mapped for reading
// resident.
func populate(t *testing.T) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(access, "r-") || !strings.HasSuffix(line, " "+program+"\n") {
			continue
		}
		if _, _, errno := unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_POPULATE_READ); errno != 0 {
			t.Fatal(errno)
		}
	}
}

// TestGiveBack checks that unused pages of the program's file are no longer
// resident.
func TestGiveBack(t *testing.T) {
	populate(t)
	before := fileResident(t)
	giveBack()
	after := fileResident(t)
	if after > before*3/4 {
		t.Errorf("%d KiB of the program are resident, of %d", after, before)
	}
}
