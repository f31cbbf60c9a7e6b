package machines

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/fault"
	"aloft/internal/folder"
)

// Limits for transferred files.
const (
	maxPath   = 4 << 10 // bytes, as in Linux
	maxUpload = 4 << 30 // bytes
	tarMedia  = "application/x-tar"
	fileMedia = "application/octet-stream"
)

// Files accesses the files of one machine as the agent's user, so the machine
// decides what a path can reach. Relative paths begin at the workspace. Each
// method is one operation of the machine.
type Files interface {
	// List returns the entries of a folder.
	List(ctx context.Context, path string) ([]folder.Entry, error)
	// Read opens a file, and returns its size in bytes and its contents. The
	// contents can be read until ctx ends. If digest is true, it also returns
	// the SHA-256 in hex.
	Read(ctx context.Context, path string, digest bool) (size int64, sha256 string, contents io.ReadCloser, err error)
	// Pack returns a folder as a tar file, which can be read until ctx ends.
	Pack(ctx context.Context, path string) (io.ReadCloser, error)
	// Write writes a file atomically. size is its length in bytes, or -1 to
	// read until EOF. If ifSHA256 is set, the existing file must have that
	// digest; if ifAbsent is true, it must not exist.
	Write(ctx context.Context, path string, from io.Reader, size int64, ifSHA256 string, ifAbsent bool) (written int64, sha256 string, err error)
	MakeFolder(ctx context.Context, path string) error
	// Move moves a file or a folder to a path that does not exist yet.
	Move(ctx context.Context, from, to string) error
	Remove(ctx context.Context, path string, recursive bool) error
	Close() error
}

type fileEntryJSON struct {
	_          struct{}  `json:"-" additionalProperties:"true"`
	Name       string    `json:"name" doc:"any characters except a slash; invalid UTF-8 is replaced by U+FFFD"`
	Type       string    `json:"type" enum:"file,folder" doc:"for a link, the type of its target"`
	Link       bool      `json:"link,omitempty" doc:"it is a symbolic link"`
	SizeBytes  int64     `json:"sizeBytes" minimum:"0"`
	ModifiedAt time.Time `json:"modifiedAt" format:"date-time"`
}

type listFilesResponseJSON struct {
	_     struct{}        `json:"-" additionalProperties:"true"`
	Items []fileEntryJSON `json:"items" nullable:"false"`
}

type writtenFileJSON struct {
	_         struct{} `json:"-" additionalProperties:"true"`
	SizeBytes int64    `json:"sizeBytes" minimum:"0"`
	SHA256    string   `json:"sha256" doc:"SHA-256 of the contents; in quotes it is the file's ETag"`
}

type filePathJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	Path string   `json:"path" minLength:"1" doc:"path in the machine, relative to the workspace"`
}

type moveFileRequestJSON struct {
	_    struct{} `json:"-" additionalProperties:"true"`
	From string   `json:"from" minLength:"1" doc:"a path in the machine"`
	To   string   `json:"to" minLength:"1" doc:"new path, which must not exist"`
}

// fileRoutes are the routes for a machine's files. The routes are for members
// only, because they return file contents unchanged, including secrets, as ssh
// does.
func (s *API) fileRoutes() []rest.Route {
	which := rest.Param{Name: "path", Kind: "string", Words: "path in the machine, relative to the workspace"}
	return []rest.Route{
		{Method: "GET", Path: "/v1/agents/{id}/files", ID: "listFiles", Summary: "List a folder in an agent's machine",
			Query: []rest.Param{which}, Status: 200, Out: listFilesResponseJSON{}, Handle: s.withFiles(s.listFiles)},
		{Method: "DELETE", Path: "/v1/agents/{id}/files", ID: "deleteFile", Summary: "Delete a file or a folder in an agent's machine",
			Query:  []rest.Param{which, {Name: "recursive", Kind: "boolean", Standard: false, Words: "delete a folder with its contents"}},
			Status: 200, Out: filePathJSON{}, Handle: s.withFiles(s.deleteFile)},
		{Method: "GET", Path: "/v1/agents/{id}/files/contents", ID: "readFile", Summary: "Read a file in an agent's machine", Long: true, Needs: account.Member,
			Query:  []rest.Param{which, {Name: "digest", Kind: "boolean", Standard: false, Words: "return the SHA-256 as ETag; for files of at most 16 MiB"}},
			Status: 200, Media: fileMedia, Handle: s.withFiles(s.readFile)},
		{Method: "PUT", Path: "/v1/agents/{id}/files/contents", ID: "writeFile", Summary: "Write a file in an agent's machine atomically", Long: true,
			Query: []rest.Param{which}, Takes: fileMedia,
			Header: []rest.Param{
				{Name: "If-Match", Kind: "string", Words: "write only if the file still has this ETag; otherwise the reply is 409 file_changed"},
				{Name: "If-None-Match", Kind: "string", Words: "*: write only if the file does not exist; otherwise the reply is 409 file_exists"},
			},
			Status: 200, Out: writtenFileJSON{}, Handle: s.withFiles(s.writeFile)},
		{Method: "GET", Path: "/v1/agents/{id}/files/archive", ID: "readFolder", Summary: "Read a folder in an agent's machine as a tar file", Long: true, Needs: account.Member,
			Query: []rest.Param{which}, Status: 200, Media: tarMedia, Handle: s.withFiles(s.readFolder)},
		{Method: "POST", Path: "/v1/agents/{id}/files/folders", ID: "createFolder", Summary: "Create a folder in an agent's machine",
			In: filePathJSON{}, Status: 201, Out: filePathJSON{}, Handle: s.withFiles(s.createFolder)},
		{Method: "POST", Path: "/v1/agents/{id}/files/move", ID: "moveFile", Summary: "Move or rename a file or a folder in an agent's machine",
			In: moveFileRequestJSON{}, Status: 200, Out: filePathJSON{}, Handle: s.withFiles(s.moveFile)},
	}
}

// withFiles wraps do. It opens the files of the machine whose agent is in the
// request's path.
func (s *API) withFiles(do func(http.ResponseWriter, *http.Request, Files) error) rest.Handler {
	return func(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
		a, err := s.Agent(r.Context(), who, r.PathValue("id"))
		switch {
		case err != nil:
			return err
		case a.Archived:
			return fault.Conflict("the agent is archived").Named("agent_archived").Hint("unarchive it first")
		case s.Machines == nil:
			return noMachines()
		}
		ctx, cancel := context.WithTimeout(r.Context(), openWithin)
		files, err := s.Machines.Files(ctx, a.ID)
		cancel()
		if err != nil {
			return err
		}
		defer files.Close()
		return do(w, r, files)
	}
}

// askedPath returns the path in the query.
func askedPath(r *http.Request) (string, error) {
	return checkPath(r.URL.Query().Get("path"), "path")
}

func checkPath(name, field string) (string, error) {
	switch {
	case name == "":
		return "", fault.Invalid("a path in the machine is required").At(field)
	case len(name) > maxPath:
		return "", fault.Invalid("must be at most %d bytes", maxPath).At(field)
	case strings.ContainsRune(name, 0):
		return "", fault.Invalid("must not contain a NUL byte").At(field)
	}
	return name, nil
}

func (s *API) listFiles(w http.ResponseWriter, r *http.Request, files Files) error {
	folder, err := askedPath(r)
	if err != nil {
		return err
	}
	list, err := files.List(r.Context(), folder)
	if err != nil {
		return err
	}
	reply := listFilesResponseJSON{Items: make([]fileEntryJSON, 0, len(list))}
	for _, f := range list {
		kind := "file"
		if f.Folder {
			kind = "folder"
		}
		reply.Items = append(reply.Items, fileEntryJSON{Name: f.Name, Type: kind, Link: f.Link, SizeBytes: f.Size, ModifiedAt: f.Modified.UTC()})
	}
	return rest.WriteJSON(w, http.StatusOK, reply)
}

func (s *API) deleteFile(w http.ResponseWriter, r *http.Request, files Files) error {
	name, err := askedPath(r)
	if err != nil {
		return err
	}
	recursive, err := rest.Boolean(r.URL.Query(), "recursive", false)
	if err != nil {
		return err
	}
	if err := files.Remove(r.Context(), name, recursive); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, filePathJSON{Path: name})
}

func (s *API) createFolder(w http.ResponseWriter, r *http.Request, files Files) error {
	var in filePathJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if _, err := checkPath(in.Path, "path"); err != nil {
		return err
	}
	if err := files.MakeFolder(r.Context(), in.Path); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusCreated, filePathJSON{Path: in.Path})
}

func (s *API) moveFile(w http.ResponseWriter, r *http.Request, files Files) error {
	var in moveFileRequestJSON
	if err := rest.ReadBody(w, r, &in); err != nil {
		return err
	}
	if _, err := checkPath(in.From, "from"); err != nil {
		return err
	}
	if _, err := checkPath(in.To, "to"); err != nil {
		return err
	}
	if err := files.Move(r.Context(), in.From, in.To); err != nil {
		return err
	}
	return rest.WriteJSON(w, http.StatusOK, filePathJSON{Path: in.To})
}

func (s *API) readFile(w http.ResponseWriter, r *http.Request, files Files) error {
	name, err := askedPath(r)
	if err != nil {
		return err
	}
	digest, err := rest.Boolean(r.URL.Query(), "digest", false)
	if err != nil {
		return err
	}
	size, sha256, contents, err := files.Read(r.Context(), name, digest)
	if err != nil {
		return err
	}
	defer contents.Close()
	if digest {
		w.Header().Set("ETag", strconv.Quote(sha256))
	}
	if size > 0 { // files in /proc report size 0
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		contents = exactReader{io.LimitReader(contents, size), contents}
	}
	return s.passOn(w, r, path.Base(name), fileMedia, contents)
}

func (s *API) readFolder(w http.ResponseWriter, r *http.Request, files Files) error {
	name, err := askedPath(r)
	if err != nil {
		return err
	}
	packed, err := files.Pack(r.Context(), name)
	if err != nil {
		return err
	}
	defer packed.Close()
	base := path.Base(path.Clean(name))
	if base == "." || base == "/" {
		base = "workspace"
	}
	return s.passOn(w, r, base+".tar", tarMedia, packed)
}

// exactReader reads at most the promised number of bytes.
type exactReader struct {
	io.Reader
	io.Closer
}

// passOn sends a file from a machine as an attachment, never as a page of this
// origin. If the transfer fails midway, passOn cuts the connection, so that the
// client does not mistake the part for the complete file.
func (s *API) passOn(w http.ResponseWriter, r *http.Request, name, media string, from io.Reader) error {
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	rc := http.NewResponseController(w)
	b := make([]byte, 256<<10)
	for {
		n, err := from.Read(b)
		_ = rc.SetWriteDeadline(time.Now().Add(cmp.Or(s.Patience, rest.WriteWithin))) // fails only in tests, whose writers have no deadlines
		if n > 0 {
			if _, err := w.Write(b[:n]); err != nil {
				return rest.ErrGone
			}
			if err := rc.Flush(); err != nil {
				return rest.ErrGone
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			s.Logger.Warn("a file from a machine was truncated", "err", err)
			panic(http.ErrAbortHandler)
		}
	}
}

var sha256Tag = regexp.MustCompile(`^"[0-9a-f]{64}"$`)

func (s *API) writeFile(w http.ResponseWriter, r *http.Request, files Files) error {
	name, err := askedPath(r)
	if err != nil {
		return err
	}
	ifMatch, ifNone := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case ifMatch != "" && !sha256Tag.MatchString(ifMatch):
		return fault.Invalid("must be the ETag of a file").At("If-Match").Hint("read the file with ?digest=true")
	case ifNone != "" && ifNone != "*":
		return fault.Invalid("must be *").At("If-None-Match")
	case ifMatch != "" && ifNone != "":
		return fault.Invalid("cannot be combined with If-Match").At("If-None-Match")
	}
	if r.ContentLength > maxUpload {
		return tooLongUpload()
	}
	rc := http.NewResponseController(w)
	body := patientWriter{http.MaxBytesReader(w, r.Body, maxUpload), rc, cmp.Or(s.Patience, rest.WriteWithin)}
	size, sha256, err := files.Write(r.Context(), name, body, r.ContentLength, strings.Trim(ifMatch, `"`), ifNone != "")
	if err != nil {
		w.Header().Set("Connection", "close") // the rest of the body was not read
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return tooLongUpload()
		}
		return err
	}
	_ = rc.SetReadDeadline(time.Time{})
	w.Header().Set("ETag", strconv.Quote(sha256))
	return rest.WriteJSON(w, http.StatusOK, writtenFileJSON{SizeBytes: size, SHA256: sha256})
}

func tooLongUpload() error {
	return fault.Invalid("files larger than %d GiB cannot be uploaded", maxUpload>>30).Named(rest.CodeTooLong).Hint("use aloft agent cp")
}

// patientWriter extends the read deadline of a request's body as long as data
// arrives.
type patientWriter struct {
	io.Reader
	rc       *http.ResponseController
	patience time.Duration
}

// Read implements [io.Reader].
func (p patientWriter) Read(b []byte) (int, error) {
	_ = p.rc.SetReadDeadline(time.Now().Add(p.patience)) // fails only in tests, whose writers have no deadlines
	n, err := p.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		if _, ok := errors.AsType[*http.MaxBytesError](err); !ok {
			err = fault.Invalid("the body is incomplete").Because(err)
		}
	}
	return n, err
}
