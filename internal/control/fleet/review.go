package fleet

import (
	"context"
	"encoding/base64"
	"strings"

	"aloft/internal/control/pod"
)

// patchPart is how much of a patch one command carries, in bytes: a machine's
// kernel limits the length of an argument.
const patchPart = 48 << 10

// applyChange applies and stages a change in the working tree of a new machine.
// It is idempotent. failure says why the change does not apply, or is "".
func applyChange(ctx context.Context, conn *pod.Conn, patch string) (failure string, err error) {
	const file = `"$HOME"/.aloft-review.patch`
	out := &pod.Tail{Limit: maxSetUpOutput}
	commands := []string{"rm -f -- " + file}
	for rest := patch; rest != ""; {
		n := min(len(rest), patchPart)
		commands = append(commands, "echo "+base64.StdEncoding.EncodeToString([]byte(rest[:n]))+" | base64 -d >>"+file)
		rest = rest[n:]
	}
	commands = append(commands, "git reset -q --hard && git apply --index --whitespace=nowarn -- "+file)
	for _, command := range commands {
		exit, err := conn.RunCommand(ctx, command, quickCommand, out)
		if err != nil {
			return "", lostError(err)
		}
		if exit.Code != 0 || exit.TimedOut {
			return "The change could not be applied to the working tree. It is in ~/.aloft-review.patch. " + strings.TrimSpace(out.Text()), nil
		}
	}
	return "", nil
}
