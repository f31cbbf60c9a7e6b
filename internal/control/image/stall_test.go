package image

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A registry that names the layer of another registry's image, and never finishes
// sending it, does not delay pulls of that image.
func TestStalledRegistry(t *testing.T) {
	honest, hostile := newRegistry(t), newRegistry(t)
	layers := smallImage(t)
	honest.push(t, "app:1", layers...)
	hostile.push(t, "app:1", layers...)
	stalled, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var blobs atomic.Int64
	hostile.disturb(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || blobs.Add(1) == 1 { // the first is the configuration
			return false
		}
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		once.Do(func() { close(stalled) })
		<-release
		return true
	})
	s := openWith(t, t.TempDir(), Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := s.Prepare(t.Context(), hostile.host+"/app:1", nil); err == nil {
			t.Error("the hostile registry's image was pulled")
		}
	}()
	<-stalled
	if _, err := s.Prepare(t.Context(), honest.host+"/app:1", nil); err != nil {
		t.Error(err)
	}
	close(release)
	<-done
}
