package footprint

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fileResident is how much of files, in KiB, is mapped into this process and resident.
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

// Pages of the program's file that nobody uses are not resident afterwards.
func TestGiveBack(t *testing.T) {
	before := fileResident(t)
	giveBack()
	after := fileResident(t)
	if after > before*3/4 {
		t.Errorf("%d KiB of files are resident, of %d", after, before)
	}
}
