package unpack

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// processName is the name (argument 0) of this program's processes in jails.
const processName = "aloft-unpack"

// This function is all that a process in a jail runs. It runs before the larger
// packages of the program are initialized, because that would take longer than
// unpacking a small layer.
func init() {
	if os.Args[0] != processName {
		return
	}
	ended := make(chan int)
	go func() { ended <- runProcess(os.Args[1:]) }() // not in the main goroutine: it is locked to a thread, which is slow
	os.Exit(<-ended)
}

// reports is the descriptor to which a process writes its reports.
const reports = 3

// The kinds of reports. A report consists of its kind, the size of its content
// in four bytes, and the content.
const (
	reportEntries = 'n' // four bytes: the number of entries created since the last report
	reportMark    = 'm' // a set of marks in one byte, and the name of the directory
	reportError   = 'e' // the number of a system error or 0 in four bytes, and the text of the error
	reportDone    = 'd'
)

const (
	entriesPerReport = 128
	bufferSize       = 256 << 10
)

func runProcess(args []string) int {
	to := &reporter{w: bufio.NewWriter(os.NewFile(reports, "reports"))}
	in := bufio.NewReaderSize(os.Stdin, bufferSize)
	var err error
	switch {
	case len(args) == 1 && args[0] == "expand":
		err = expandTo(os.Stdout, in)
	case len(args) == 2 && (args[0] == "layer" || args[0] == "saved"):
		err = unpackTo(args[1], in, args[0] == "saved", to)
	default:
		err = fmt.Errorf("unexpected arguments %q", args)
	}
	if err == nil {
		err = errors.Join(to.flush(), to.report(reportDone, nil), to.w.Flush())
	}
	if err != nil {
		var number unix.Errno
		_ = errors.As(err, &number) // 0 if err contains no system error
		_ = to.report(reportError, append(binary.BigEndian.AppendUint32(nil, uint32(number)), err.Error()...))
		_ = to.w.Flush() // if this fails too, the error is lost
		return 1
	}
	return 0
}

func expandTo(w io.Writer, r io.Reader) error {
	content, err := expand(r)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{content}, make([]byte, bufferSize))
	return err
}

func unpackTo(dir string, r io.Reader, saved bool, to *reporter) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // nothing was written through it
	u := unpacker{root: root, saved: saved, entry: to.entries, mark: to.mark}
	// Change the working directory, because the jail has no /proc. Nothing else
	// in this process depends on its working directory.
	u.setAttribute = func(dir int, name, attr string, value []byte) error {
		if err := unix.Fchdir(dir); err != nil {
			return err
		}
		return unix.Lsetxattr(name, attr, value, 0)
	}
	return u.unpack(context.Background(), r)
}

// reporter writes reports. It combines the reports of entries.
type reporter struct {
	w     *bufio.Writer
	count uint32
}

func (r *reporter) report(kind byte, content []byte) error {
	if len(content) > math.MaxUint32 {
		return errors.New("the report is too long")
	}
	_, err := r.w.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content))), content...))
	return err
}

func (r *reporter) entries(n int) error {
	if r.count += uint32(n); r.count < entriesPerReport {
		return nil
	}
	return r.flush()
}

func (r *reporter) flush() error {
	if r.count == 0 {
		return nil
	}
	err := errors.Join(r.report(reportEntries, binary.BigEndian.AppendUint32(nil, r.count)), r.w.Flush())
	r.count = 0
	return err
}

func (r *reporter) mark(m markOf) error {
	return r.report(reportMark, append([]byte{byte(m.mark)}, m.dir...))
}
