package lfs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"aloft/internal/fault"
)

// A batch reply of 3 MiB must not decode to hundreds of MiB.
func TestBatchOfManyValues(t *testing.T) {
	list := strings.Repeat("{},", 1<<20) + "{}"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"objects":[`+list+`]}`)
	}))
	defer s.Close()
	_, err := New(nil, nil).Batch(t.Context(), Remote{Endpoint: s.URL + "/o/r.git/info/lfs", Named: true}, "download", nil)
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("error is %v", err)
	}
}

// A redirect does not carry the server's credential to another origin. Go's client
// would keep it for another port or for a subdomain.
func TestRedirectCarriesNoCredential(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, ok := r.BasicAuth(); ok {
			t.Error("another port of the host gets the credential")
		}
		_, _ = io.WriteString(w, `{"objects":[]}`)
	}))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, token, _ := r.BasicAuth(); token != "secret" {
			t.Error("the server itself does not get the credential")
		}
		switch r.URL.Path {
		case "/o/r.git/info/lfs/objects/batch":
			http.Redirect(w, r, "/moved", http.StatusTemporaryRedirect)
		default:
			http.Redirect(w, r, other.URL+"/x", http.StatusTemporaryRedirect)
		}
	}))
	defer own.Close()
	if _, err := New(nil, nil).Batch(t.Context(), Remote{Endpoint: own.URL + "/o/r.git/info/lfs", Username: "aloft", Token: "secret", Named: true}, "download", nil); err != nil {
		t.Error(err)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 1<<20))
		_, _ = io.WriteString(w, `{"objects":[]}`)
	}))
	defer s.Close()
	_, err := New(nil, nil).Batch(t.Context(), Remote{Endpoint: s.URL + "/o/r.git/info/lfs", Named: true}, "download", nil)
	if fault.Of(err).Code != CodeUnreachable {
		t.Errorf("error is %v", err)
	}
}
