package mirror

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/redact"
)

// Update is a requested change of one branch.
type Update struct {
	Branch     string
	Old, New   string // object ids; Old is all zeros if the client expects no branch
	AllowForce bool   // New need not be a descendant of Old
	// Claim identifies the pusher. With MustClaim, the branch must have been
	// created by this push, or by an earlier accepted push under the same
	// claim. Made means that there was such a push, perhaps through another
	// server.
	Claim           string
	MustClaim, Made bool
	MaxPack         int64            // maximum pack size in bytes
	Secrets         *redact.Redactor // finds the secrets that the push must not contain; nil for no check
	// Room returns an error if the disk is too full for a pack of more than
	// [SmallPack]; nil for no check.
	Room func() error
	// Admit waits until a pack of size bytes may be unpacked, and returns the
	// memory in bytes that unpacking it may use. The caller must call release
	// afterwards. nil allows every pack at once, with PackMemory.
	Admit func(ctx context.Context, size int64) (memory uint64, release func(), err error)
	moved bool // the branch has moved since the claimant's last push
}

// Outcome is the result of an update.
type Outcome struct {
	Reason string // short reason of a refusal; "" on success
	Words  string // messages from the upstream or this server for the pushing user, as plain text
	Code   string // code of a refusal: branch_taken, denied, invalid, …, or one of this package's
	Bytes  int64  // size of the pack
}

// rejected returns the outcome of a refused update.
func rejected(code, reason, words string) Outcome {
	return Outcome{Reason: reason, Words: words, Code: code}
}

// PackMemory is the maximum memory in bytes for unpacking a pack.
const PackMemory = 4 << 30

// Receive reads a pack, checks it in quarantine and pushes the branch to the
// upstream. Objects enter the mirror only after the upstream has accepted the
// push. A refusal by this server or the upstream is an Outcome with a Reason;
// an error means that the server failed or the upstream could not be asked.
func (m *Mirror) Receive(ctx context.Context, r repourl.Repo, u Update, pack io.Reader) (Outcome, error) {
	q, err := os.MkdirTemp(filepath.Join(m.all.dir, "quarantine"), "push-")
	if err != nil {
		return Outcome{}, err
	}
	defer m.all.discard(q)
	objects := filepath.Join(q, "objects")
	for _, dir := range []string{objects, filepath.Join(objects, "pack")} {
		if err := errors.Join(os.Mkdir(dir, 0o700), m.all.host.Share(dir, m.user)); err != nil {
			return Outcome{}, err
		}
	}
	in := &countReader{r: pack}
	out, err := m.receive(ctx, r, u, in, q)
	out.Bytes = in.n
	return out, err
}

// receive does the work of [Mirror.Receive]. It stores the push in dir.
func (m *Mirror) receive(ctx context.Context, r repourl.Repo, u Update, in io.Reader, dir string) (Outcome, error) {
	objects := filepath.Join(dir, "objects")
	var was claim
	if u.MustClaim {
		var out Outcome
		var err error
		if was, out, err = m.judgeClaim(r, &u); err != nil || out.Reason != "" {
			return out, err
		}
	}
	pack, size, out, err := spool(u, in, dir)
	if err != nil || out.Reason != "" {
		return out, err
	}
	sent, out, err := m.unpack(ctx, u, pack, size, objects)
	_ = pack.Close() // it was only read
	if err != nil || out.Reason != "" {
		return out, err
	}
	if out, err := m.inspect(ctx, u, objects); err != nil || out.Reason != "" {
		return out, err
	}
	brought, out, err := m.brings(ctx, u, objects, sent)
	if err != nil || out.Reason != "" {
		return out, err
	}
	if out, err := m.secrets(ctx, u, objects); err != nil || out.Reason != "" {
		return out, err
	}
	if u.MustClaim {
		// Write the claim before the push, so that a crash during the push does
		// not lock out the agent.
		if err := m.writeClaim(u, was.tryingAlso(u.New)); err != nil {
			return Outcome{}, err
		}
	}
	out, err = m.push(ctx, r, u, objects, was)
	if u.MustClaim {
		err = errors.Join(err, m.settleClaim(u, was, out, err))
	}
	if err != nil || out.Reason != "" {
		return out, err
	}
	if err := errors.Join(m.repackFor(ctx, brought, objects), m.adopt(ctx, u, objects)); err != nil { // the push has succeeded anyway; the next refresh will fetch it
		m.all.log.Warn("cannot move a push into the mirror; the next refresh fetches it", "repo", m.key, "branch", u.Branch, "err", err)
	}
	return out, nil
}

// unpack stores the pack in quarantine and returns the number of objects sent.
func (m *Mirror) unpack(ctx context.Context, u Update, in io.Reader, size int64, objects string) (sent uint32, out Outcome, err error) {
	buf := bufio.NewReader(in)
	head, err := buf.Peek(12)
	if err != nil || string(head[:4]) != "PACK" {
		return 0, rejected("invalid", "no pack came with the push", ""), nil
	}
	if sent = binary.BigEndian.Uint32(head[8:]); sent == 0 {
		return 0, Outcome{}, nil // an existing commit needs no pack
	}
	memory := uint64(PackMemory)
	if u.Admit != nil {
		var release func()
		if memory, release, err = u.Admit(ctx, size); err != nil {
			return 0, Outcome{}, err
		}
		defer release()
	}
	args := []string{"index-pack", "--stdin", "--fix-thin", "--strict", fmt.Sprintf("--max-input-size=%d", u.MaxPack)}
	_, stderr, err := m.git(ctx, invocation{args: args, objects: objects, stdin: buf, fills: true, dataLimit: memory})
	switch {
	case err == nil:
		return sent, Outcome{}, nil
	case ctx.Err() != nil:
		return 0, Outcome{}, err
	case hasAny(strings.ToLower(stderr), saysDiskFull):
		return 0, Outcome{}, fault.Exhausted("no space left on the server's disk for the push").Named(CodeDiskFull).Because(err)
	case strings.Contains(stderr, "exceeds maximum allowed size"):
		return 0, tooLarge(u), nil
	}
	m.all.log.Info("pack refused", "repo", m.key, "err", err)
	return 0, rejected("invalid", "the pack is damaged", upstreamWords(stderr)), nil
}

// inspect checks that all objects of the new commit are present, and that it
// descends from the old one unless a force-push is allowed.
func (m *Mirror) inspect(ctx context.Context, u Update, objects string) (Outcome, error) {
	kind, _, err := m.git(ctx, invocation{args: []string{"cat-file", "-t", u.New}, objects: objects})
	if ctx.Err() != nil {
		return Outcome{}, err
	}
	if err != nil || strings.TrimSpace(string(kind)) != "commit" {
		return rejected("invalid", "no such commit", ""), nil
	}
	list := strings.NewReader(u.New + "\n")
	args := []string{"rev-list", "--objects", "--quiet", "--stdin", "--not", "--all"}
	if _, _, err := m.git(ctx, invocation{args: args, objects: objects, stdin: list}); err != nil {
		if ctx.Err() != nil {
			return Outcome{}, err
		}
		return rejected("invalid", "missing necessary objects", "Fetch first: the push builds on commits that the server does not have."), nil
	}
	if isZero(u.Old) || u.AllowForce {
		return Outcome{}, nil
	}
	_, _, err = m.git(ctx, invocation{args: []string{"merge-base", "--is-ancestor", u.Old, u.New}, objects: objects})
	if err != nil {
		if ctx.Err() != nil {
			return Outcome{}, err
		}
		words := "This run may not rewrite its branch."
		if u.moved {
			words = "The branch " + u.Branch + " has commits of others, which may not be overwritten."
		}
		return rejected("non_fast_forward", "non-fast-forward", words+" Merge or rebase onto what is already pushed, and push again."), nil
	}
	return Outcome{}, nil
}

// push pushes the branch to the upstream, if it is still at u.Old there.
func (m *Mirror) push(ctx context.Context, r repourl.Repo, u Update, objects string, was claim) (Outcome, error) {
	ref := "refs/heads/" + u.Branch
	lease := ref + ":"
	if !isZero(u.Old) {
		lease += u.Old
	}
	args := []string{
		"push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no",
		"--force-with-lease=" + lease, "--", r.String(), u.New + ":" + ref,
	}
	stdout, stderr, err := m.upstream(ctx, r, invocation{args: args, objects: objects})
	flag, status := porcelain(string(stdout), ref)
	words := remoteWords(stderr)
	switch {
	case flag != "!" && err != nil: // the upstream may have accepted it
		return Outcome{}, err
	case flag == "=" && u.MustClaim && !was.made && !was.covers(u.New):
		return taken(r, u), nil // the branch belongs to somebody else, and happens to be at this commit
	case flag != "!":
		return Outcome{Words: words}, nil
	case strings.Contains(status, "stale info"):
		if isZero(u.Old) {
			return taken(r, u), nil
		}
		return rejected("stale", "fetch first", u.Branch+" has moved on "+r.Host()+". Fetch, merge, and push again."), nil
	}
	if strings.HasPrefix(status, "[remote failure]") {
		return Outcome{}, unreachable(r, "it did not report whether it accepted the push")
	}
	m.all.log.Info("push refused upstream", "repo", m.key, "branch", u.Branch, "status", status)
	return rejected("denied", reason(status), words), nil
}

func taken(r repourl.Repo, u Update) Outcome {
	return rejected(CodeBranchTaken, "branch taken",
		"The branch "+u.Branch+" already exists at "+r.String()+" and is not this agent's.")
}

// porcelain returns the line about ref in the output of git push --porcelain.
func porcelain(stdout, ref string) (flag, status string) {
	for line := range strings.Lines(stdout) {
		parts := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(parts) == 3 && strings.HasSuffix(parts[1], ":"+ref) {
			return parts[0], Plain(parts[2])
		}
	}
	return "", ""
}

// reason returns the text in the last parentheses of a status such as "[remote
// rejected] (pre-receive hook declined)".
func reason(status string) string {
	if _, after, ok := strings.Cut(status, "("); ok {
		return strings.TrimSuffix(after, ")")
	}
	return status
}

const maxRemoteLines = 50

// remoteWords returns the lines printed by the upstream itself.
func remoteWords(stderr string) string {
	var lines []string
	for line := range strings.FieldsFuncSeq(stderr, func(r rune) bool { return r == '\n' || r == '\r' }) {
		message, ok := strings.CutPrefix(line, "remote:")
		if message = strings.TrimRight(Plain(strings.TrimPrefix(message, " ")), " "); ok && len(lines) < maxRemoteLines {
			lines = append(lines, message)
		}
	}
	return strings.Join(lines, "\n")
}

// adopt moves the accepted objects from quarantine into the mirror.
func (m *Mirror) adopt(ctx context.Context, u Update, objects string) error {
	if err := m.lockWrite(ctx); err != nil {
		return err
	}
	defer m.unlockWrite()
	files, err := filepath.Glob(filepath.Join(objects, "pack", "*"))
	if err != nil {
		return err
	}
	for _, last := range []bool{false, true} { // move the index last, since it makes a pack visible
		for _, f := range files {
			if strings.HasSuffix(f, ".idx") != last {
				continue
			}
			if err := os.Rename(f, filepath.Join(m.dir, "objects", "pack", filepath.Base(f))); err != nil {
				return err
			}
		}
	}
	// A refresh may have updated the ref first.
	args := []string{"update-ref", "refs/heads/" + u.Branch, u.New}
	if _, _, err := m.git(ctx, invocation{args: args, changes: true}); err != nil {
		return err
	}
	refs, _, err := m.readRefs(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.retire(refs)
	m.snapshot.Refs = refs
	m.mu.Unlock()
	return nil
}

func isZero(id string) bool { return strings.Trim(id, "0") == "" }

// countReader counts the bytes read.
type countReader struct {
	r io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
