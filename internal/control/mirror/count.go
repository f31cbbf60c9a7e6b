package mirror

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"aloft/internal/control/repourl"
	"aloft/internal/fault"
	"aloft/internal/text"
)

// git writes a file for each new ref of an upstream, whatever their number, so a
// hostile upstream could use up the inodes and the memory of the server. The
// refs are therefore counted while git receives them.

// tooManyRefs is the error of a git command that was stopped because the
// upstream has more refs than this limit.
type tooManyRefs int

func (e tooManyRefs) Error() string { return fmt.Sprintf("more than %d refs", int(e)) }

func isTooManyRefs(err error) bool {
	_, ok := errors.AsType[tooManyRefs](err)
	return ok
}

// tooManyRefsIn returns the fault for err, which contains a tooManyRefs.
func tooManyRefsIn(r repourl.Repo, err error) *fault.Error {
	limit, _ := errors.AsType[tooManyRefs](err)
	return fault.Exhausted("repository %s has more than %d branches and tags, which is this server's limit", r, int(limit)).Named(CodeDiskFull).
		Hint("delete branches and tags that are no longer needed").Because(err)
}

// counted runs a command that receives the refs of the upstream. It stops the
// command when there are too many.
func (m *Mirror) counted(ctx context.Context, inv invocation) (stdout []byte, stderr string, err error) {
	trace, w, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = trace.Close() }() // opened for reading only
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	inv.trace = w
	var counting sync.WaitGroup
	counting.Go(func() {
		if exceedsRefs(trace, m.all.maxRefs) {
			stop(tooManyRefs(m.all.maxRefs))
			_, _ = io.Copy(io.Discard, trace) // keep reading, so that git does not block before it is stopped
		}
	})
	stdout, stderr, err = m.git(ctx, inv)
	_ = trace.SetReadDeadline(time.Now().Add(stopGrace)) // a child of git may still have the pipe open
	counting.Wait()
	return stdout, stderr, err
}

// exceedsRefs reads a trace of packets and returns true as soon as one process
// has received more than limit branches and tags. Several processes may receive
// the same refs.
func exceedsRefs(trace io.Reader, limit int) bool {
	count := map[string]int{} // by program
	for lines := bufio.NewReaderSize(trace, 64<<10); ; {
		line, err := text.ReadLine(lines)
		if err != nil {
			return false
		}
		_, packet, _ := strings.Cut(line, "packet:")
		// A packet with a ref looks like this: "fetch< 0123… refs/heads/main".
		part := strings.Fields(packet)
		if len(part) >= 3 && strings.HasSuffix(part[0], "<") && wholeID.MatchString(part[1]) && (strings.HasPrefix(part[2], "refs/heads/") || strings.HasPrefix(part[2], "refs/tags/")) {
			if count[part[0]]++; count[part[0]] > limit {
				return true
			}
		}
	}
}
