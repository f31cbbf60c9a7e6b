package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"aloft/internal/control/mirror"
)

// command is one line of a push: change ref from Old to New.
type command struct{ Old, New, Ref string }

// pushRequest is the part of a push before the pack.
type pushRequest struct {
	Commands     []command // none in a probe, by which git tests whether a push is allowed
	Capabilities []string
}

func (p *pushRequest) has(capability string) bool { return slices.Contains(p.Capabilities, capability) }

const (
	maxCommands = 64
	maxShallow  = 10_000
)

var commandPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64}) ([0-9a-f]{40}|[0-9a-f]{64}) ([!-~\x80-\x{10FFFF}]+)$`)

// readPushRequest reads a push up to the pack. It ignores the lines about a
// shallow clone's boundary, since all needed objects must be in the pack or in
// the mirror. It refuses signed pushes and push options, which the server does
// not offer.
func readPushRequest(r *bufio.Reader, idLength int) (pushRequest, error) {
	var p pushRequest
	for shallow := 0; ; {
		line, err := readPkt(r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return pushRequest{}, err
		}
		if line == nil {
			return p, nil
		}
		text := strings.TrimSuffix(string(line), "\n")
		if strings.HasPrefix(text, "shallow ") && len(p.Commands) == 0 {
			if shallow++; shallow > maxShallow {
				return pushRequest{}, errors.New("too many shallow lines")
			}
			continue
		}
		text, caps, ok := strings.Cut(text, "\x00")
		if ok != (len(p.Commands) == 0) {
			return pushRequest{}, errors.New("capabilities belong to the first command")
		}
		if ok {
			p.Capabilities = strings.Fields(caps)
			if p.has("push-options") {
				return pushRequest{}, errors.New("push options are not supported")
			}
		}
		c, err := parseCommand(text, idLength)
		if err != nil {
			return pushRequest{}, err
		}
		if p.Commands = append(p.Commands, c); len(p.Commands) > maxCommands {
			return pushRequest{}, errors.New("too many refs in one push")
		}
	}
}

func parseCommand(text string, idLength int) (command, error) {
	m := commandPattern.FindStringSubmatch(text)
	if m == nil || len(m[1]) != idLength || len(m[2]) != idLength {
		return command{}, fmt.Errorf("invalid push command: %q", mirror.Plain(text))
	}
	if !mirror.ValidRef(m[3]) {
		return command{}, fmt.Errorf("invalid ref name: %q", mirror.Plain(m[3]))
	}
	return command{m[1], m[2], m[3]}, nil
}

func (c command) deletes() bool { return strings.Trim(c.New, "0") == "" }
