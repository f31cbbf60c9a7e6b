package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"aloft/internal/control/lfs"
	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

// Limits of an LFS batch request.
const (
	maxLFSRequest = 1 << 20 // maximum size in bytes
	maxLFSObjects = 1000
)

// lfsObject matches the path of an LFS object below its repository's path.
var lfsObject = regexp.MustCompile(`^(.*)/info/lfs/objects/([0-9a-f]{64})$`)

var lfsOID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// lfsRequest is a batch request of a machine.
type lfsRequest struct {
	Operation string       `json:"operation"`
	Transfers []string     `json:"transfers"`
	HashAlgo  string       `json:"hash_algo"`
	Objects   []lfs.Object `json:"objects"`
}

// readLFSRequest parses a batch request.
func readLFSRequest(in io.Reader) (lfsRequest, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxLFSRequest+1))
	if err != nil {
		return lfsRequest{}, err
	}
	var req lfsRequest
	if len(data) > maxLFSRequest {
		return lfsRequest{}, errors.New("it is too long")
	}
	if err := json.Unmarshal(data, &req); err != nil {
		return lfsRequest{}, errors.New("it is not JSON of the Git LFS API")
	}
	if req.Operation != "download" && req.Operation != "upload" {
		return lfsRequest{}, errors.New("its operation is neither download nor upload")
	}
	if req.HashAlgo != "" && req.HashAlgo != "sha256" {
		return lfsRequest{}, errors.New("its hash_algo is not sha256")
	}
	if len(req.Objects) > maxLFSObjects {
		return lfsRequest{}, fmt.Errorf("it asks for more than %d objects", maxLFSObjects)
	}
	for _, o := range req.Objects {
		if !lfsOID.MatchString(o.OID) || o.Size < 0 {
			return lfsRequest{}, errors.New("it contains an invalid object")
		}
	}
	return req, nil
}

// lfsBatch tells a machine to download large files from, or upload them to,
// this gateway. The real server's URLs and credentials are not revealed.
func (q *request) lfsBatch(ctx context.Context) {
	req, err := readLFSRequest(q.body)
	if err != nil {
		q.sayLFS(http.StatusUnprocessableEntity, "The request could not be read: "+err.Error()+".")
		return
	}
	if req.Operation == "upload" && !q.mayUpload() {
		return
	}
	remote, err := q.lfsRemote(ctx)
	if err != nil {
		q.failLFS("git lfs "+req.Operation, err)
		return
	}
	answers, err := q.g.lfs.Batch(ctx, remote, req.Operation, req.Objects)
	if err != nil {
		q.failLFS("git lfs "+req.Operation, err)
		return
	}
	type action struct {
		Href string `json:"href"`
	}
	type told struct {
		lfs.Object
		Authenticated bool              `json:"authenticated"`
		Actions       map[string]action `json:"actions,omitempty"`
		Error         map[string]any    `json:"error,omitempty"`
	}
	objects := []told{}
	for _, a := range answers {
		o := told{Object: a.Object, Authenticated: true}
		here := map[string]action{req.Operation: {"http://" + q.host + q.access.repo.Path() + "/info/lfs/objects/" + a.OID + "?size=" + fmt.Sprint(a.Size)}}
		switch {
		case a.Error != nil:
			o.Error = map[string]any{"code": a.Error.Code, "message": mirror.Plain(a.Error.Message)}
		case a.Size > q.g.maxPack:
			o.Error = map[string]any{"code": http.StatusUnprocessableEntity, "message": fmt.Sprintf("it has %d bytes; this server accepts at most %d", a.Size, q.g.maxPack)}
		case req.Operation == "download" && a.Actions.Download != nil, req.Operation == "upload" && a.Actions.Upload != nil:
			o.Actions = here
		}
		objects = append(objects, o)
	}
	q.answerLFS(http.StatusOK, map[string]any{"transfer": "basic", "objects": objects, "hash_algo": "sha256"})
}

// lfsOne asks the repository's server about the object of the request.
func (q *request) lfsOne(ctx context.Context, operation string) (lfs.Remote, lfs.Answer, error) {
	remote, err := q.lfsRemote(ctx)
	if err != nil {
		return remote, lfs.Answer{}, err
	}
	answers, err := q.g.lfs.Batch(ctx, remote, operation, []lfs.Object{q.object})
	if err != nil {
		return remote, lfs.Answer{}, err
	}
	if len(answers) != 1 || answers[0].Error != nil {
		return remote, lfs.Answer{}, fault.NotFound("the git server does not have the large file %s", q.object.OID).Named("lfs_not_found")
	}
	return remote, answers[0], nil
}

// lfsDownload forwards a large file to the machine.
func (q *request) lfsDownload(ctx context.Context) {
	remote, answer, err := q.lfsOne(ctx, "download")
	if err == nil && answer.Actions.Download == nil {
		err = fault.NotFound("the git server does not have the large file %s", q.object.OID).Named("lfs_not_found")
	}
	if err == nil && answer.Size > q.g.maxPack {
		err = fault.Exhausted("the large file %s has %d bytes; this server accepts at most %d", q.object.OID, answer.Size, q.g.maxPack)
	}
	if err != nil {
		q.failLFS("git lfs download", err)
		return
	}
	body, err := q.g.lfs.Download(ctx, remote, *answer.Actions.Download)
	if err != nil {
		q.failLFS("git lfs download", err)
		return
	}
	defer func() { _ = body.Close() }()
	q.w.Header().Set("Content-Type", "application/octet-stream")
	q.w.Header().Set("Content-Length", fmt.Sprint(answer.Size))
	out := &patientWriter{w: q.w, rc: q.rc}
	if _, err := io.Copy(out, io.LimitReader(body, answer.Size)); err != nil || out.written < answer.Size {
		q.log("git lfs download", "failed", "oid", q.object.OID, "bytes", out.written, "err", err)
		panic(http.ErrAbortHandler) // abort, so that the machine does not consider the file complete
	}
	q.log("git lfs download", "done", "oid", q.object.OID, "bytes", out.written)
}

// lfsUpload receives a large file from the machine, scans it for secrets and
// forwards it.
func (q *request) lfsUpload(ctx context.Context) {
	if !q.mayUpload() {
		return
	}
	select {
	case q.s.push <- struct{}{}:
		defer func() { <-q.s.push }()
	case <-ctx.Done():
		return
	}
	if q.object.Size > q.g.maxPack {
		q.sayLFS(http.StatusRequestEntityTooLarge, fmt.Sprintf("The large file has %d bytes; this server accepts at most %d.", q.object.Size, q.g.maxPack))
		return
	}
	spool, err := os.CreateTemp(q.g.spool, "lfs-")
	if err != nil {
		q.failLFS("git lfs upload", err)
		return
	}
	defer func() { _ = spool.Close() }()
	if err := os.Remove(spool.Name()); err != nil { // the file stays readable until it is closed
		q.failLFS("git lfs upload", err)
		return
	}
	sum, finder := sha256.New(), q.s.secrets.Finder()
	found := writerFunc(func(p []byte) (int, error) { finder.Found(p); return len(p), nil })
	n, err := io.Copy(io.MultiWriter(&spoolWriter{to: spool, room: q.g.hasRoom}, sum, found), io.LimitReader(q.body, q.object.Size+1))
	switch {
	case err != nil:
		q.failLFS("git lfs upload", err)
		return
	case n != q.object.Size, hex.EncodeToString(sum.Sum(nil)) != q.object.OID:
		q.sayLFS(http.StatusBadRequest, "The uploaded data does not match the id of the large file.")
		return
	case !q.s.secrets.Empty() && finder.Found(nil):
		q.log("git lfs upload", "refused: secret in push", "oid", q.object.OID)
		q.sayLFS(http.StatusBadRequest, "The large file "+q.object.OID+" contains a secret, so it was refused (secret in push). `git lfs ls-files --long` shows its name.")
		return
	}
	remote, answer, err := q.lfsOne(ctx, "upload")
	if err == nil && answer.Actions.Upload != nil {
		if _, err = spool.Seek(0, io.SeekStart); err == nil {
			err = q.g.lfs.Upload(ctx, remote, answer, spool)
		}
	}
	if err != nil {
		q.failLFS("git lfs upload", err)
		return
	}
	q.log("git lfs upload", "done", "oid", q.object.OID, "bytes", n)
	q.w.WriteHeader(http.StatusOK)
}

// roomEvery is the number of bytes of an upload after which the room on the disk is
// checked again. Up to [mirror.SmallPack] bytes it is not checked, as for pushes.
const roomEvery = 32 << 20

// A spoolWriter writes an upload to a file while the disk has room.
type spoolWriter struct {
	to      io.Writer
	room    func() error
	written int64
	next    int64 // when to check the room
}

// Write implements [io.Writer].
func (s *spoolWriter) Write(p []byte) (int, error) {
	if s.written += int64(len(p)); s.written > max(s.next, mirror.SmallPack) {
		if err := s.room(); err != nil {
			return 0, err
		}
		s.next = s.written + roomEvery
	}
	return s.to.Write(p)
}

// writerFunc is a function that implements [io.Writer].
type writerFunc func([]byte) (int, error)

// Write implements [io.Writer].
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// lfsLocks reports that file locks are not supported: the branch grants decide
// who may change a file.
func (q *request) lfsLocks(context.Context) {
	q.sayLFS(http.StatusNotFound, "File locks are not supported.")
}

func (q *request) mayUpload() bool {
	if q.access.branch != "" {
		return true
	}
	q.log("git lfs upload", "not granted")
	q.sayLFS(http.StatusForbidden, fmt.Sprintf("This run may fetch %s, but not push to it.", q.access.repo))
	return false
}

// lfsRemote returns the LFS server of the repository. It is reached by https
// even if git reaches the repository by ssh.
func (q *request) lfsRemote(ctx context.Context) (lfs.Remote, error) {
	web, ok := q.access.repo.Web()
	if !ok {
		return lfs.Remote{}, fault.NotFound("large files of %s are not available", q.access.repo).Named("lfs_not_found")
	}
	r := lfs.Remote{Endpoint: strings.TrimSuffix(web.String(), ".git") + ".git/info/lfs", Named: q.g.mirrors.Configured(ctx, web)}
	var err error
	r.Username, r.Token, err = q.g.mirrors.Login(ctx, web)
	return r, err
}

// failLFS sends an error and logs its details.
func (q *request) failLFS(what string, err error) {
	if q.s.ctx.Err() != nil {
		return
	}
	f := fault.Of(err)
	q.log(what, f.Code, "err", err)
	status := http.StatusBadGateway
	switch f.Kind {
	case fault.KindNotFound:
		status = http.StatusNotFound
	case fault.KindDenied:
		status = http.StatusForbidden
	case fault.KindExhausted, fault.KindInvalid:
		status = http.StatusBadRequest // 422 has another meaning for git lfs, and git lfs retries after 5xx
	case fault.KindInternal:
		status = http.StatusInternalServerError
	}
	words := f.Message
	if f.Advice != "" {
		words += ": " + f.Advice
	}
	q.sayLFS(status, words)
}

// sayLFS sends a message that git lfs shows to its user.
func (q *request) sayLFS(status int, words string) {
	q.answerLFS(status, map[string]any{"message": words})
}

func (q *request) answerLFS(status int, body any) {
	q.w.Header().Set("Content-Type", lfs.MediaType)
	q.w.WriteHeader(status)
	_ = json.NewEncoder(&patientWriter{w: q.w, rc: q.rc}).Encode(body) // ignore errors: the client has disconnected
}
