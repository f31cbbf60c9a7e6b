package machines

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"aloft/internal/account"
	"aloft/internal/control/api/rest"
	"aloft/internal/control/artifact"
	"aloft/internal/fault"
)

// Artifacts reads the files that outlive machines. Its methods are safe for
// concurrent use.
type Artifacts interface {
	// List returns an agent's artifacts, sorted by name.
	List(ctx context.Context, agentID string) ([]artifact.File, error)
	// Open opens an artifact. If it does not exist, the error is a fault.
	Open(ctx context.Context, agentID, name string) (io.ReadSeekCloser, artifact.File, error)
}

type artifactJSON struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	Path      string    `json:"path" minLength:"1"`
	SizeBytes int64     `json:"sizeBytes" minimum:"0"`
	UpdatedAt time.Time `json:"updatedAt" format:"date-time"`
}

type listArtifactsResponseJSON struct {
	_     struct{}       `json:"-" additionalProperties:"true"`
	Items []artifactJSON `json:"items" nullable:"false"`
}

type downloadArtifactResponseJSON struct {
	_         struct{}  `json:"-" additionalProperties:"true"`
	URL       string    `json:"url" format:"uri"`
	ExpiresAt time.Time `json:"expiresAt" format:"date-time"`
}

// Prefixes of artifact paths, in the API and in the machine.
const (
	artifactsFolder = "artifacts/"
	machineFolder   = "/opt/cursor/artifacts/"
)

// downloadWithin is how long an artifact's URL is valid.
const downloadWithin = 15 * time.Minute

func (s *API) listArtifacts(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	reply := listArtifactsResponseJSON{Items: []artifactJSON{}}
	if s.Artifacts != nil {
		list, err := s.Artifacts.List(r.Context(), a.ID)
		if err != nil {
			return err
		}
		for _, f := range list {
			reply.Items = append(reply.Items, artifactJSON{Path: artifactsFolder + f.Name, SizeBytes: f.Size, UpdatedAt: f.Modified})
		}
	}
	return rest.WriteJSON(w, http.StatusOK, reply)
}

func (s *API) downloadArtifact(w http.ResponseWriter, r *http.Request, who account.APIKey) error {
	a, err := s.Agent(r.Context(), who, r.PathValue("id"))
	if err != nil {
		return err
	}
	asked := r.URL.Query().Get("path")
	if asked == "" {
		return fault.Invalid("the path of an artifact is required").At("path").Hint("list artifacts with GET /v1/agents/{id}/artifacts")
	}
	if s.Artifacts == nil {
		return fault.NotFound("artifacts are not enabled on this server").Named(rest.CodeOff)
	}
	name, inMachine := strings.CutPrefix(asked, machineFolder)
	if !inMachine {
		name = strings.TrimPrefix(name, artifactsFolder)
	}
	file, _, err := s.Artifacts.Open(r.Context(), a.ID, name)
	if fault.Of(err).Kind == fault.KindNotFound {
		// The agent may have created the file just now; List fetches new files
		// from the machine.
		if _, err := s.Artifacts.List(r.Context(), a.ID); err != nil {
			return err
		}
		file, _, err = s.Artifacts.Open(r.Context(), a.ID, name)
	}
	if err != nil {
		return err
	}
	_ = file.Close() // nothing was read
	expires := time.Now().Add(downloadWithin).Truncate(time.Second).UTC()
	query := url.Values{
		"path": {name}, "expires": {strconv.FormatInt(expires.Unix(), 10)},
		"signature": {s.artifactSignature(a.ID, name, expires.Unix())},
	}
	return rest.WriteJSON(w, http.StatusOK, downloadArtifactResponseJSON{
		URL:       strings.TrimRight(s.PublicURL(), "/") + "/v1/agents/" + a.ID + "/artifacts/contents?" + query.Encode(),
		ExpiresAt: expires,
	})
}

// artifactSignature signs a URL. Until the URL expires, anybody can read one
// file with it, and no other.
func (s *API) artifactSignature(agentID, name string, expires int64) string {
	mac := hmac.New(sha256.New, s.URLSecret)
	fmt.Fprintf(mac, "artifact %s %d %s", agentID, expires, name)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// shownTypes are the media types with which downloads are sent. Browsers
// execute no content of these types.
var shownTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".mp4": "video/mp4", ".webm": "video/webm", ".txt": "text/plain; charset=utf-8", ".log": "text/plain; charset=utf-8",
	".md": "text/plain; charset=utf-8", ".json": "application/json",
}

// artifactContents needs no key, since the URL is signed. The file came from a
// machine, so it is sent as an attachment and never as a page of this origin.
func (s *API) artifactContents(w http.ResponseWriter, r *http.Request, _ account.APIKey) error {
	id, query := r.PathValue("id"), r.URL.Query()
	name := query.Get("path")
	expires, err := strconv.ParseInt(query.Get("expires"), 10, 64)
	wrong := err != nil || s.Artifacts == nil ||
		!hmac.Equal([]byte(query.Get("signature")), []byte(s.artifactSignature(id, name, expires)))
	if wrong || time.Now().Unix() > expires {
		return fault.Denied("this artifact URL is not valid or has expired").
			Hint("request a new one with GET /v1/agents/{id}/artifacts/download?path=…")
	}
	file, about, err := s.Artifacts.Open(r.Context(), id, name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	media, ok := shownTypes[strings.ToLower(path.Ext(name))]
	if !ok {
		media = "application/octet-stream"
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("ETag", `"`+about.Key+`"`)
	// There is no write deadline: a slow client occupies nothing but its
	// connection.
	err = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	http.ServeContent(w, r, "", about.Modified, file)
	return nil
}
