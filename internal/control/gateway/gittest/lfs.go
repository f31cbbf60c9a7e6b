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

// LFS serves the Git LFS API beside the repositories of a [Server], and keeps
// objects on a server of its own, which asks for a token that the API gives out.
type LFS struct {
	Storage string // URL of the server of objects

	mu       sync.Mutex
	objects  map[string][]byte
	verified map[string]bool
	href     string
}

// storageToken is what the storage asks for, and no machine may see.
const storageToken = "storage-token-5c1a"

// LFS makes the server serve large files.
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

// Put keeps an object, and returns the pointer that stands for it in a
// repository.
func (l *LFS) Put(contents string) (pointer string) {
	sum := sha256.Sum256([]byte(contents))
	oid := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects[oid] = []byte(contents)
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", oid, len(contents))
}

// Has reports whether an object of those contents was uploaded and verified.
func (l *LFS) Has(contents string) bool {
	sum := sha256.Sum256([]byte(contents))
	oid := hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.objects[oid]) == contents && l.verified[oid]
}

// SetHref has every object lie at that address from now on.
func (l *LFS) SetHref(href string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.href = href
}

// Token is the storage's, for tests that look for it.
func (*LFS) Token() string { return storageToken }

type lfsObject struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

// serve answers the API.
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
	_ = json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": out}) // a client that is gone needs no answer
}

// store is the storage.
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
