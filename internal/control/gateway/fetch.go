package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
)

// maxFetchRequest bounds what a client says it wants and has. It is held in
// memory, so that git can answer before it has read all without both ends
// waiting for each other.
const maxFetchRequest = 16 << 20

// advertiseFetch brings the mirror up to date and lists its refs.
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

// fetch answers one request: for refs, or for objects.
func (q *request) fetch(ctx context.Context) {
	in, err := io.ReadAll(io.LimitReader(q.body, maxFetchRequest+1))
	if err != nil {
		say(q.w, http.StatusBadRequest, "The request could not be read.", "")
		return
	}
	if len(in) > maxFetchRequest {
		say(q.w, http.StatusRequestEntityTooLarge, "The request is too large.", "")
		return
	}
	q.w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	out := &patientWriter{w: q.w, rc: q.rc}
	if err := q.access.mirror.UploadPack(ctx, q.protocol, false, bytes.NewReader(in), out); err != nil {
		q.abandon(ctx, "git fetch", err, out)
		return
	}
	if !bytes.Contains(in[:min(len(in), 64)], []byte("command=ls-refs")) {
		q.log("git fetch", "done", "bytes", out.sent)
	}
}

// abandon ends a response that git could not finish. What was sent cannot be
// taken back; git's own framing tells the client that more should have come.
func (q *request) abandon(ctx context.Context, what string, err error, out *patientWriter) {
	if errors.Is(ctx.Err(), context.Canceled) {
		q.log(what, "cancelled", "bytes", out.sent)
		return
	}
	q.log(what, "failed", "bytes", out.sent, "err", err)
	if out.sent == 0 {
		say(q.w, http.StatusInternalServerError, "The fetch failed on the server.", "Try again; the server's log has the reason.")
	}
}
