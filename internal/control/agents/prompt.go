package agents

import (
	"context"
	"fmt"
	"strings"

	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// Limits of a prompt.
const (
	maxPrompt = 1 << 20 // bytes of text
	maxImages = 5
)

// A Prompt is what a person asks an agent to do.
type Prompt struct {
	Text   string
	Images []Image
}

// An Image is an image of a prompt: its URL, or its media type and data.
type Image struct {
	URL       *string
	MediaType string
	Data      []byte
}

// An imageCache fetches each image once, for prompts that name the same URL. It is
// not safe for concurrent use.
type imageCache struct {
	Outbound
	found map[string]Image
}

// Image implements [Outbound].
func (c *imageCache) Image(ctx context.Context, rawURL string) (data []byte, media string, err error) {
	if im, ok := c.found[rawURL]; ok {
		return im.Data, im.MediaType, nil
	}
	if data, media, err = c.Outbound.Image(ctx, rawURL); err == nil {
		c.found[rawURL] = Image{MediaType: media, Data: data}
	}
	return data, media, err
}

// Check validates the text and the number of images.
func (p Prompt) Check() error {
	switch {
	case strings.TrimSpace(p.Text) == "":
		return fault.Invalid("is required and must not be blank").At("prompt.text")
	case len(p.Text) > maxPrompt:
		return fault.Invalid("has %d bytes; the limit is %d", len(p.Text), maxPrompt).
			Hint("put long text in a file in the repository and mention the file").At("prompt.text")
	case len(p.Images) > maxImages:
		return fault.Invalid("has %d images; the limit is %d", len(p.Images), maxImages).At("prompt.images")
	}
	return nil
}

// Message validates the prompt and returns it in the journal's form. It does
// not fetch images by URL, but leaves them empty.
func (p Prompt) Message() (conversation.Message, error) {
	if err := p.Check(); err != nil {
		return conversation.Message{}, err
	}
	return p.message(), nil
}

func (p Prompt) message() conversation.Message {
	m := conversation.Text(conversation.User, p.Text)
	for _, im := range p.Images {
		m.Blocks = append(m.Blocks, conversation.Block{Image: &conversation.Image{MediaType: im.MediaType, Data: im.Data}})
	}
	return m
}

// Fetch returns the prompt in the journal's form. It fetches the images by URL.
func (p Prompt) Fetch(ctx context.Context, from Outbound) (conversation.Message, error) {
	m := p.message()
	for i, im := range p.Images {
		if im.URL == nil {
			continue
		}
		data, media, err := from.Image(ctx, *im.URL)
		if err != nil {
			return m, fault.Of(err).At(fmt.Sprintf("prompt.images[%d].url", i))
		}
		m.Blocks[i+1].Image = &conversation.Image{MediaType: media, Data: data} // block 0 is the text
	}
	return m, nil
}
