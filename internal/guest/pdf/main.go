package pdf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/ledongthuc/pdf"
	"golang.org/x/sys/unix"
)

// Limits of the process that parses a PDF.
const (
	cpuSeconds  = 20
	memoryLimit = 512 << 20 // bytes; the garbage collector's soft limit
	spaceLimit  = 4 << 30   // bytes of address space, most of which Go never uses
)

// Main runs the process that parses a PDF. The process reads the PDF from its standard
// input, which must be a file. args are the first page and the number of pages. Main
// prints one line of JSON for the file and one for each page, and returns the exit code.
func Main(args []string, in *os.File, out io.Writer) int {
	debug.SetMemoryLimit(memoryLimit)
	// If this fails, the parent's timeout still applies.
	_ = unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: cpuSeconds, Max: cpuSeconds})
	_ = unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: spaceLimit, Max: spaceLimit})
	if len(args) != 2 {
		return 2
	}
	first, err := strconv.Atoi(args[0])
	if err != nil {
		return 2
	}
	most, err := strconv.Atoi(args[1])
	if err != nil {
		return 2
	}
	info, err := in.Stat()
	if err != nil {
		return 2
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	print := json.NewEncoder(w)
	doc, total, err := open(in, info.Size())
	if err != nil {
		_ = print.Encode(header{Error: err.Error()}) // the parent notices if nothing arrives
		return 1
	}
	_ = print.Encode(header{Total: total})
	for i := max(1, first); i <= total && i-first < most; i++ {
		if print.Encode(Page{Text: textOf(doc, i)}) != nil {
			return 1
		}
		_ = w.Flush() // keep what was read so far, in case the next page crashes this process
	}
	return 0
}

func open(in io.ReaderAt, size int64) (doc *pdf.Reader, total int, err error) {
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("it is damaged: %v", what)
		}
	}()
	doc, err = pdf.NewReader(in, size)
	if err != nil {
		return nil, 0, err
	}
	return doc, doc.NumPage(), nil
}

// textOf returns the text of a page, or a message if it cannot be read.
func textOf(doc *pdf.Reader, number int) (text string) {
	defer func() {
		if what := recover(); what != nil {
			text = fmt.Sprintf("[cannot read the text of this page: %v]", what)
		}
	}()
	page := doc.Page(number)
	if page.V.IsNull() {
		return ""
	}
	fonts := make(map[string]*pdf.Font)
	for _, name := range page.Fonts() {
		font := page.Font(name)
		fonts[name] = &font
	}
	text, err := page.GetPlainText(fonts)
	if err != nil {
		return fmt.Sprintf("[cannot read the text of this page: %v]", err)
	}
	return clean(text, maxPageText)
}
