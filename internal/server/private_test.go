package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A data folder that others can enter, because a package or an administrator
// has created it, is made private. A missing folder is created private.
func TestPrivateFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o755); err != nil { //nolint:gosec // that is the test
		t.Fatal(err)
	}
	for _, name := range []string{open, open, filepath.Join(dir, "new", "folder")} {
		if err := privateFolder(name); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// The owner's sign-in link does not appear in the systemd journal.
func TestSignInLinkStaysOutOfTheJournal(t *testing.T) {
	o := Options{Data: t.TempDir()}
	const link = "https://aloft.example.com/sign-in#secret"
	if said := o.SignInText(link, false); !strings.Contains(said, link) {
		t.Errorf("on a terminal it says %q", said)
	}
	said, file := o.SignInText(link, true), filepath.Join(o.Data, "sign-in-link")
	if strings.Contains(said, "secret") || !strings.Contains(said, file) {
		t.Errorf("in the journal it says %q", said)
	}
	info, err := os.Stat(file)
	data, readErr := os.ReadFile(file)
	if err != nil || readErr != nil || info.Mode().Perm() != 0o600 || string(data) != link+"\n" {
		t.Errorf("the file has %q, %v, %v, %v", data, info.Mode(), err, readErr)
	}
}
