package repo

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMigrations checks that the store's migrations are numbered consecutively.
// Two migrations with the same number would prevent every server from starting.
func TestMigrations(t *testing.T) {
	files, err := filepath.Glob("internal/control/store/*/migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	next := map[string]int{"internal/control/store/postgres/migrations/": 21} // PostgreSQL's first migration, 22, creates what SQLite's had created until then
	for _, file := range files {
		folder, name := filepath.Split(file)
		next[folder]++
		if n, err := strconv.Atoi(strings.SplitN(name, "_", 2)[0]); err != nil || n != next[folder] {
			t.Errorf("%s has the number %d; want %d", file, n, next[folder])
		}
	}
}
