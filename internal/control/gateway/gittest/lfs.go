package gittest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// LFS serves the Git LFS API for the repositories of a [Server]. It stores
// objects on a separate server, which requires a token that the API hands out.
type LFS struct {
	Storage string // URL of the object server

	mu       sync.Mutex
	objects  map[string][]byte
	verified map[string]bool
	href     string
}

// storageToken is the object server's token, which no machine may see.
const storageToken = "storage-token-5c1a"

// LFS enables large files on the server.
func (s *Server) LFS() *LFS {
	l := &LFS{objects: map[string][]byte{}, verified: map[string]bool{}}
	storage := httptest.NewServer(http.HandlerFunc(l.store))
	s.t.Cleanup(storage.Close)
	l.Storage = storage.URL
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lfs = l
	return l
}

// Put stores an object and returns its LFS pointer.
func (l *LFS) Put(contents string) (pointer string) {
	sum := sha256.Sum256([]byte(contents))
	oid := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[oid] = []byte(contents)
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(contents))
}

// Has reports whether an object with those contents was uploaded and verified.
func (l *LFS) Has(contents string) bool {
	sum := sha256.Sum256([]byte(contents))
	oid := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.objects[oid]) == contents && l.verified[oid]
}

// SetHref makes the API report href as the address of every object.
func (l *LFS) SetHref(href string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.href = href
}

// Token returns the object server's token, for tests that search for it.
func (*LFS) Token() string { return storageToken }

type lfsObject struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

// serve handles the LFS API.
func (l *LFS) serve(t testing.TB, self string, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	switch {
	case strings.HasSuffix(r.URL.Path, "/objects/verify"):
		var o lfsObject
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			t.Errorf("verify: %v", err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if int64(len(l.objects[o.OID])) != o.Size {
			http.Error(w, `{"message":"no such object"}`, http.StatusNotFound)
			return
		}
		l.verified[o.OID] = true
		return
	case !strings.HasSuffix(r.URL.Path, "/objects/batch"):
		http.NotFound(w, r)
		return
	}
	var in struct {
		Operation string      `json:"operation"`
		Objects   []lfsObject `json:"objects"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, `{"message":"not a batch"}`, http.StatusUnprocessableEntity)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []map[string]any{}
	for _, o := range in.Objects {
		href := l.Storage + "/" + o.OID
		if l.href != "" {
			href = l.href
		}
		move := map[string]any{"href": href, "header": map[string]string{"X-Storage": storageToken}}
		answer := map[string]any{"oid": o.OID, "size": o.Size}
		contents, there := l.objects[o.OID]
		switch {
		case in.Operation == "upload" && !there:
			answer["actions"] = map[string]any{"upload": move, "verify": map[string]any{"href": self + strings.TrimSuffix(r.URL.Path, "batch") + "verify"}}
		case in.Operation == "download" && there && int64(len(contents)) == o.Size:
			answer["actions"] = map[string]any{"download": move}
		case in.Operation == "download":
			answer["error"] = map[string]any{"code": 404, "message": "no such object"}
		}
		out = append(out, answer)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": out}) // ignore errors: the client has disconnected
}

// store handles requests to the object server.
func (l *LFS) store(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Storage") != storageToken {
		http.Error(w, "who are you?", http.StatusForbidden)
		return
	}
	oid := strings.TrimPrefix(r.URL.Path, "/")
	if r.Method == http.MethodPut {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.objects[oid] = data
		return
	}
	l.mu.Lock()
	data, ok := l.objects[oid]
	l.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}
