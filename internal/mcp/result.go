package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"aloft/internal/tool"
)

// Content is one piece of what a server answers. One of Text, Data and Link is set.
type Content struct {
	Text      string
	MediaType string // of Data
	Data      []byte // a picture, a sound, or a resource that is no text
	Link      *Resource
	URI       string // where Text or Data is that of a resource
}

// Resource is something that a server has to read.
type Resource struct {
	Server      string  `json:"server"`
	URI         string  `json:"uri"`
	Name        string  `json:"name,omitempty"`
	Title       string  `json:"title,omitempty"`
	Description string  `json:"description,omitempty"`
	MediaType   string  `json:"mediaType,omitempty"`
	SizeBytes   float64 `json:"sizeBytes,omitempty"`
}

// Result is what a server answers to a call.
type Result struct {
	Content    []Content
	Structured json.RawMessage // a JSON object; nil if there is none
	IsError    bool            // the server says that the call failed
}

// pictures are what models take.
var pictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// Tool is [Result.Within] for what nothing shortens after this.
func (r Result) Tool() tool.Result { return r.Within(MaxText) }

// Within makes of a result what the model reads. All of it is the server's, and
// bounded: text beyond most bytes is cut in the middle, and pictures that are too
// large or of another kind are named and not shown.
func (r Result) Within(most int) tool.Result {
	var text strings.Builder
	out := tool.Result{Error: r.IsError}
	said := false
	for _, c := range r.Content {
		text.WriteString(c.words(&out))
		said = said || c.Text != ""
	}
	if !said && len(r.Structured) > 0 { // what has both says the same twice
		text.WriteString(compact(r.Structured) + "\n")
	}
	out.Text = middle(strings.TrimSpace(cleanText(text.String(), 1<<30)), most)
	if out.Text == "" {
		out.Text = map[bool]string{true: "The server says that the call failed, and not why.", false: "(the server answered nothing)"}[r.IsError]
		if len(out.Images) > 0 {
			out.Text = fmt.Sprintf("%d pictures", len(out.Images))
		}
	}
	return out
}

// words are what stands for a piece in the text; a picture goes into out.
func (c Content) words(out *tool.Result) string {
	switch {
	case c.Link != nil:
		return fmt.Sprintf("[resource %s of the server %s: FetchMcpResource reads it] %s\n", clean(c.Link.URI, 500), c.Link.Server, clean(c.Link.Title+" "+c.Link.Description, 500))
	case c.Data == nil:
		head := ""
		if c.URI != "" {
			head = fmt.Sprintf("[resource %s]\n", clean(c.URI, 500))
		}
		return head + c.Text + "\n"
	case !slices.Contains(pictures, c.MediaType):
		return fmt.Sprintf("[%s, %d bytes, not shown]\n", clean(c.MediaType, 80), len(c.Data))
	case len(c.Data) > MaxImage || len(out.Images) == MaxImages:
		return fmt.Sprintf("[a picture, %s, %d bytes, not shown: a result shows at most %d, of %d bytes each]\n", c.MediaType, len(c.Data), MaxImages, MaxImage)
	}
	out.Images = append(out.Images, tool.Image{MediaType: c.MediaType, Data: c.Data})
	return ""
}

// middle cuts text in the middle, where least is lost, to about most bytes.
func middle(s string, most int) string {
	if len(s) <= most {
		return s
	}
	head := strings.ToValidUTF8(s[:most*3/4], "")
	tail := strings.ToValidUTF8(s[len(s)-most/4:], "")
	return fmt.Sprintf("%s\n… %d bytes of the server's answer are not shown …\n%s", head, len(s)-len(head)-len(tail), tail)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return b.String()
}

// TellResources is what a model is told of resources: each on a line of JSON.
func TellResources(all []Resource) string {
	if len(all) == 0 {
		return "There are no resources."
	}
	var b bytes.Buffer
	b.WriteString("Written by the servers; FetchMcpResource reads one.\n")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for _, r := range all {
		r.URI, r.Name, r.Title, r.Description = clean(r.URI, 2000), clean(r.Name, 200), clean(r.Title, 200), clean(r.Description, 500)
		if err := e.Encode(r); err != nil {
			panic(err) // text and numbers
		}
	}
	return strings.TrimSpace(b.String())
}
