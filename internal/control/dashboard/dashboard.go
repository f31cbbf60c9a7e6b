// Package dashboard serves the dashboard to browsers: only the built files of
// web/. The files contain no user data, so requests need no key. The dashboard
// gets its data from the API, like every other client.
package dashboard

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed policy.txt
var policy string // one directive of Content-Security-Policy per line

//go:embed unbuilt.html
var unbuilt []byte

const (
	index  = "index.html"
	assets = "assets/"
	packed = ".gz" // the build contains files only in compressed form
	small  = ".br" // the same file compressed by Brotli, which a build may also contain
)

// pages are the paths of the dashboard's screens. A path that ends in a slash
// includes all paths below it.
var pages = []string{"/{$}", "/agents", "/agents/", "/approvals", "/automations", "/automations/", "/environments", "/environments/", "/settings", "/settings/", "/account", "/team", "/sign-in"}

// A file is one file of the dashboard.
type file struct {
	media  string
	tag    string // its ETag
	packed []byte // compressed by gzip
	small  []byte // compressed by Brotli; nil if the build has no such file
	size   int    // uncompressed size in bytes
}

// Handler serves the dashboard, and passes other requests to next. files is the
// output of the build of web/. Without an index.html in it, the pages say how
// to build it. The handler is safe for concurrent use.
func Handler(files fs.FS, next http.Handler) (http.Handler, error) {
	all, err := load(files)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	front, ok := all[index]
	if !ok {
		if front, err = pack(index, unbuilt); err != nil {
			return nil, fmt.Errorf("dashboard: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/", next)
	for _, page := range pages {
		mux.Handle(page, front.handler("no-cache"))
	}
	for name, f := range all {
		switch {
		case name == index:
		case strings.HasPrefix(name, assets): // the file names contain a hash of the content
			mux.Handle("/"+name, f.handler("public, max-age=31536000, immutable"))
		default:
			mux.Handle("/"+name, f.handler("no-cache"))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Let the API reject a path that the mux would redirect. No real client
		// requests such a path.
		if at := r.URL.EscapedPath(); path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" {
			next.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}), nil
}

// load reads the files, by name.
func load(files fs.FS) (map[string]file, error) {
	all := map[string]file{}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // the dashboard was not built
		case err != nil:
			return err
		case d.IsDir() || path.Ext(name) != packed:
			return nil
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		name = strings.TrimSuffix(name, packed)
		f, err := unpack(name, data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if f.small, err = fs.ReadFile(files, name+small); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		all[name] = f
		return nil
	})
	return all, err
}

// unpack decompresses a file of the build.
func unpack(name string, data []byte) (file, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return file{}, err
	}
	n, err := io.Copy(io.Discard, r)
	if err != nil {
		return file{}, err
	}
	media, ok := mediaTypes[path.Ext(name)]
	if !ok {
		return file{}, errors.New("files of this kind are not known here")
	}
	sum := sha256.Sum256(data)
	return file{media: media, tag: `"` + hex.EncodeToString(sum[:16]) + `"`, packed: data, size: int(n)}, nil
}

func pack(name string, data []byte) (file, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		return file{}, err
	}
	if err := w.Close(); err != nil {
		return file{}, err
	}
	return unpack(name, b.Bytes())
}

var mediaTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
}

// csp returns the policy in the format of the header.
var csp = strings.Join(strings.Split(strings.TrimSpace(policy), "\n"), "; ")

// handler serves the file with the given Cache-Control header.
func (f file) handler(cache string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "use GET", http.StatusMethodNotAllowed)
			return
		}
		h.Set("Cache-Control", cache)
		h.Set("ETag", f.tag)
		h.Set("Vary", "Accept-Encoding")
		if matches(r.Header.Get("If-None-Match"), f.tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", f.media)
		takes := r.Header.Get("Accept-Encoding")
		for _, one := range []struct {
			coding string
			data   []byte
		}{{"br", f.small}, {"gzip", f.packed}} {
			if one.data == nil || !accepts(takes, one.coding) {
				continue
			}
			h.Set("Content-Encoding", one.coding)
			h.Set("Content-Length", strconv.Itoa(len(one.data)))
			if r.Method == http.MethodGet {
				_, _ = w.Write(one.data) // nobody is left to report an error to
			}
			return
		}
		h.Set("Content-Length", strconv.Itoa(f.size))
		if r.Method == http.MethodGet {
			if plain, err := gzip.NewReader(bytes.NewReader(f.packed)); err == nil { // load has already read it once
				_, _ = io.Copy(w, plain)
			}
		}
	})
}

// matches reports whether an If-None-Match header contains the tag, strong or
// weak.
func matches(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		if one = strings.TrimPrefix(strings.TrimSpace(one), "W/"); one == tag || one == "*" {
			return true
		}
	}
	return false
}

// accepts reports whether an Accept-Encoding names the coding with a weight
// above 0.
func accepts(header, coding string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, weight, _ := strings.Cut(one, ";")
		if strings.EqualFold(strings.TrimSpace(name), coding) {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.ReplaceAll(weight, " ", ""), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
