package database

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aloft/internal/control/store/postgres/postgrestest"
	"aloft/internal/fault"
)

// A server must not use a data folder that belongs to another store, because
// all machines there would look orphaned.
func TestStoreStaysWithItsFolder(t *testing.T) {
	database := postgrestest.Start(t, false)
	one, two := database.Database(t, ""), database.Database(t, "")
	folder, other, file := t.TempDir(), t.TempDir(), t.TempDir()
	open := func(address, data, code string) {
		t.Helper()
		s, err := Open(t.Context(), address, data, slog.New(slog.DiscardHandler))
		if err == nil {
			err = s.Close()
		}
		if code == "" && err != nil || code != "" && (fault.Of(err).Code != code || fault.Of(err).Advice == "") {
			t.Errorf("Open = %v; want %q, with advice", err, code)
		}
	}
	open("", file, "")
	open(one, file, "store_elsewhere")
	open(one, folder, "")
	open(one, folder, "")
	open("", folder, "store_elsewhere")
	open(two, folder, "store_elsewhere")
	open(one, other, "store_elsewhere")
	open(two, other, "") // a rejected start does not bind the folder
	lost := t.TempDir()  // start over, as the guide describes
	id, err := os.ReadFile(filepath.Join(folder, boundFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(lost, boundFile), id, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	open(one, lost, "")
	open("postgres://aloft:pe/arl@db/aloft", t.TempDir(), "store_address")
	if _, err := Open(t.Context(), "postgres://aloft:pe/arl@db/aloft", t.TempDir(), slog.New(slog.DiscardHandler)); strings.Contains(err.Error(), "arl") {
		t.Errorf("the error has the password: %v", err)
	}
}
