package pdf

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary act as the process that reads a PDF, or as a
// faulty one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "pdf-text":
			os.Exit(Main(os.Args[2:], os.Stdin, os.Stdout))
		case "hang":
			_ = unix.Pause() // waits until it is killed
		}
	}
	os.Exit(m.Run())
}

func reader(how string) Reader { return Reader{Command: []string{os.Args[0], how}} }

func file(t testing.TB, data string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.pdf")
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // the file was only read
	return f
}

func TestTextRefusesWhatIsDamaged(t *testing.T) {
	for _, data := range []string{"", "%PDF-1.4\n", "%PDF-1.4\nxref\n0 1\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF\n", "%PDF-1.7\n" + strings.Repeat("[", 1<<16) + "\nstartxref\n9\n%%EOF\n"} {
		if pages, _, err := reader("pdf-text").Text(t.Context(), file(t, data), 1, 10); err == nil && len(pages) > 0 {
			t.Errorf("%.40q: %v", data, pages)
		}
	}
}

func TestTextEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user said so")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, _, err := reader("hang").Text(ctx, file(t, "x"), 1, 1); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

// FuzzParse parses the output of a process that a malicious PDF may have
// compromised.
func FuzzParse(f *testing.F) {
	f.Add([]byte("{\"total\":2}\n{\"text\":\"a\"}\n{\"text\":\"b\"}\n"), 5)
	f.Add([]byte("{\"total\":-1}\n"), 0)
	f.Add([]byte("{\"error\":\"x\"}\n"), 1)
	f.Fuzz(func(t *testing.T, said []byte, most int) {
		most = max(0, most) % 100
		pages, total, err := parse(bytes.NewReader(said), most)
		if err == nil && (len(pages) > most || total < 0 || total > maxPages) {
			t.Errorf("%d pages of %d", len(pages), total)
		}
	})
}
