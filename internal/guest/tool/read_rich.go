package tool

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"aloft/internal/guest/file"
	"aloft/internal/guest/notebook"
	"aloft/internal/guest/pdf"
	"aloft/internal/guest/picture"
	"aloft/internal/guest/video"
	"aloft/internal/wire/agentv1"
)

const (
	pdfType       = "application/pdf"
	notebookType  = "application/x-ipynb+json"
	maxPDFPages   = 50 // the most pages whose text is read at once
	maxPagesDrawn = 3
	maxPictures   = 5      // the most images in one result, the control plane's limit
	maxOutputText = 4000   // the longest output of a notebook cell, in bytes
	maxCells      = 10_000 // the most cells of a notebook
)

// readImage shows an image, scaled down if it is large.
func readImage(path string, f *os.File, size int64, kind string) (*agentv1.Picture, string, error) {
	if size > picture.MaxFile {
		return nil, "", fmt.Errorf("the image %s has %d bytes, and at most %d can be shown: make it smaller first", path, size, picture.MaxFile)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, picture.MaxFile))
	if err != nil {
		return nil, "", file.Explain(path, err)
	}
	fitted, err := picture.Fit(data, kind)
	if err != nil {
		return nil, "", fmt.Errorf("the image %s (%s) cannot be shown: %w; make it smaller first", path, kind, err)
	}
	text := fmt.Sprintf("[%s, %d bytes", kind, size)
	if fitted.Width > 0 {
		text += fmt.Sprintf(", %d×%d pixels", fitted.Width, fitted.Height)
	}
	if fitted.Scaled {
		text += fmt.Sprintf("; shown with its longer side as %d", picture.MaxSide)
	}
	return &agentv1.Picture{MediaType: fitted.MediaType, Data: fitted.Data}, text + "]", nil
}

// videoKind returns the media type of a file. net/http does not detect every video. A
// file that starts like an MP4 may also be an image, so the file name decides.
func videoKind(path, kind string, start []byte) string {
	if kind == "application/octet-stream" && len(start) > 12 && string(start[4:8]) == "ftyp" {
		switch strings.ToLower(filepath.Ext(path)) {
		case ".mp4", ".m4v":
			return "video/mp4"
		case ".mov":
			return "video/quicktime"
		}
	}
	return kind
}

// readVideo shows a few frames, spread evenly over the video or over the
// requested range of seconds.
func readVideo(ctx context.Context, path string, args *agentv1.ReadToolArgs, success *agentv1.ReadSuccess) (string, []*agentv1.Picture, error) {
	if args.GetOffset() < 0 {
		return "", nil, fmt.Errorf("offset is %d: for a video give seconds from its start, at least 0", args.GetOffset())
	}
	from := time.Duration(args.GetOffset()) * time.Second
	to := from + time.Duration(args.GetLimit())*time.Second
	if args.Limit == nil {
		to = 0
	}
	frames, info, err := video.Look(ctx, path, success.GetMediaType(), from, to, maxPictures)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	var times []string
	var pictures []*agentv1.Picture
	for _, f := range frames {
		times = append(times, seconds(f.At))
		pictures = append(pictures, &agentv1.Picture{MediaType: "image/jpeg", Data: f.Data})
	}
	success.TotalLines = clampInt32(int(math.Ceil(info.Length.Seconds())))
	return fmt.Sprintf("[%s, %s long, %d×%d pixels; %s of it, at %s. To see more of a part read it with offset and limit, in seconds]",
		success.GetMediaType(), seconds(info.Length), info.Width, info.Height, plural(len(pictures), "picture"), strings.Join(times, ", ")), pictures, nil
}

// count returns a range of pages or cells, computed from offset and limit as
// for lines.
func count(args *agentv1.ReadToolArgs, total, most int, what string) (first, last int, err error) {
	first = 1
	switch offset := int(args.GetOffset()); {
	case offset > total:
		return 0, 0, fmt.Errorf("offset %d is beyond the end: there are %s", offset, plural(total, what))
	case offset > 0:
		first = offset
	case offset < 0:
		first = max(1, total+offset+1)
	}
	if args.Limit != nil {
		most = min(most, int(args.GetLimit()))
	}
	return first, min(total, first+most-1), nil
}

func readPDF(ctx context.Context, ws Workspace, path string, f *os.File, args *agentv1.ReadToolArgs, success *agentv1.ReadSuccess) (string, []*agentv1.Picture, error) {
	_, total, err := ws.pdf().Text(ctx, f, 1, 0)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	success.TotalLines, success.MediaType = int32(total), pdfType
	first, last, err := count(args, total, maxPDFPages, "page")
	if err != nil {
		return "", nil, err
	}
	pages, _, err := ws.pdf().Text(ctx, f, first, last-first+1)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	var b strings.Builder
	next := first
	for _, page := range pages {
		text := strings.TrimSpace(page.Text)
		if text == "" {
			text = "[no text on this page]"
		}
		if b.Len()+len(text) > maxReadBytes && next > first {
			break
		}
		text = clipBytes(text, maxReadBytes)
		fmt.Fprintf(&b, "[page %d]\n%s\n", next, text)
		success.Ranges = append(success.Ranges, &agentv1.ReadRange{StartLine: int32(next), EndLine: int32(next), Contents: valid(text)})
		next++
	}
	if next <= total {
		fmt.Fprintf(&b, "[pages %d to %d of %d; continue with offset %d]\n", first, next-1, total, next)
	}
	pictures, note := drawPages(ctx, path, first, min(next-1, first+maxPagesDrawn-1))
	return valid(b.String() + note), pictures, nil
}

// drawPages renders pages as images. If it cannot, the text says why.
func drawPages(ctx context.Context, path string, first, last int) ([]*agentv1.Picture, string) {
	if last < first {
		return nil, ""
	}
	drawn, err := pdf.Pictures(ctx, path, first, last)
	if err != nil {
		return nil, fmt.Sprintf("[the pages cannot be shown as images: %v]\n", err)
	}
	var pictures []*agentv1.Picture
	for _, data := range drawn {
		if len(data) <= picture.MaxBytes {
			pictures = append(pictures, &agentv1.Picture{MediaType: "image/jpeg", Data: data})
		}
	}
	return pictures, fmt.Sprintf("[%s shown as images, from page %d]\n", plural(len(pictures), "page"), first)
}

func readNotebook(path string, f *os.File, args *agentv1.ReadToolArgs, success *agentv1.ReadSuccess) (string, []*agentv1.Picture, error) {
	data, err := io.ReadAll(io.NewSectionReader(f, 0, file.MaxBytes))
	if err != nil {
		return "", nil, file.Explain(path, err)
	}
	n, err := notebook.Parse(data)
	if err != nil {
		return "", nil, err
	}
	success.TotalLines, success.MediaType = int32(len(n.Cells)), notebookType
	if len(n.Cells) == 0 {
		return "[the notebook has no cells]", nil, nil
	}
	first, last, err := count(args, len(n.Cells), maxCells, "cell")
	if err != nil {
		return "", nil, fmt.Errorf("%w (offset counts cells from 1)", err)
	}
	var b strings.Builder
	var pictures []*agentv1.Picture
	next := first
	for ; next <= last; next++ {
		cell := n.Cells[next-1]
		text, shown := cellText(next-1, cell, maxPictures-len(pictures))
		if b.Len()+len(text) > maxReadBytes && next > first {
			break
		}
		b.WriteString(clipBytes(text, maxReadBytes))
		pictures = append(pictures, shown...)
		success.Ranges = append(success.Ranges, &agentv1.ReadRange{StartLine: int32(next), EndLine: int32(next), Contents: valid(clipBytes(cell.Source, maxReadBytes))})
	}
	if next <= len(n.Cells) {
		fmt.Fprintf(&b, "[%s; continue with offset %d, which is cell_idx %d]\n", plural(len(n.Cells), "cell"), next, next-1)
	}
	return valid(b.String()), pictures, nil
}

// cellText returns a cell as text for the model, with up to room of the cell's images.
func cellText(index int, c notebook.Cell, room int) (string, []*agentv1.Picture) {
	var b strings.Builder
	var pictures []*agentv1.Picture
	kind := c.Kind
	if c.Language != "" {
		kind += ", " + c.Language
	}
	fmt.Fprintf(&b, "[cell %d, %s]\n%s\n", index, kind, strings.TrimSuffix(c.Source, "\n"))
	for _, o := range c.Outputs {
		head := "output"
		if o.Error {
			head = "error"
		}
		if o.Image != nil {
			head = "output, " + o.Type
			if fitted, err := picture.Fit(o.Image, o.Type); err == nil && len(pictures) < room {
				pictures = append(pictures, &agentv1.Picture{MediaType: fitted.MediaType, Data: fitted.Data})
			} else {
				head += " (not shown)"
			}
		}
		fmt.Fprintf(&b, "[%s of cell %d]\n", head, index)
		if text := strings.TrimSuffix(o.Text, "\n"); text != "" {
			b.WriteString(clipBytes(text, maxOutputText) + "\n")
		}
	}
	return b.String(), pictures
}

// clipBytes returns at most about n bytes of text, with a mark if text was longer.
func clipBytes(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + fmt.Sprintf("\n[… %d bytes left out …]", len(text)-n)
}
