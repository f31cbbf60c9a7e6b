package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"aloft/internal/control/mirror"
	"aloft/internal/fault"
)

const pushCapabilities = "report-status side-band-64k ofs-delta atomic quiet agent=aloft"

// advertisePush refreshes the mirror and sends its refs, which tell the client
// which objects it need not send.
func (q *request) advertisePush(ctx context.Context) {
	if q.access.branch == "" {
		q.log("git push", "not granted")
		say(q.w, http.StatusForbidden, fmt.Sprintf("This run may fetch %s, but not push to it.", q.access.repo),
			"Push to a repository that the agent was started to work on.")
		return
	}
	snap, err := q.access.mirror.Refresh(ctx, q.access.repo)
	if err != nil {
		q.fail("git push", err)
		return
	}
	caps := pushCapabilities
	idLength := q.access.mirror.IDLength()
	if idLength == 64 {
		caps += " object-format=sha256"
	} else {
		caps += " object-format=sha1"
	}
	refs := snap.Refs
	if len(refs) == 0 {
		refs = []mirror.Ref{{Name: "capabilities^{}", ID: strings.Repeat("0", idLength)}}
	}
	out := serviceLine("git-receive-pack")
	for i, r := range refs {
		line := r.ID + " " + r.Name
		if i == 0 {
			line += "\x00" + caps
		}
		out = appendPkt(out, line+"\n")
	}
	q.w.Header().Set("Content-Type", "application/x-git-receive-pack-advertisement")
	_, _ = (&patientWriter{w: q.w, rc: q.rc}).Write(append(out, flushPkt...)) // ignore errors: the client has disconnected
}

// push handles a push to the one branch that the machine may push.
func (q *request) push(ctx context.Context) {
	in := bufio.NewReaderSize(q.body, 64<<10)
	p, err := readPushRequest(in, q.access.mirror.IDLength())
	if err != nil {
		q.log("git push", "malformed", "err", err)
		say(q.w, http.StatusBadRequest, "The push could not be read: "+mirror.Plain(err.Error())+".", "")
		return
	}
	if len(p.Commands) == 0 {
		q.w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
		q.w.WriteHeader(http.StatusOK)
		return
	}
	if verdicts, words := q.judge(p); verdicts != nil {
		// Drain the push, because the client reads the response only after it
		// has sent everything.
		n, _ := io.Copy(io.Discard, io.LimitReader(in, q.g.maxPack))
		for i, c := range p.Commands {
			q.log("git push", "refused: "+verdicts[i].reason, "ref", c.Ref, "old", c.Old, "new", c.New, "bytes", n)
		}
		q.report(p, verdicts, words)
		return
	}
	select {
	case q.s.push <- struct{}{}:
		defer func() { <-q.s.push }()
	case <-ctx.Done():
		return
	}
	c := p.Commands[0]
	out, err := q.access.mirror.Receive(ctx, q.access.repo, mirror.Update{
		Branch: q.access.branch, Old: c.Old, New: c.New,
		AllowForce: q.s.grant.AllowForce, Claim: q.s.grant.AgentID, MustClaim: !q.access.exists, Made: q.access.made,
		MaxPack: q.g.maxPack, Secrets: q.s.secrets, Room: q.g.hasRoom, Admit: q.admit,
	}, in)
	if err != nil {
		f := fault.Of(err)
		out = mirror.Outcome{Reason: f.Code, Code: f.Code, Words: f.Message + ".\n" + f.Advice, Bytes: out.Bytes}
	}
	outcome := "done"
	if out.Reason != "" {
		outcome = "refused: " + out.Reason
		_, _ = io.Copy(io.Discard, io.LimitReader(in, q.g.maxPack))
	}
	attrs := []any{"ref", c.Ref, "old", c.Old, "new", c.New, "bytes", out.Bytes}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	q.log("git push", outcome, attrs...)
	if q.g.notes && out.Reason == "" {
		q.note(c.Old, c.New)
	}
	q.report(p, []verdict{{c.Ref, out.Reason}}, out.Words)
}

// Limits of unpacking, for all machines together. git may use this memory for
// each push that it unpacks, so all pushes together use at most 12 GiB. Small
// pushes, the majority, do not wait for large ones.
const (
	maxSmallPushes  = 4
	maxLargePushes  = 2
	smallPushMemory = 1 << 30         // enough for a delta of two files below git's core.bigFileThreshold of 512 MiB
	maxPushWait     = 2 * time.Minute // timeout for a lane
)

// A lane limits concurrent pushes, and the memory of each in bytes.
type lane struct {
	slots  chan struct{}
	memory uint64
}

func lanes() [2]lane {
	return [2]lane{
		{make(chan struct{}, maxSmallPushes), smallPushMemory},
		{make(chan struct{}, maxLargePushes), mirror.PackMemory},
	}
}

// admit is [Gateway.admit] for the request's agent, whose push it counts.
func (q *request) admit(ctx context.Context, size int64) (memory uint64, release func(), err error) {
	memory, leave, err := q.g.admit(ctx, size)
	if err != nil {
		return 0, nil, err
	}
	end := q.g.hold(q.s.grant.AgentID, int64(memory))
	return memory, func() { end(); leave() }, nil
}

// admit waits until a push of size bytes may be unpacked; see [mirror.Update].
func (g *Gateway) admit(ctx context.Context, size int64) (memory uint64, release func(), err error) {
	l := g.unpacking[0]
	if size > mirror.SmallPack {
		if err := g.hasRoom(); err != nil {
			return 0, nil, err
		}
		l = g.unpacking[1]
	}
	if !takeWithin(ctx, l.slots, g.pushWait) {
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return 0, nil, fault.Exhausted("the server is busy with the pushes of other agents").Named("push_busy").
			Hint("push again in a few minutes")
	}
	return l.memory, func() { <-l.slots }, nil
}

// hasRoom returns a fault if the disk is too full for a large push.
func (g *Gateway) hasRoom() error {
	if g.room == nil {
		return nil
	}
	if err := g.room(); err != nil {
		return fault.Exhausted("the server's disk is nearly full, so it takes no push above %d MiB", mirror.SmallPack>>20).
			Named(mirror.CodeDiskFull).Hint("free space below the server's data folder, and push again").Because(err)
	}
	return nil
}

// judge checks the commands against the grant. If it refuses one command, it
// refuses all, and returns a verdict for each. It returns nil if all are
// allowed.
func (q *request) judge(p pushRequest) (verdicts []verdict, words string) {
	allowed := "refs/heads/" + q.access.branch
	refused := false
	for _, c := range p.Commands {
		reason := ""
		switch {
		case q.access.branch == "":
			reason = "this run may not push to this repository"
		case c.Ref != allowed:
			reason = "not this run's branch"
		case c.deletes():
			reason = "deleting is not allowed"
		}
		refused = refused || reason != ""
		verdicts = append(verdicts, verdict{c.Ref, reason})
	}
	if !refused && len(p.Commands) == 1 {
		return nil, ""
	}
	for i := range verdicts {
		if verdicts[i].reason == "" {
			verdicts[i].reason = "refused with the rest of the push"
		}
	}
	if q.access.branch == "" {
		return verdicts, fmt.Sprintf("This run may fetch %s, but not push to it.", q.access.repo)
	}
	return verdicts, fmt.Sprintf("This run may push to one branch of %s only, and not delete it:\n  git push origin HEAD:%s",
		q.access.repo, q.access.branch)
}
