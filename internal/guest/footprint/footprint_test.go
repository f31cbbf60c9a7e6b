package footprint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileResident returns how much of the files that are mapped into this process
// is resident, in KiB.
func fileResident(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "RssFile: %d kB", &kib); err == nil {
			return kib
		}
	}
	t.Fatal("there is no RssFile")
	return 0
}

// TestGiveBack checks that unused pages of the program's file are no longer
// resident.
func TestGiveBack(t *testing.T) {
	before := fileResident(t)
	giveBack()
	after := fileResident(t)
	if after > before*3/4 {
		t.Errorf("%d KiB of files are resident, of %d", after, before)
	}
}
