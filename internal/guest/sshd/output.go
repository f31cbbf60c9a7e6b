package sshd

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"aloft/internal/redact"
)

// carriers are programs that carry files over ssh. Each byte counts to them, and
// they count the bytes.
var carriers = []string{"scp", "sftp-server", "rsync", "git-upload-pack", "git-receive-pack", "git-upload-archive"}

// carries reports whether a command line starts one of the carriers, as its
// client asks for it.
func carries(line string) bool {
	words := strings.Fields(line)
	if len(words) == 0 {
		return false
	}
	name := filepath.Base(words[0])
	if name == "git" && len(words) > 1 { // as some clients of git have it
		name += "-" + words[1]
	}
	return slices.Contains(carriers, name)
}

// output is an output of a command without a terminal, from which secrets are
// taken out while it is text. Two NULs in a row are none: what comes from there
// on is a file, or the protocol of a program, and goes as it is. One NUL is:
// lists of names and variables have it between two. Close it at the end.
type output struct {
	to     io.Writer
	text   *redact.Live
	nul    bool // the last byte was one
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
		if err := o.text.Close(); err != nil { // gives out what it held back
			return 0, err
		}
		return o.to.Write(p)
	}
	o.nul = p[len(p)-1] == 0
	return o.text.Write(p)
}

// Close writes what is held back. It does not close the writer below.
func (o *output) Close() error { return o.text.Close() }
