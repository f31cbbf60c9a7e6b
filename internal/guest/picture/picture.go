// Package picture converts images to a supported format and a size that models accept:
// at most the size at which models look. It returns WebP unchanged. It reads no files.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // registers its decoder
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

const (
	// MaxSide is the longest side, in pixels, at which models see an image
	// unchanged. Providers scale larger images down and charge for the full
	// size.
	MaxSide = 1568
	// MaxBytes is the largest image, in bytes, that can be sent to a model.
	MaxBytes = 5 << 20
	// MaxFile is the largest image file, in bytes, that can be scaled down.
	MaxFile = 64 << 20
	// maxPixels limits the memory for decoding: four bytes per pixel.
	maxPixels = 40 << 20
	quality   = 85 // JPEG quality
)

// ErrTooLarge is wrapped by errors for an image that is too large to be scaled
// down here.
var ErrTooLarge = errors.New("the image is too large")

// Fitted is an image that a model accepts.
type Fitted struct {
	Data          []byte
	MediaType     string
	Width, Height int  // of the original, in pixels; 0 if unknown
	Scaled        bool // it was scaled down
}

// Fit scales an image down if it is too large. mediaType is the type detected from its
// first bytes. If Fit cannot decode a small image, it returns the image unchanged,
// because the model may be able to decode it.
func Fit(data []byte, mediaType string) (Fitted, error) {
	as := Fitted{Data: data, MediaType: mediaType}
	conf, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || mediaType == "image/webp" {
		if len(data) > MaxBytes {
			return as, fmt.Errorf("%w: it has %d bytes, and at most %d can be shown", ErrTooLarge, len(data), MaxBytes)
		}
		return as, nil
	}
	as.Width, as.Height = conf.Width, conf.Height
	long := max(conf.Width, conf.Height)
	if long <= MaxSide && len(data) <= MaxBytes {
		return as, nil
	}
	if conf.Width <= 0 || conf.Height <= 0 || conf.Height > maxPixels/conf.Width {
		return as, fmt.Errorf("%w: it has %d×%d pixels", ErrTooLarge, conf.Width, conf.Height)
	}
	from, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return as, fmt.Errorf("cannot decode the image: %w", err)
	}
	as.Scaled = long > MaxSide
	if as.Scaled {
		width, height := scaled(conf.Width, conf.Height)
		to := image.NewNRGBA(image.Rect(0, 0, width, height))
		draw.ApproxBiLinear.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
		from = to
	}
	if mediaType != "image/jpeg" {
		var b bytes.Buffer
		if err := png.Encode(&b, from); err != nil {
			return as, fmt.Errorf("encode the image: %w", err)
		}
		if b.Len() <= MaxBytes {
			as.Data, as.MediaType = b.Bytes(), "image/png"
			return as, nil
		}
	}
	// JPEG does not support transparency: use a white background.
	flat := image.NewRGBA(image.Rect(0, 0, from.Bounds().Dx(), from.Bounds().Dy()))
	draw.Draw(flat, flat.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), from, from.Bounds().Min, draw.Over)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, flat, &jpeg.Options{Quality: quality}); err != nil {
		return as, fmt.Errorf("encode the image: %w", err)
	}
	as.Data, as.MediaType = b.Bytes(), "image/jpeg"
	return as, nil
}

// scaled returns the size of an image after scaling its longer side to at most
// MaxSide.
func scaled(width, height int) (int, int) {
	long := max(width, height)
	if long <= MaxSide {
		return width, height
	}
	return max(1, width*MaxSide/long), max(1, height*MaxSide/long)
}
