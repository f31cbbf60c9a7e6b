package mirror

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"aloft/internal/control/mirror/scan"
	"aloft/internal/redact"
)

// FuzzScan scans arbitrary git output, since machines choose the names and
// contents of objects. The scan must end, with few findings and without a
// secret in their text.
func FuzzScan(f *testing.F) {
	const value, id = "glpat-a-very-secret-token", "0123456789abcdef0123456789abcdef01234567"
	f.Add(id+"\n"+id+" a/b.txt\n", id+" commit 3\nabc\n"+id+" blob 26\nx"+value+"\n")
	f.Add(id+" "+value+"\n", id+" blob 25\n"+value+"\n")
	f.Add(id+" x\n", id+" blob -1\n")
	f.Add(id+" x\n", id+" blob 9223372036854775807\nx")
	f.Add(id+" x\n", id+" missing\n")
	f.Add(strings.Repeat("x", 5<<10)+"\n", "\n")
	secrets := redact.New(map[string]string{"k": value})
	f.Fuzz(func(t *testing.T, listed, told string) {
		ctx, cancel := context.WithCancel(t.Context())
		var listing sync.WaitGroup
		defer listing.Wait()
		defer cancel()
		s := scan.New(secrets, strings.NewReader(told), 1<<20)
		listing.Go(func() { _ = s.List(ctx, strings.NewReader(listed), io.Discard) }) // Run returns the scanner's error
		found, err := s.Run()
		if err != nil {
			return
		}
		if len(found) > 5 {
			t.Errorf("%d places", len(found))
		}
		if o := refuseSecret(Update{Secrets: secrets}, found); strings.Contains(o.Words, value) {
			t.Errorf("the refusal says %q", o.Words)
		}
	})
}
