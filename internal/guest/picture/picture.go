// Package picture makes pictures fit for a model: not larger than what models
// look at, in a format that they take. WebP is passed on as it is. It draws
// nothing and reads no file.
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
	// MaxSide is the longest side, in pixels, that models look at as it is; they
	// make larger pictures smaller by themselves, and charge for them.
	MaxSide = 1568
	// MaxBytes is how long a picture may be to be sent.
	MaxBytes = 5 << 20
	// MaxFile is how long a picture may be to be made smaller.
	MaxFile = 64 << 20
	// maxPixels bounds the memory that decoding takes: four bytes each.
	maxPixels = 40 << 20
	quality   = 85 // of a JPEG
)

// ErrTooLarge is wrapped by the error for a picture that cannot be made smaller
// here.
var ErrTooLarge = errors.New("the picture is too large")

// Fitted is a picture that a model takes.
type Fitted struct {
	Data          []byte
	MediaType     string
	Width, Height int  // of the original, in pixels; 0 if not known
	Scaled        bool // it is smaller than the original
}

// Fit makes a picture smaller if it is too large. mediaType is what its first
// bytes say. A picture that cannot be decoded, but is short, is passed on: the
// model may know better.
func Fit(data []byte, mediaType string) (Fitted, error) {
	as := Fitted{Data: data, MediaType: mediaType}
	conf, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || mediaType == "image/webp" {
		if len(data) > MaxBytes {
			return as, fmt.Errorf("%w: it has %d bytes, and %d can be shown", ErrTooLarge, len(data), MaxBytes)
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
		return as, fmt.Errorf("the picture cannot be decoded: %w", err)
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
			return as, fmt.Errorf("encode the picture: %w", err)
		}
		if b.Len() <= MaxBytes {
			as.Data, as.MediaType = b.Bytes(), "image/png"
			return as, nil
		}
	}
	// A JPEG has no transparency: what shows through is white.
	flat := image.NewRGBA(image.Rect(0, 0, from.Bounds().Dx(), from.Bounds().Dy()))
	draw.Draw(flat, flat.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(flat, flat.Bounds(), from, from.Bounds().Min, draw.Over)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, flat, &jpeg.Options{Quality: quality}); err != nil {
		return as, fmt.Errorf("encode the picture: %w", err)
	}
	as.Data, as.MediaType = b.Bytes(), "image/jpeg"
	return as, nil
}

// scaled are the sides of a picture whose longer one is at most MaxSide.
func scaled(width, height int) (int, int) {
	long := max(width, height)
	if long <= MaxSide {
		return width, height
	}
	return max(1, width*MaxSide/long), max(1, height*MaxSide/long)
}
