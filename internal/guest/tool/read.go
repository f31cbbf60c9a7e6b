package tool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"aloft/internal/guest/file"
	"aloft/internal/guest/video"
	"aloft/internal/wire/agentv1"
)

const (
	maxReadLines = 2000
	maxReadBytes = 100_000 // of text in one result
	maxLineRunes = 2000
	scanChunk    = 1 << 20
)

// imageTypes are the image formats that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Read reads part of a text file, an image, a video, a PDF or a notebook.
func Read(ws Workspace) Tool {
	return Tool{Name: "Read", Bounded: true, Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		out := Outcome{}
		success, text, pictures, err := read(ctx, ws, call.GetReadToolCall().GetArgs())
		result := &agentv1.ReadToolResult{Result: &agentv1.ReadToolResult_Success{Success: success}}
		if err != nil {
			text, out.Error = valid(err.Error()), true
			result.Result = &agentv1.ReadToolResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		out.Pictures = pictures
		done := &agentv1.ReadToolCall{Result: result}
		out.Call = &agentv1.ToolCall{Tool: &agentv1.ToolCall_ReadToolCall{ReadToolCall: done}}
		out.Text = text
		return out
	}}
}

func read(ctx context.Context, ws Workspace, args *agentv1.ReadToolArgs) (*agentv1.ReadSuccess, string, []*agentv1.Picture, error) {
	path, err := ws.path(args.GetPath())
	if err != nil {
		return nil, "", nil, err
	}
	if args.Limit != nil && args.GetLimit() <= 0 {
		return nil, "", nil, fmt.Errorf("limit is %d: give a number of lines, at least 1", args.GetLimit())
	}
	f, info, err := file.Open(path)
	if err != nil {
		return nil, "", nil, err
	}
	defer f.Close()
	start := make([]byte, 8000)
	n, err := f.ReadAt(start, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", nil, file.Explain(path, err)
	}
	start = start[:n]
	success := &agentv1.ReadSuccess{Path: valid(path), SizeBytes: float64(info.Size())}
	switch kind := http.DetectContentType(start); {
	case slices.Contains(imageTypes, kind):
		success.MediaType = kind
		picture, text, err := readImage(path, f, info.Size(), kind)
		if err != nil {
			return nil, "", nil, err
		}
		return success, text, []*agentv1.Picture{picture}, nil
	case kind == pdfType:
		text, pictures, err := readPDF(ctx, ws, path, f, args, success)
		return success, text, pictures, err
	case video.Readable(videoKind(path, kind, start)):
		success.MediaType = videoKind(path, kind, start)
		text, pictures, err := readVideo(ctx, path, args, success)
		return success, text, pictures, err
	case !isText(start):
		return nil, "", nil, fmt.Errorf("%s is a binary file (%s, %d bytes), which cannot be shown as text: inspect it with file, strings or xxd in Shell", path, kind, info.Size())
	}
	ws.Seen.RememberFile(path, f, info.Size())
	note := ""
	if filepath.Ext(path) == ".ipynb" && info.Size() <= file.MaxBytes {
		text, pictures, err := readNotebook(path, f, args, success)
		if err == nil || success.MediaType != "" {
			return success, text, pictures, err
		}
		note = fmt.Sprintf("[the notebook cannot be parsed, so it is shown as plain text: %v]\n", err)
	}
	text, err := readText(ctx, f, args, success)
	if err != nil {
		return nil, "", nil, file.Explain(path, err)
	}
	return success, text + note, nil, nil
}

// readText returns the text for the model, and fills in success.
func readText(ctx context.Context, f io.ReaderAt, args *agentv1.ReadToolArgs, success *agentv1.ReadSuccess) (string, error) {
	index, err := indexLines(ctx, f)
	if err != nil {
		return "", err
	}
	success.TotalLines = int32(min(index.total, 1<<31-1))
	if index.total == 0 {
		return "[the file is empty]", nil
	}
	first := int64(1)
	switch offset := int64(args.GetOffset()); {
	case offset > index.total:
		return "", fmt.Errorf("offset %d is beyond the end: the file has %s", offset, plural(int(index.total), "line"))
	case offset > 0:
		first = offset
	case offset < 0:
		first = max(1, index.total+offset+1)
	}
	most := int64(maxReadLines)
	if args.Limit != nil {
		most = min(most, int64(args.GetLimit()))
	}
	lines, cut, crlf, err := index.read(ctx, f, first, most)
	if err != nil {
		return "", err
	}
	last := first + int64(len(lines)) - 1
	success.Ranges = []*agentv1.ReadRange{{StartLine: int32(first), EndLine: int32(last), Contents: strings.Join(lines, "\n") + "\n"}}

	var b strings.Builder
	for i, l := range lines {
		fmt.Fprintf(&b, "%6d|%s\n", first+int64(i), l)
	}
	if cut > 0 {
		fmt.Fprintf(&b, "[%s longer than %d characters truncated]\n", plural(cut, "line"), maxLineRunes)
	}
	if crlf {
		b.WriteString("[lines end in CR LF]\n")
	}
	switch {
	case last < index.total:
		fmt.Fprintf(&b, "[lines %d to %d of %d; continue with offset %d]\n", first, last, index.total, last+1)
	case first > 1:
		fmt.Fprintf(&b, "[lines %d to %d of %d]\n", first, last, index.total)
	}
	return b.String(), nil
}

// lineIndex records how many lines precede each chunk of a file, so that a
// range of a large file can be found without keeping the file in memory.
type lineIndex struct {
	before []int64 // line breaks before chunk i
	total  int64   // total number of lines
}

func indexLines(ctx context.Context, f io.ReaderAt) (lineIndex, error) {
	var x lineIndex
	buf := make([]byte, scanChunk)
	last := byte('\n')
	for at := int64(0); ; {
		if ctx.Err() != nil {
			return x, context.Cause(ctx)
		}
		n, err := f.ReadAt(buf, at)
		if n > 0 {
			x.before = append(x.before, x.total)
			x.total += int64(bytes.Count(buf[:n], []byte{'\n'}))
			last, at = buf[n-1], at+int64(n)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return x, err
		}
	}
	if last != '\n' {
		x.total++
	}
	return x, nil
}

// read returns up to limit lines, starting at first, as valid UTF-8 without line
// ends. It also returns how many of them were truncated, and whether the first
// ended in CR LF.
func (x lineIndex) read(ctx context.Context, f io.ReaderAt, first, limit int64) (lines []string, cut int, crlf bool, err error) {
	chunk := 0
	for chunk+1 < len(x.before) && x.before[chunk+1] < first-1 {
		chunk++
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, int64(chunk)*scanChunk, 1<<62), 64<<10)
	for skip := first - 1 - x.before[chunk]; skip > 0; skip-- {
		if _, err := boundedLine(ctx, in, nil); err != nil {
			return nil, 0, false, err
		}
	}
	raw := make([]byte, 0, 4*maxLineRunes)
	for size := 0; int64(len(lines)) < limit && size < maxReadBytes; {
		var err error
		raw, err = boundedLine(ctx, in, raw[:0])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, false, err
		}
		line, wasCut, cr := showLine(raw, first == 1 && len(lines) == 0)
		if size+len(line) > maxReadBytes && len(lines) > 0 {
			break
		}
		if wasCut {
			cut++
		}
		crlf = crlf || cr && len(lines) == 0
		lines = append(lines, line)
		size += len(line) + 8
	}
	return lines, cut, crlf, nil
}

// showLine returns a line as the model sees it. A byte order mark at the start
// of the file is left out.
func showLine(raw []byte, isFirst bool) (line string, cut, crlf bool) {
	if isFirst {
		raw = bytes.TrimPrefix(raw, []byte("\uFEFF"))
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	raw, crlf = bytes.CutSuffix(raw, []byte("\r"))
	line = valid(string(raw))
	if utf8.RuneCountInString(line) <= maxLineRunes {
		return line, false, crlf
	}
	n := 0
	for i := range line {
		if n == maxLineRunes {
			return line[:i] + "…", true, crlf
		}
		n++
	}
	return line, false, crlf
}

// boundedLine appends the next line with its line end to buf, as far as it
// fits, and skips the rest of the line. It returns io.EOF at the end of the
// input.
func boundedLine(ctx context.Context, in *bufio.Reader, buf []byte) ([]byte, error) {
	for read := false; ; read = true {
		part, err := in.ReadSlice('\n')
		buf = append(buf, part[:min(len(part), cap(buf)-len(buf))]...)
		switch {
		case err == nil:
			return buf, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if ctx.Err() != nil {
				return buf, context.Cause(ctx)
			}
		case errors.Is(err, io.EOF) && (read || len(part) > 0):
			return buf, nil
		default:
			return buf, err
		}
	}
}
