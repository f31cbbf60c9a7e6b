package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/conversation"
	"aloft/internal/tool"
)

// Content is one content block of a server's response. One of Text, Data and
// Link is set.
type Content struct {
	Text      string
	MediaType string // type of Data
	Data      []byte // an image, audio, or a resource that is not text
	Link      *Resource
	URI       string // for Text or Data of a resource: its URI
}

// Resource is a resource that a server offers.
type Resource struct {
	Server      string  `json:"server"`
	URI         string  `json:"uri"`
	Name        string  `json:"name,omitempty"`
	Title       string  `json:"title,omitempty"`
	Description string  `json:"description,omitempty"`
	MediaType   string  `json:"mediaType,omitempty"`
	SizeBytes   float64 `json:"sizeBytes,omitempty"`
}

// Result is a server's response to a call.
type Result struct {
	Content    []Content
	Structured json.RawMessage // a JSON object; nil if there is none
	IsError    bool            // the server reported that the call failed
}

// pictures are the image types that models accept.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Tool calls [Result.Truncate] with the limit MaxText.
func (r Result) Tool() tool.Result { return r.Truncate(MaxText) }

// Truncate converts the result for the model and limits its size. It cuts text longer
// than limit bytes in the middle. It mentions images that are too large or of another
// type, but does not show them.
func (r Result) Truncate(limit int) tool.Result {
	var text strings.Builder
	out := tool.Result{Error: r.IsError}
	said := false
	for _, c := range r.Content {
		text.WriteString(c.text(&out))
		said = said || c.Text != ""
	}
	if !said && len(r.Structured) > 0 { // if there is text, it repeats the structured content
		text.WriteString(compact(r.Structured) + "\n")
	}
	out.Text = middle(strings.TrimSpace(cleanText(text.String(), 1<<30)), limit)
	if out.Text == "" {
		out.Text = map[bool]string{true: "The server reported that the call failed, without a reason.", false: "(the server returned an empty result)"}[r.IsError]
		if len(out.Images) > 0 {
			out.Text = fmt.Sprintf("%d images", len(out.Images))
		}
	}
	return out
}

// text returns the text that represents a block, and adds an image to out.
func (c Content) text(out *tool.Result) string {
	switch {
	case c.Link != nil:
		return fmt.Sprintf("[resource %s of the server %s: read it with FetchMcpResource] %s\n", clean(c.Link.URI, 500), c.Link.Server, clean(c.Link.Title+" "+c.Link.Description, 500))
	case c.Data == nil:
		head := ""
		if c.URI != "" {
			head = fmt.Sprintf("[resource %s]\n", clean(c.URI, 500))
		}
		return head + c.Text + "\n"
	case !slices.Contains(pictures, c.MediaType):
		return fmt.Sprintf("[%s, %d bytes, not shown]\n", clean(c.MediaType, 80), len(c.Data))
	case len(c.Data) > MaxImage || len(out.Images) == MaxImages:
		return fmt.Sprintf("[an image, %s, %d bytes, not shown: a result shows at most %d, of %d bytes each]\n", c.MediaType, len(c.Data), MaxImages, MaxImage)
	}
	out.Images = append(out.Images, conversation.Image{MediaType: c.MediaType, Data: c.Data})
	return ""
}

// middle truncates text in the middle to about limit bytes.
func middle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	head := strings.ToValidUTF8(s[:limit*3/4], "")
	tail := strings.ToValidUTF8(s[len(s)-limit/4:], "")
	return fmt.Sprintf("%s\n… %d bytes of the server's response are left out …\n%s", head, len(s)-len(head)-len(tail), tail)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// TellResources returns the list of resources for the model, one per line as
// JSON.
func TellResources(all []Resource) string {
	if len(all) == 0 {
		return "No resources."
	}
	var b bytes.Buffer
	b.WriteString("Written by the servers. Use FetchMcpResource to read one.\n")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, r := range all {
		r.URI, r.Name, r.Title, r.Description = clean(r.URI, 2000), clean(r.Name, 200), clean(r.Title, 200), clean(r.Description, 500)
		if err := e.Encode(r); err != nil {
			panic(err) // cannot fail for text and numbers
		}
	}
	return strings.TrimSpace(b.String())
}
