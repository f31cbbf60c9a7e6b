package server

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"aloft/internal/control/store/postgres/postgrestest"
	"aloft/internal/fault"
)

// A server whose store is unreachable rejects work, and accepts work again when
// the store is back.
func TestServeWithPostgreSQL(t *testing.T) {
	database := postgrestest.Start(t, false)
	o, config := Options{Embedded: os.DirFS("../../cmd/aloft/embedded"), Data: t.TempDir(), Listen: "127.0.0.1:0"}, DefaultConfig()
	config.Store = database.URL("postgres")
	ctx, cancel := context.WithCancel(t.Context())
	s, err := Open(ctx, o, config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	key, err := os.ReadFile(s.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1/agents", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	if got := ask(); got != http.StatusOK {
		t.Errorf("agents are listed with %d", got)
	}
	if _, err := Open(ctx, o, config, slog.New(slog.DiscardHandler)); fault.Of(err).Code != "data_in_use" {
		t.Errorf("a second server on the data folder: %v; want data_in_use", err)
	}
	other := o
	other.Data = t.TempDir()
	if _, err := Open(ctx, other, config, slog.New(slog.DiscardHandler)); fault.Of(err).Code != "store_elsewhere" {
		t.Errorf("a server with another data folder: %v; want store_elsewhere", err)
	}
	checks := ProbeStore(t.Context(), config.Store)
	if len(checks) != 1 || !checks[0].OK || !strings.Contains(checks[0].Detail, "PostgreSQL") {
		t.Errorf("the doctor says %v", checks)
	}
	database.Kill()
	if got := ask(); got != http.StatusServiceUnavailable {
		t.Errorf("without its store the server answers %d; want 503", got)
	}
	if checks := ProbeStore(t.Context(), config.Store); checks[0].OK || checks[0].Fix == "" {
		t.Errorf("the doctor says %v of a database that is away", checks)
	}
	if err := database.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(); got != http.StatusOK {
		t.Errorf("with its store again the server answers %d", got)
	}
}

func TestPasswordIsNoArgument(t *testing.T) {
	for _, flag := range []string{"postgres://aloft:pearl@db/aloft", "postgres://aloft:pe/arl@db/aloft", "host=db password=pearl", "postgres://db/aloft?password=pearl"} {
		if _, err := StoreAddress(flag, "", ""); err == nil || strings.Contains(err.Error(), "arl") {
			t.Errorf("a password on the command line: %v", err)
		}
	}
	t.Setenv("PGPASSWORD", "pearl") // not part of the flag
	for _, c := range [][4]string{
		{"postgres://aloft@db:5432/aloft", "postgres://v", "postgres://x:y@z/w", "postgres://aloft@db:5432/aloft"},
		{"", "postgres://x:y@v", "postgres://z", "postgres://x:y@v"},
		{"", "", "postgres://x:y@z", "postgres://x:y@z"},
		{"", "", "", ""},
	} {
		if got, err := StoreAddress(c[0], c[1], c[2]); err != nil || got != c[3] {
			t.Errorf("%q, %v; want %q", got, err, c[3])
		}
	}
}
