package registry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSwollenDocuments checks that a small manifest, index or configuration
// does not decode to gigabytes.
func TestSwollenDocuments(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	const most = 64 << 20
	list := strings.Repeat("{},", 1<<20) + "{}"
	config := `{"history":[` + list + `]}`
	kind := "application/vnd.oci.image.manifest.v1+json"
	for name, c := range map[string]struct{ kind, manifest string }{
		"manifest": {kind, `{"schemaVersion":2,"layers":[` + list + `]}`},
		"index":    {"application/vnd.oci.image.index.v1+json", `{"schemaVersion":2,"manifests":[` + list + `]}`},
		"long":     {kind, `{"schemaVersion":2,"annotations":{"a":"` + strings.Repeat("x", 9<<20) + `"}}`},
		"configuration": {kind, fmt.Sprintf(`{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":%d,"digest":"sha256:%x"}}`,
			len(config), sha256.Sum256([]byte(config)))},
	} {
		for _, redirected := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s redirected=%v", name, redirected), func(t *testing.T) {
				s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case redirected && strings.HasPrefix(r.URL.Path, "/v2/app/"):
						http.Redirect(w, r, "/elsewhere"+strings.NewReplacer("manifests", "m", "blobs", "b").Replace(r.URL.Path), http.StatusTemporaryRedirect)
					case strings.Contains(r.URL.Path, "/manifests/"), strings.Contains(r.URL.Path, "/m/"):
						w.Header().Set("Content-Type", c.kind)
						_, _ = io.WriteString(w, c.manifest) // the client may hang up
					case strings.Contains(r.URL.Path, "/blobs/"), strings.Contains(r.URL.Path, "/b/"):
						_, _ = io.WriteString(w, config)
					}
				}))
				defer s.Close()
				host := strings.TrimPrefix(s.URL, "http://")
				client := New(Config{Named: []string{host}})
				ref, err := client.Parse(host + "/app:1")
				if err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, err = client.Resolve(t.Context(), ref)
				runtime.ReadMemStats(&after)
				if !errors.Is(err, errTooLarge) {
					t.Errorf("error is %v, want %v", err, errTooLarge)
				}
				if got := after.TotalAlloc - before.TotalAlloc; got > most {
					t.Errorf("it allocates %d MiB", got>>20)
				}
			})
		}
	}
}

// TestSilentRegistry checks that a registry which stops sending a reply does not keep
// the client waiting.
func TestSilentRegistry(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/manifests/") {
			w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
			_, _ = io.WriteString(w, `{"schemaVersion":`)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	client := New(Config{Named: []string{host}})
	client.patience = 10 * time.Millisecond
	ref, err := client.Parse(host + "/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), "no data for 10ms") {
		t.Errorf("error is %v", err)
	}
}
