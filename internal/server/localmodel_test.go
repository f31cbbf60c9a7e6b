package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A program that listens on a local model server's port redirects the server to
// an address that the program itself may not reach. The server must not follow.
func TestLocalModelFollowsNoRedirect(t *testing.T) {
	reached := false
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached = true
		_, _ = w.Write([]byte(`{"data": [{"id": "x"}]}`))
	}))
	defer inner.Close()
	outer := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusFound))
	defer outer.Close()
	if m, ok := LocalModel(t.Context(), outer.URL); ok || reached {
		t.Errorf("followed to another server: %+v", m)
	}
}
