package egress

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/policy"
)

func openTestLog(t testing.TB, dir string) *ledger {
	t.Helper()
	l, err := OpenLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // in case the test has not closed it
	return newLedger(l)
}

func testRecord(port uint16) *record {
	return newRecord("tcp", netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), nil, policy.Verdict{Allowed: true, Rule: "mode allow_all"})
}

// TestLogGoesOn kills the writer of a log, and has other writers continue the
// log.
func TestLogGoesOn(t *testing.T) {
	dir := t.TempDir()
	l := openTestLog(t, dir)
	ended, cut := testRecord(1), testRecord(2)
	l.begin(ended)
	l.begin(cut)
	ended.sent.Add(7)
	l.end(ended)
	l.add(testRecord(3))
	// Simulate an incomplete line, as a crash of the host may leave one.
	f, err := os.OpenFile(logFile(dir, 0), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":9,"seq":`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want := "1 192.0.2.1:1 7 \n2 192.0.2.1:3 0 \n3 192.0.2.1:2 0 " + cutOff + "\n"
	if got := logged(t, dir); got != want {
		t.Errorf("the log says\n%s, want\n%s", got, want)
	}
	for range 2 { // a second read returns the same connections
		l = openTestLog(t, dir)
		page, _ := l.after(0, 100)
		if got := spell(page); got != want {
			t.Errorf("the next one knows\n%s, want\n%s", got, want)
		}
	}
	l.add(testRecord(4))
	if got := logged(t, dir); got != want+"4 192.0.2.1:4 0 \n" {
		t.Errorf("the log goes on with\n%s", got)
	}
}

func logged(t *testing.T, dir string) string {
	t.Helper()
	all, err := ReadLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	return spell(all)
}

func spell(all []policy.Connection) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintln(&b, c.Seq, c.Address, c.Sent, c.Error)
	}
	return b.String()
}

func TestLogIsBounded(t *testing.T) {
	dir := t.TempDir()
	l := openTestLog(t, dir)
	long := testRecord(1)
	l.begin(long)
	const many = 20000
	for i := range many {
		l.add(testRecord(uint16(i)))
	}
	size := int64(0)
	for i := range logFiles {
		st, err := os.Stat(logFile(dir, i))
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > logFiles*(logSize+4096) {
		t.Errorf("the log has %d bytes", size)
	}
	all, err := ReadLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != maxRecords+1 || all[len(all)-2].Seq != many {
		t.Fatalf("it holds %d, up to %d", len(all), all[len(all)-2].Seq)
	}
	if last := all[len(all)-1]; last.Address != "192.0.2.1:1" || last.Error != cutOff {
		t.Errorf("a connection that was open for long is %+v", last)
	}
	for i, c := range all[1:] {
		if c.Seq != all[i].Seq+1 {
			t.Fatalf("%d follows %d", c.Seq, all[i].Seq)
		}
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte(`{"n":1,"seq":0,"network":"tcp"}`+"\n"+`{"n":1,"seq":1}`), []byte("{}\n"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dir := t.TempDir()
		for i, data := range [][]byte{a, b} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("connections.%d", i)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		all, err := ReadLog(dir)
		if err != nil {
			t.Fatal(err)
		}
		l := openTestLog(t, dir)
		l.add(testRecord(1))
		again, err := ReadLog(dir)
		if err != nil || len(again) == 0 || len(all) > 0 && again[len(again)-1].Seq < all[len(all)-1].Seq {
			t.Fatalf("%d records became %d, %v", len(all), len(again), err)
		}
	})
}
