package mirror

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/fault"
)

// UploadPack runs the server side of a fetch on the mirror: it sends the list
// of refs if advertise is set, or else handles one request from in. protocol is
// the client's Git-Protocol header, which the caller has validated.
func (m *Mirror) UploadPack(ctx context.Context, protocol string, advertise bool, in io.Reader, out io.Writer) error {
	args := []string{"upload-pack", "--strict", "--stateless-rpc"}
	if advertise {
		args = append(args, "--http-backend-info-refs")
	}
	var env []string
	if protocol != "" {
		env = []string{"GIT_PROTOCOL=" + protocol}
	}
	_, _, err := m.git(ctx, invocation{args: append(args, m.dir), env: env, stdin: in, stdout: out})
	return err
}

// IDLength returns the length of the repository's object ids in hex digits: 40
// or 64. Before the first refresh it returns 40.
func (m *Mirror) IDLength() int {
	config, err := os.ReadFile(filepath.Join(m.dir, "config"))
	if err == nil && strings.Contains(strings.ToLower(string(config)), "objectformat = sha256") {
		return 64
	}
	return 40
}

// Patch holds changes that git apply can apply.
type Patch struct {
	Text  []byte   // output of git diff --binary --full-index
	Files []string // names of the changed files; of a renamed file both names
}

// Patch returns the changes from the merge base of base and tip to tip. Both are
// commit ids in the mirror. A patch of more than max bytes is a fault.
func (m *Mirror) Patch(ctx context.Context, base, tip string, max int) (Patch, error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return Patch{}, fmt.Errorf("patch: %q is not a commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	read := func(args ...string) ([]byte, error) {
		var out bytes.Buffer
		args = append(append([]string{"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames"}, args...), base+"..."+tip, "--")
		_, _, err := m.git(ctx, invocation{args: args, stdout: &limitWriter{w: &out, left: int64(max), partly: true}})
		if err != nil && out.Len() >= max {
			return nil, fault.Conflict("the changes have more than %d MiB", max>>20).Named(CodeTooLarge)
		}
		return out.Bytes(), err
	}
	text, err := read("--binary", "--full-index", "--src-prefix=a/", "--dst-prefix=b/")
	if err != nil {
		return Patch{}, err
	}
	names, err := read("--name-only", "-z")
	if err != nil {
		return Patch{}, err
	}
	return Patch{text, strings.FieldsFunc(string(names), func(r rune) bool { return r == 0 })}, nil
}

const diffLimit = time.Minute // walking a malicious tree can take forever

// Diff returns the changes from the merge base of base and tip to tip, as git
// prints them, truncated to max bytes. Both are commit ids in the mirror.
func (m *Mirror) Diff(ctx context.Context, base, tip string, max int) (diff string, truncated bool, err error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return "", false, fmt.Errorf("diff: %q is not a commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	args := []string{
		"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
		base + "..." + tip, "--",
	}
	var out strings.Builder
	_, _, err = m.git(ctx, invocation{args: args, stdout: &limitWriter{w: &out, left: int64(max), partly: true}})
	if err != nil && out.Len() < max {
		return "", false, err
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), err != nil, nil
}
