package lfs

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
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
