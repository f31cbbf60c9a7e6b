package tool

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"aloft/internal/guest/web"
	"aloft/internal/wire/agentv1"
)

// maxFetchTime is the longest timeout of Fetch and WebFetch.
const maxFetchTime = 120 * time.Second

// Fetch gets a URL and returns the raw response.
func Fetch(client *web.Client) Tool {
	return Tool{Name: "Fetch", Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		success, text, pictures, err := fetch(ctx, client, call.GetFetchToolCall().GetArgs())
		result := &agentv1.FetchResult{Result: &agentv1.FetchResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.FetchResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.FetchToolCall{Result: result}
		return Outcome{
			Call:     &agentv1.ToolCall{Tool: &agentv1.ToolCall_FetchToolCall{FetchToolCall: done}},
			Text:     text,
			Error:    err != nil,
			Failure:  failureOf(err),
			Pictures: pictures,
		}
	}}
}

func fetch(ctx context.Context, client *web.Client, args *agentv1.FetchArgs) (*agentv1.FetchSuccess, string, []*agentv1.Picture, error) {
	if args == nil {
		return nil, "", nil, errNoArguments
	}
	answer, err := get(ctx, client, args.GetUrl(), args.Timeout)
	if err != nil {
		return nil, "", nil, err
	}
	success := &agentv1.FetchSuccess{
		Url: valid(answer.URL), Status: int32(answer.Status), ContentType: valid(answer.ContentType),
		SizeBytes: float64(len(answer.Body)), Truncated: answer.Truncated, Headers: headers(answer.Header),
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP %d %s\n", answer.Status, http.StatusText(answer.Status))
	if answer.URL != args.GetUrl() {
		fmt.Fprintf(&b, "[from %s]\n", answer.URL)
	}
	for _, h := range success.GetHeaders() {
		fmt.Fprintf(&b, "%s: %s\n", h.GetName(), h.GetValue())
	}
	b.WriteString("\n")
	var pictures []*agentv1.Picture
	switch {
	case len(answer.Body) == 0:
		b.WriteString("[no body]")
	case answer.IsText():
		success.Content = answer.Text()
		b.WriteString(success.GetContent())
	case slices.Contains(imageTypes, answer.ContentType):
		shown, note := fetchedPicture(answer)
		pictures = shown
		b.WriteString(note)
	default:
		fmt.Fprintf(&b, "[%s, %d bytes, not shown because it is not text; download it with curl -o in Shell]", answer.ContentType, len(answer.Body))
	}
	b.WriteString(moreNote(answer))
	return success, valid(b.String()), pictures, nil
}

// get gets a URL within the timeout that the model gave.
func get(ctx context.Context, client *web.Client, url string, timeout *int32) (web.Answer, error) {
	limit := defaultTimeout
	if timeout != nil {
		if *timeout <= 0 {
			return web.Answer{}, fmt.Errorf("timeout is %d: give milliseconds from 1 to %d", *timeout, maxFetchTime.Milliseconds())
		}
		limit = min(maxFetchTime, time.Duration(*timeout)*time.Millisecond)
	}
	ctx, stop := context.WithTimeoutCause(ctx, limit, timeoutError{fmt.Errorf("no complete response within %d ms", limit.Milliseconds())})
	defer stop()
	return client.Get(ctx, url)
}

func moreNote(answer web.Answer) string {
	if !answer.Truncated {
		return ""
	}
	return fmt.Sprintf("\n[truncated after %d bytes; download all of it with curl -o in Shell]", len(answer.Body))
}

// maxHeaders and maxHeaderValue limit how much of a response's headers the result shows.
const (
	maxHeaders     = 40
	maxHeaderValue = 500
)

func headers(all http.Header) []*agentv1.FetchHeader {
	var list []*agentv1.FetchHeader
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(list) == maxHeaders {
			break
		}
		list = append(list, &agentv1.FetchHeader{Name: valid(name), Value: clipRunes(valid(strings.Join(all[name], ", ")), maxHeaderValue)})
	}
	return list
}
