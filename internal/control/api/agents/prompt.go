package agents

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"aloft/internal/control/agents"
	"aloft/internal/fault"
)

// maxImage is the maximum size of one image, decoded, in bytes.
const maxImage = 15 << 20

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

// prompt decodes and validates a prompt.
func (p *promptJSON) prompt() (agents.Prompt, error) {
	if p == nil {
		return agents.Prompt{}, fault.Invalid("is required").At("prompt")
	}
	out := agents.Prompt{Text: p.Text, Images: make([]agents.Image, len(p.Images))}
	if err := out.Check(); err != nil {
		return out, err // checked before images are decoded
	}
	for i, im := range p.Images {
		var err error
		if out.Images[i], err = im.decode(fmt.Sprintf("prompt.images[%d]", i)); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (im imageJSON) decode(field string) (agents.Image, error) {
	if im.URL != nil {
		if im.Data != nil || im.MimeType != nil {
			return agents.Image{}, fault.Invalid("has both url and data; give only one").At(field)
		}
		return agents.Image{URL: im.URL}, nil
	}
	if d := im.Dimension; d != nil && (d.Width < 1 || d.Height < 1) {
		return agents.Image{}, fault.Invalid("width and height must be at least 1").At(field + ".dimension")
	}
	if im.Data == nil || *im.Data == "" {
		return agents.Image{}, fault.Invalid("is required").At(field + ".data")
	}
	if im.MimeType == nil || *im.MimeType == "" {
		return agents.Image{}, fault.Invalid("is required").At(field + ".mimeType")
	}
	media := *im.MimeType
	switch media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return agents.Image{}, fault.Invalid("is %s; must be image/png, image/jpeg, image/gif or image/webp", fault.Quoted(media)).At(field + ".mimeType")
	}
	if len(*im.Data) > base64.StdEncoding.EncodedLen(maxImage) {
		return agents.Image{}, fault.Invalid("is larger than %d MiB", maxImage>>20).Hint("scale the image down").At(field + ".data")
	}
	data, err := base64.StdEncoding.DecodeString(*im.Data)
	if err != nil {
		return agents.Image{}, fault.Invalid("is not base64: %v", err).At(field + ".data")
	}
	if is := http.DetectContentType(data); is != media {
		return agents.Image{}, fault.Invalid("is declared as %s, but its bytes are %s", media, is).At(field + ".data")
	}
	return agents.Image{MediaType: media, Data: data}, nil
}
