package mcp

import (
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"aloft/internal/mcp"
)

// maxContents limits the number of content blocks in a result.
const maxContents = 1000

func resultOf(server string, r *sdk.CallToolResult) mcp.Result {
	out := mcp.Result{IsError: r.IsError}
	for _, c := range r.Content[:min(len(r.Content), maxContents)] {
		switch c := c.(type) {
		case *sdk.TextContent:
			out.Content = append(out.Content, mcp.Content{Text: c.Text})
		case *sdk.ImageContent:
			out.Content = append(out.Content, mcp.Content{MediaType: c.MIMEType, Data: bytesOf(c.Data)})
		case *sdk.AudioContent:
			out.Content = append(out.Content, mcp.Content{MediaType: c.MIMEType, Data: bytesOf(c.Data)})
		case *sdk.EmbeddedResource:
			out.Content = append(out.Content, contentsOf(c.Resource)...)
		case *sdk.ResourceLink:
			link := mcp.Resource{Server: server, URI: c.URI, Name: c.Name, Title: c.Title, Description: c.Description, MediaType: c.MIMEType}
			out.Content = append(out.Content, mcp.Content{Link: &link})
		}
	}
	if r.StructuredContent != nil {
		if text, err := json.Marshal(r.StructuredContent); err == nil && len(text) > 0 && text[0] == '{' {
			out.Structured = text
		}
	}
	return out
}

func contentsOf(c *sdk.ResourceContents) []mcp.Content {
	switch {
	case c == nil:
		return nil
	case c.Blob != nil:
		return []mcp.Content{{URI: c.URI, MediaType: c.MIMEType, Data: bytesOf(c.Blob)}}
	}
	return []mcp.Content{{URI: c.URI, MediaType: c.MIMEType, Text: c.Text}}
}

// bytesOf never returns nil, so that an empty image stays an image.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func resourceOf(server string, r *sdk.Resource) mcp.Resource {
	return mcp.Resource{
		Server: server, URI: mcp.Clean(r.URI, 2000), Name: mcp.Clean(r.Name, 200), Title: mcp.Clean(r.Title, 200), Description: mcp.Clean(r.Description, 500),
		MediaType: mcp.Clean(r.MIMEType, 80), SizeBytes: float64(r.Size),
	}
}
