package tool

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"aloft/internal/guest/picture"
	"aloft/internal/guest/web"
	"aloft/internal/wire/agentv1"
)

// WebFetch reads a web page as Markdown.
func WebFetch(ws Workspace, client *web.Client) Tool {
	return Tool{Name: "WebFetch", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, pictures, err := webFetch(ctx, ws, client, call.GetWebFetchToolCall().GetArgs())
		result := &agentv1.WebFetchResult{Result: &agentv1.WebFetchResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.WebFetchResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.WebFetchToolCall{Result: result}
		return Outcome{
			Call:     &agentv1.ToolCall{Tool: &agentv1.ToolCall_WebFetchToolCall{WebFetchToolCall: done}},
			Text:     text,
			Error:    err != nil,
			Failure:  failureOf(err),
			Pictures: pictures,
		}
	}}
}

func webFetch(ctx context.Context, ws Workspace, client *web.Client, args *agentv1.WebFetchArgs) (*agentv1.WebFetchSuccess, string, []*agentv1.Picture, error) {
	if args == nil {
		return nil, "", nil, errNoArguments
	}
	answer, err := get(ctx, client, args.GetUrl(), args.Timeout)
	if err != nil {
		return nil, "", nil, err
	}
	if answer.Status < 200 || answer.Status > 299 {
		return nil, "", nil, fmt.Errorf("%s answered %d %s%s", answer.URL, answer.Status, http.StatusText(answer.Status), said(answer))
	}
	success := &agentv1.WebFetchSuccess{
		Url: valid(answer.URL), ContentType: valid(answer.ContentType), SizeBytes: float64(len(answer.Body)), Truncated: answer.Truncated,
	}
	var pictures []*agentv1.Picture
	note := ""
	switch {
	case len(answer.Body) == 0:
		note = "[no body]"
	case answer.IsHTML():
		page, err := answer.Page()
		if err != nil {
			return nil, "", nil, err
		}
		success.Title, success.Markdown = page.Title, page.Markdown
		if page.Markdown == "" {
			note = "[the page has no text: it may be made by scripts, which are not run]"
		}
	case answer.IsText():
		success.Markdown = answer.Text()
	case answer.ContentType == pdfType:
		if success.Markdown, err = pdfText(ctx, ws, answer.Body); err != nil {
			return nil, "", nil, fmt.Errorf("%s: %w", answer.URL, err)
		}
	case slices.Contains(imageTypes, answer.ContentType):
		pictures, note = fetchedPicture(answer)
	default:
		return nil, "", nil, fmt.Errorf("%s is %s, %d bytes, which cannot be read as text: download it with curl -o in Shell", answer.URL, answer.ContentType, len(answer.Body))
	}
	text := "[" + answer.URL + "]\n"
	if success.GetTitle() != "" {
		text += "[title: " + success.GetTitle() + "]\n"
	}
	return success, valid(text + "\n" + success.GetMarkdown() + note + moreNote(answer)), pictures, nil
}

// said is the beginning of what a page says that is no success.
func said(answer web.Answer) string {
	text := ""
	switch {
	case answer.IsHTML():
		if page, err := answer.Page(); err == nil {
			text = page.Markdown
		}
	case answer.IsText():
		text = answer.Text()
	}
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ":\n" + clipRunes(text, 1000)
}

// pdfText is the text of a PDF's first pages.
func pdfText(ctx context.Context, ws Workspace, data []byte) (string, error) {
	f, err := os.CreateTemp("", "aloft-*.pdf")
	if err != nil {
		return "", fmt.Errorf("keep the PDF: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return "", fmt.Errorf("keep the PDF: %w", err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return "", fmt.Errorf("keep the PDF: %w", err)
	}
	pages, total, err := ws.pdf().Text(ctx, f, 1, maxPDFPages)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i, page := range pages {
		fmt.Fprintf(&b, "[page %d]\n%s\n", i+1, strings.TrimSpace(page.Text))
	}
	if len(pages) < total {
		fmt.Fprintf(&b, "[%d of %d pages; download it with curl -o in Shell and Read the rest]\n", len(pages), total)
	}
	return b.String(), nil
}

// fetchedPicture shows a picture that was got.
func fetchedPicture(answer web.Answer) ([]*agentv1.Picture, string) {
	fitted, err := picture.Fit(answer.Body, answer.ContentType)
	if err != nil {
		return nil, fmt.Sprintf("[%s, %d bytes, which cannot be shown: %v]", answer.ContentType, len(answer.Body), err)
	}
	return []*agentv1.Picture{{MediaType: fitted.MediaType, Data: fitted.Data}}, fmt.Sprintf("[%s, %d bytes]", answer.ContentType, len(answer.Body))
}
