package postgres

import (
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/google/uuid"

	"aloft/internal/control/store/postgres/postgrestest"
	"aloft/internal/control/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.Stop()
	os.Exit(code)
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return openTest(t, postgrestest.Shared(t).Schema(t)) })
}

func TestShared(t *testing.T) {
	storetest.RunShared(t, func(t *testing.T) func() storetest.Store {
		url := postgrestest.Shared(t).Schema(t)
		return func() storetest.Store { return openTest(t, url) }
	})
}

var template sync.Once

// newDatabase creates a database with the schema.
func newDatabase(t testing.TB) (url string) {
	t.Helper()
	s := postgrestest.Shared(t)
	template.Do(func() {
		s.Exec(t, "postgres", "CREATE DATABASE template_aloft TEMPLATE template0")
		made, err := Open(t.Context(), s.URL("template_aloft"), "template", slog.New(slog.DiscardHandler))
		if err == nil {
			err = made.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	return s.Database(t, "template_aloft")
}

// openTest opens the database as another server.
func openTest(t testing.TB, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, "server-"+uuid.NewString(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}
