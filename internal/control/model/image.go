package model

import (
	"context"
	"math"
	"net/http"
	"slices"

	"aloft/internal/conversation"
	"aloft/internal/fault"
)

// MaxImage is the largest generated image that is accepted, in bytes.
const MaxImage = 16 << 20

// An ImageModel generates images. Its methods are safe for concurrent use.
type ImageModel interface {
	// Generate requests one image. Errors of the provider are of type *[Error].
	// Generate does not retry. The usage is zero if the provider does not
	// report it.
	Generate(ctx context.Context, req ImageRequest) (data []byte, used conversation.Usage, err error)
}

// ImageRequest is a request for one image.
type ImageRequest struct {
	Description string
	References  []conversation.Image // images to start from; may be empty
}

// ImageInfo describes a configured model for images.
type ImageInfo struct {
	Name     string
	Price    *Price   // price of tokens; nil if unknown
	PerImage *float64 // US dollars for each image; nil if the price is by tokens or unknown
}

// Of returns the usage for one image, with its cost.
func (i ImageInfo) Of(u conversation.Usage) conversation.Usage {
	if i.PerImage == nil {
		return i.Price.Of(u)
	}
	u.Cost += int64(math.Round(*i.PerImage * 1e9))
	u.Priced = u.Total()
	return u
}

// Unpriced returns nil if the price of an image is known, and otherwise the
// fault that a cost limit is not possible.
func (i ImageInfo) Unpriced() error {
	if i.PerImage != nil || i.Price != nil && i.Price.Input != nil && i.Price.Output != nil {
		return nil
	}
	return fault.Invalid("the run has a cost limit, and the price of the image model %s is not known", i.Name).Named("model_unpriced").
		Hint("set image_model.price in the server's configuration")
}

// CheckImage returns an error if data is not an image of a format that models
// and browsers show, or is too large.
func CheckImage(data []byte) error {
	switch kind := http.DetectContentType(data); {
	case len(data) > MaxImage:
		return &Error{Reason: BadReply, Message: "the image has more than 16 MiB"}
	case !slices.Contains([]string{"image/png", "image/jpeg", "image/webp"}, kind):
		return &Error{Reason: BadReply, Message: "the reply has " + kind + " instead of an image"}
	}
	return nil
}
