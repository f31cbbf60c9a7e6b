package sshd

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/redact"
)

// carriers are programs that transfer files over ssh. Not a byte of their output may be
// changed.
var carriers = []string{"scp", "sftp-server", "rsync", "git-upload-pack", "git-receive-pack", "git-upload-archive"}

// carries reports whether a command line runs one of the carriers.
func carries(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 {
		return false
	}
	name := filepath.Base(words[0])
	if name == "git" && len(words) > 1 { // some git clients use this form
		name += "-" + words[1]
	}
	return slices.Contains(carriers, name)
}

// output is the output of a command without a terminal. It redacts secrets while the
// output is text. After two NULs in a row it forwards everything unchanged, because the
// output is then a file or a program's protocol. A single NUL still counts as text,
// since it separates names in lists. The caller must Close it at the end.
type output struct {
	to     io.Writer
	text   *redact.Live
	nul    bool // the last byte was a NUL
	binary bool
}

func newOutput(to io.Writer, secrets func() *redact.Redactor) *output {
	return &output{to: to, text: redact.NewLive(to, secrets)}
}

// Write implements [io.Writer].
func (o *output) Write(p []byte) (int, error) {
	if o.binary || len(p) == 0 {
		return o.to.Write(p)
	}
	if o.nul && p[0] == 0 || bytes.Contains(p, []byte{0, 0}) {
		o.binary = true
		if err := o.text.Close(); err != nil { // writes the output that was held back
			return 0, err
		}
		return o.to.Write(p)
	}
	o.nul = p[len(p)-1] == 0
	return o.text.Write(p)
}

// Close writes the delayed output. It does not close the underlying writer.
func (o *output) Close() error { return o.text.Close() }
