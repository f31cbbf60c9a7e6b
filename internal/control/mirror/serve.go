package mirror

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// UploadPack runs git's end of a fetch on the mirror: the list of refs if
// advertise is set, else one request read from in. protocol is the client's
// Git-Protocol; it must have been checked.
func (m *Mirror) UploadPack(ctx context.Context, protocol string, advertise bool, in io.Reader, out io.Writer) error {
	args := []string{"upload-pack", "--strict", "--stateless-rpc"}
	if advertise {
		args = append(args, "--http-backend-info-refs")
	}
	var env []string
	if protocol != "" {
		env = []string{"GIT_PROTOCOL=" + protocol}
	}
	_, _, err := m.all.git(ctx, invocation{args: append(args, m.dir), env: env, stdin: in, stdout: out})
	return err
}

// IDLength is how many hex digits the ids of the repository have: 40 or 64.
// Before the first refresh that is 40.
func (m *Mirror) IDLength() int {
	config, err := os.ReadFile(filepath.Join(m.dir, "config"))
	if err == nil && strings.Contains(strings.ToLower(string(config)), "objectformat = sha256") {
		return 64
	}
	return 40
}

const diffLimit = time.Minute // a tree can be built that takes for ever to walk

// Diff returns what changed on the way from base to tip since they parted, as
// git prints it, at most max bytes of it. Both are commit ids that the mirror has.
func (m *Mirror) Diff(ctx context.Context, base, tip string, max int) (diff string, truncated bool, err error) {
	for _, id := range []string{base, tip} {
		if !wholeID.MatchString(id) {
			return "", false, fmt.Errorf("diff: %q is no commit id", Plain(id))
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, diffLimit, errTooSlow)
	defer cancel()
	args := []string{
		"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
		base + "..." + tip, "--",
	}
	var out strings.Builder
	_, _, err = m.all.git(ctx, invocation{args: args, dir: m.dir, stdout: &limitWriter{w: &out, left: int64(max), partly: true}})
	if err != nil && out.Len() < max {
		return "", false, err
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), err != nil, nil
}
