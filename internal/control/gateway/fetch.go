package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// maxFetchRequest is the maximum size in bytes of a fetch request. It is
// buffered in memory, because client and git could deadlock if each waited for
// the other.
const maxFetchRequest = 16 << 20

// smallFetch is the size in bytes up to which a fetch request is read without
// waiting. A larger request names tens of thousands of objects, and checking
// them takes several times the request's size in memory. So each machine may
// have one large request at a time, and the server maxLarge.
const (
	smallFetch = 1 << 20
	maxLarge   = 2
)

// advertiseFetch refreshes the mirror and sends its list of refs.
func (q *request) advertiseFetch(ctx context.Context) {
	if _, err := q.access.mirror.Refresh(ctx, q.access.repo); err != nil {
		q.fail("git fetch", err)
		return
	}
	q.w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	out := &patientWriter{w: q.w, rc: q.rc}
	if q.protocol != "version=2" {
		if _, err := out.Write(serviceLine("git-upload-pack")); err != nil {
			return
		}
	}
	if err := q.access.mirror.UploadPack(ctx, q.protocol, true, nil, out); err != nil {
		q.abandon(ctx, "git fetch", err, out)
	}
}

// fetch handles one git-upload-pack request.
func (q *request) fetch(ctx context.Context) {
	in, err := io.ReadAll(io.LimitReader(q.body, smallFetch+1))
	if err == nil && len(in) > smallFetch {
		if !take(ctx, q.s.large) {
			sayBusy(q.w)
			return
		}
		defer func() { <-q.s.large }()
		whole := bytes.NewBuffer(in)
		_, err = whole.ReadFrom(io.LimitReader(q.body, int64(maxFetchRequest+1-len(in))))
		in = whole.Bytes()
	}
	if err != nil {
		say(q.w, http.StatusBadRequest, "The request could not be read.", "")
		return
	}
	if len(in) > maxFetchRequest {
		say(q.w, http.StatusRequestEntityTooLarge, "The request is too large.", "")
		return
	}
	if !q.mayWant(ctx, in) {
		return
	}
	q.w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	out := &patientWriter{w: q.w, rc: q.rc}
	if err := q.access.mirror.UploadPack(ctx, q.protocol, false, bytes.NewReader(in), out); err != nil {
		q.abandon(ctx, "git fetch", err, out)
		return
	}
	if !bytes.Contains(in[:min(len(in), 64)], []byte("command=ls-refs")) {
		q.log("git fetch", "done", "bytes", out.written)
	}
}

// wantLine matches a line that requests an object or its size (object-info).
var wantLine = regexp.MustCompile(`^(?:want|oid) ([0-9a-f]{40}|[0-9a-f]{64})(?:[ \n]|$)`)

// mayWant reports whether every requested object is reachable from a branch or
// a tag. If not, it sends the error. The check is necessary because git would
// serve any object in the mirror.
func (q *request) mayWant(ctx context.Context, in []byte) bool {
	if len(in) > smallFetch {
		if !take(ctx, q.g.large) {
			sayBusy(q.w)
			return false
		}
		defer func() { <-q.g.large }()
	}
	var wants []string
	for rest := in; len(rest) >= 4; {
		n, err := strconv.ParseUint(string(rest[:4]), 16, 16)
		if err != nil || int(n) > len(rest) {
			say(q.w, http.StatusBadRequest, "The request could not be read.", "")
			return false
		}
		line := rest[min(4, len(rest)):max(4, int(n))]
		rest = rest[max(4, int(n)):] // lengths 0 to 2 mark special packets of four bytes
		if !bytes.HasPrefix(line, []byte("want ")) && !bytes.HasPrefix(line, []byte("oid ")) {
			continue
		}
		m := wantLine.FindSubmatch(line)
		if m == nil {
			say(q.w, http.StatusBadRequest, "The request could not be read.", "")
			return false
		}
		wants = append(wants, string(m[1]))
	}
	slices.Sort(wants)
	unserved, err := q.access.mirror.Unserved(ctx, slices.Compact(wants))
	if err != nil {
		q.fail("git fetch", err)
		return false
	}
	if len(unserved) > 0 {
		q.log("git fetch", "refused: not on a branch or tag", "want", unserved[0])
		say(q.w, http.StatusForbidden, "No branch or tag of "+q.access.repo.String()+" contains "+unserved[0]+".", "Fetch again: a branch may have moved.")
		return false
	}
	return true
}

// abandon ends a response that git could not finish. The headers have been
// sent, but git's framing tells the client that data is missing.
func (q *request) abandon(ctx context.Context, what string, err error, out *patientWriter) {
	if errors.Is(ctx.Err(), context.Canceled) {
		q.log(what, "cancelled", "bytes", out.written)
		return
	}
	q.log(what, "failed", "bytes", out.written, "err", err)
	if out.written == 0 {
		say(q.w, http.StatusInternalServerError, "The fetch failed on the server.", "Try again; the server's log has the reason.")
	}
}
