package agent

import "testing"

func TestShortageText(t *testing.T) {
	for _, c := range []struct {
		of   interface{ Text() string }
		want string
	}{
		{&MachineOutOfMemory{Kills: 1, LimitBytes: 4 << 30, Killed: []Process{{"python3", 4000 << 20}}, Largest: []Process{{"python3", 4000 << 20}, {"node", 90 << 20}}},
			"killed: the machine ran out of memory (limit 4 GiB); the kernel killed python3 3.9 GiB; largest processes: python3 3.9 GiB, node 90 MiB"},
		{&MachineOutOfMemory{Kills: 2}, "killed: the machine ran out of memory; the kernel killed 2 processes"},
		{&MachineOutOfMemory{Kills: 1, LimitBytes: 64 << 20, Ended: true}, "killed: the machine ran out of memory (limit 64 MiB); it ended with all its processes"},
		{&MachineOutOfMemory{Kills: 1, LimitBytes: 1 << 30, Container: true, Killed: []Process{{Name: "postgres"}}},
			"killed: a container in the machine ran out of memory (its own limit); the kernel killed postgres"},
		{&MachineOutOfMemory{Kills: 7, Killed: []Process{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "e"}, {Name: "f"}, {Name: "g"}}},
			"killed: the machine ran out of memory; the kernel killed a, b, c, d, e, 2 more"},
		{&MachineDiskFull{UsedBytes: 3 << 29, LimitBytes: 1 << 30}, "the machine was stopped because its files take 1.5 GiB and its disk limit is 1 GiB; " +
			"it starts again with a little free space: remove what is not needed before you write more"},
	} {
		if got := c.of.Text(); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.of, got, c.want)
		}
	}
}

// TestKills checks that State.Kills counts the kills since the machine's last
// boot, because the kernel's counter restarts at 0 with each boot.
func TestKills(t *testing.T) {
	var events []Event
	is := func(want int, bodies ...Body) {
		t.Helper()
		for _, b := range bodies {
			events = append(events, Event{Seq: int64(len(events) + 1), Body: b})
		}
		if got := Fold("bc-1", events).Kills; got != want {
			t.Errorf("after %T, %d kills are known; want %d", bodies[len(bodies)-1], got, want)
		}
	}
	is(0, &MachineMade{MachineID: "m-1"}, &MachineReady{MachineID: "m-1", BootID: "b-1"})
	is(3, &MachineOutOfMemory{Kills: 1}, &MachineOutOfMemory{Kills: 2})
	is(3, &MachineLost{MachineID: "m-1"}, &MachineReady{MachineID: "m-1", BootID: "b-1"}) // the boot is the same: only the connection was lost
	is(0, &MachineReady{MachineID: "m-1", BootID: "b-2"})
	is(1, &MachineOutOfMemory{Kills: 1})
	is(0, &MachineHibernated{MachineID: "m-1", Alive: true}, &MachineWoken{MachineID: "m-1", BootID: "b-2", Alive: true})
}
