package agents

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"aloft/internal/control/api/rest"
	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// Limits of a prompt.
const (
	maxPrompt = 1 << 20  // bytes of text
	maxImage  = 15 << 20 // bytes of one image, decoded
	maxImages = 5
)

type promptJSON struct {
	_      struct{}    `json:"-" additionalProperties:"true"`
	Text   string      `json:"text" minLength:"1" doc:"what to do; at most 1 MiB"`
	Images []imageJSON `json:"images,omitempty" maxItems:"5" nullable:"false"`
}

type imageJSON struct {
	_         struct{}            `json:"-" additionalProperties:"true"`
	Data      *string             `json:"data,omitempty" minLength:"1" doc:"the image in base64; at most 15 MiB"`
	URL       *string             `json:"url,omitempty" format:"uri" doc:"URL that the server fetches, instead of data and mimeType"`
	MimeType  *string             `json:"mimeType,omitempty" minLength:"1" doc:"image/png, image/jpeg, image/gif or image/webp"`
	Dimension *imageDimensionJSON `json:"dimension,omitempty"`
}

type imageDimensionJSON struct {
	_      struct{} `json:"-" additionalProperties:"true"`
	Width  int      `json:"width" minimum:"1"`
	Height int      `json:"height" minimum:"1"`
}

// message validates a prompt and returns it in the journal's form. Images by
// URL are empty until [server.fetchImages] fetches them.
func (p *promptJSON) message() (conversation.Message, error) {
	none := conversation.Message{}
	switch {
	case p == nil:
		return none, fault.Invalid("is required").At("prompt")
	case strings.TrimSpace(p.Text) == "":
		return none, fault.Invalid("is required and must not be blank").At("prompt.text")
	case len(p.Text) > maxPrompt:
		return none, fault.Invalid("has %d bytes; the limit is %d", len(p.Text), maxPrompt).
			Hint("put long text in a file in the repository and mention the file").At("prompt.text")
	case len(p.Images) > maxImages:
		return none, fault.Invalid("has %d images; the limit is %d", len(p.Images), maxImages).At("prompt.images")
	}
	m := conversation.Text(conversation.User, p.Text)
	for i, im := range p.Images {
		block, err := im.decode(fmt.Sprintf("prompt.images[%d]", i))
		if err != nil {
			return none, err
		}
		m.Blocks = append(m.Blocks, conversation.Block{Image: block})
	}
	return m, nil
}

func (im imageJSON) decode(field string) (*conversation.Image, error) {
	if im.URL != nil {
		if im.Data != nil || im.MimeType != nil {
			return nil, fault.Invalid("has both url and data; give only one").At(field)
		}
		return &conversation.Image{}, nil // fetched later
	}
	if d := im.Dimension; d != nil && (d.Width < 1 || d.Height < 1) {
		return nil, fault.Invalid("width and height must be at least 1").At(field + ".dimension")
	}
	if im.Data == nil || *im.Data == "" {
		return nil, fault.Invalid("is required").At(field + ".data")
	}
	if im.MimeType == nil || *im.MimeType == "" {
		return nil, fault.Invalid("is required").At(field + ".mimeType")
	}
	media := *im.MimeType
	switch media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fault.Invalid("is %s; must be image/png, image/jpeg, image/gif or image/webp", rest.Quoted(media)).At(field + ".mimeType")
	}
	if len(*im.Data) > base64.StdEncoding.EncodedLen(maxImage) {
		return nil, fault.Invalid("is larger than %d MiB", maxImage>>20).Hint("scale the image down").At(field + ".data")
	}
	data, err := base64.StdEncoding.DecodeString(*im.Data)
	if err != nil {
		return nil, fault.Invalid("is not base64: %v", err).At(field + ".data")
	}
	if is := http.DetectContentType(data); is != media {
		return nil, fault.Invalid("is declared as %s, but its bytes are %s", media, is).At(field + ".data")
	}
	return &conversation.Image{MediaType: media, Data: data}, nil
}

// fetchImages returns the message with the images filled in that the prompt
// names by URL.
func (s *API) fetchImages(ctx context.Context, p *promptJSON, m conversation.Message) (conversation.Message, error) {
	m.Blocks = slices.Clone(m.Blocks)
	for i, im := range p.Images {
		if im.URL == nil {
			continue
		}
		field := fmt.Sprintf("prompt.images[%d].url", i)
		data, media, err := s.Outbound.Image(ctx, *im.URL)
		if err != nil {
			return m, fault.Of(err).At(field)
		}
		m.Blocks[i+1].Image = &conversation.Image{MediaType: media, Data: data} // block 0 is the text
	}
	return m, nil
}
