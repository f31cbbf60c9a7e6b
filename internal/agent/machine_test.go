package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMachineState folds events into the state of a machine. Event n happens n seconds
// after the epoch.
func TestMachineState(t *testing.T) {
	made, ready := &MachineMade{MachineID: "m", Install: true}, &MachineReady{BootID: "b1", User: "u"}
	up := MachineRecord{MachineID: "m", BootID: "b1", LastBootID: "b1", User: "u", Settled: true, Used: true, Install: true}
	up1 := func(change func(*MachineRecord)) MachineRecord {
		s := up
		change(&s)
		return s
	}
	for name, tt := range map[string]struct {
		events []Body
		want   MachineRecord
	}{
		"made":           {[]Body{made}, MachineRecord{MachineID: "m", Install: true}},
		"ready":          {[]Body{made, ready}, up},
		"keeps the user": {[]Body{made, ready, &MachineReady{BootID: "b1"}}, up},
		"variables":      {[]Body{made, ready, &VariablesGiven{Names: []string{"A"}}}, up1(func(s *MachineRecord) { s.Given = []string{"A"} })},
		"lost":           {[]Body{made, ready, &MachineLost{}}, up1(func(s *MachineRecord) { s.BootID = "" })},
		"asleep":         {[]Body{made, ready, &MachineHibernated{}}, up1(func(s *MachineRecord) { s.Hibernated, s.SleptAt = true, time.Unix(2, 0) })},
		"awake with its processes": {[]Body{made, ready, &MachineHibernated{}, &MachineWoken{BootID: "b1", Alive: true}},
			up1(func(s *MachineRecord) { s.SleptAt, s.Slept = time.Unix(2, 0), time.Second })},
		"rebooted for a visitor": {[]Body{made, ready, &MachineHibernated{}, &MachineWoken{BootID: "b2", Started: true}},
			up1(func(s *MachineRecord) { s.SleptAt, s.LastBootID, s.Started = time.Unix(2, 0), "b2", "b2" })},
		"told of its sleep": {[]Body{made, ready, &MachineHibernated{}, &MachineWoken{BootID: "b1", Alive: true}, &Notice{Code: CodeSlept}},
			up1(func(s *MachineRecord) { s.SleptAt = time.Unix(2, 0) })},
		"expiring":     {[]Body{made, ready, &MachineExpiring{At: time.Unix(9, 0)}}, up1(func(s *MachineRecord) { s.Expires = time.Unix(9, 0) })},
		"in use again": {[]Body{made, ready, &MachineExpiring{At: time.Unix(9, 0)}, prompt("go on")}, up},
		"expired":      {[]Body{made, ready, &MachineExpired{}}, up1(func(s *MachineRecord) { s.MachineID, s.BootID = "", "" })},
		"recreated": {[]Body{made, ready, &VariablesGiven{Names: []string{"A"}}, &MachineMade{MachineID: "m2"}},
			up1(func(s *MachineRecord) { s.MachineID, s.BootID, s.Used, s.Install = "m2", "", false, false })},
	} {
		var got MachineRecord
		for _, e := range journal(tt.events...) {
			got.apply(e)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}

// TestWorkRecord folds events into the state of the repositories.
func TestWorkRecord(t *testing.T) {
	repos := []Repo{{URL: "a"}, {URL: "b"}}
	ready := &MachineReady{BaseCommit: "c1", Branch: "x", Others: []Checkout{{BaseCommit: "d1", Branch: "x"}}}
	for name, tt := range map[string]struct {
		events []Body
		want   WorkRecord
	}{
		"named by the request": {[]Body{&Created{Branch: "y"}}, WorkRecord{Branch: "y"}},
		"ready":                {[]Body{ready}, WorkRecord{Branch: "x", BaseCommit: "c1", Others: []Checkout{{"d1", "x", false}}}},
		"the base stays": {[]Body{ready, &MachineReady{BaseCommit: "c2", Others: []Checkout{{BaseCommit: "d2"}}}},
			WorkRecord{Branch: "x", BaseCommit: "c1", Others: []Checkout{{"d1", "x", false}}}},
		"the first is pushed": {[]Body{ready, &Pushed{RepoURL: "a"}}, WorkRecord{Branch: "x", BaseCommit: "c1", Pushed: true, Others: []Checkout{{"d1", "x", false}}}},
		"another is pushed":   {[]Body{ready, &Pushed{RepoURL: "b"}}, WorkRecord{Branch: "x", BaseCommit: "c1", Others: []Checkout{{"d1", "x", true}}}},
		"hooks were skipped":  {[]Body{&Committed{Unhooked: "slow"}, &Pushed{Unhooked: "slow"}, &Committed{Unhooked: "gone"}}, WorkRecord{Pushed: true, Unhooked: []string{"slow", "gone"}}},
	} {
		var got WorkRecord
		for _, b := range tt.events {
			got.apply(b, repos)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
}
