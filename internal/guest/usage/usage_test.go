package usage

import (
	"os"
	"testing"
)

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	table, err := ReadTable()
	if err != nil {
		t.Fatal(err)
	}
	own := table.Below(os.Getpid())
	if own.Memory < 1<<20 || own.Processes < 1 || table.All().Memory < own.Memory {
		t.Errorf("%+v of %+v", own, table.All())
	}
	if list := Disks("/", "/", "/no/such"); len(list) != 1 || list[0].Size <= 0 || list[0].Used > list[0].Size {
		t.Errorf("%+v", list)
	}
	if MemoryLimit() <= 0 || Processors() < 1 || OOMKills() < 0 {
		t.Errorf("%d, %d, %d", MemoryLimit(), Processors(), OOMKills())
	}
}

func FuzzParseUsage(f *testing.F) {
	f.Add([]byte("1 (a b) S 0 1 1 0 -1 4194560 1 2 3 4 50 60 0 0 20 0 1 0 5 1000 77 0"))
	f.Add([]byte("1 (a) S 9223372036854775807 1 1 0 -1 4194560 1 2 3 4 9223372036854775807 9223372036854775807 0 0 20 0 1 0 5 1 9223372036854775807"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if u := parseUsage(line); u.CPU < 0 || u.Memory < 0 || u.Processes < 0 {
			t.Errorf("%+v", u)
		}
		if keyed(line, "oom_kill") < 0 {
			t.Error("a negative count")
		}
	})
}
