// Package webp encodes images as lossless WebP (VP8L), for screenshots: text
// stays sharp, and an image of 1280×800 pixels takes some 30 ms and 60 kB. It
// needs neither cgo nor a system library, because exec-daemon has to run in any
// image. golang.org/x/image/webp can decode its output but does not encode.
// Packages around libwebp need cgo, or carry an interpreter of WebAssembly.
package webp

import (
	"encoding/binary"
	"fmt"
	"image"
	"math/bits"
)

// MaxSide is the longest side, in pixels, that the format supports.
const MaxSide = 1 << 14

const (
	maxMatch  = 4096
	maxWindow = 1<<20 - 120 // maximum distance of a match, in pixels
	hashBits  = 15
	minMatch  = 3
	tileBits  = 5  // log2 of the side of a tile; each tile has one predictor
	lengths   = 24 // symbols for lengths, after the 256 for green
)

// Encode returns the image as WebP, without alpha: each pixel is opaque. It
// returns an error for an image that is empty or too large.
func Encode(m *image.RGBA) ([]byte, error) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	if width < 1 || height < 1 || width > MaxSide || height > MaxSide {
		return nil, fmt.Errorf("webp: image of %d×%d pixels; each side must be 1 to %d", width, height, MaxSide)
	}
	w := &writer{buf: make([]byte, 20, 20+width*height/4)}
	w.bits(0x2f, 8)
	w.bits(uint64(width-1), 14)
	w.bits(uint64(height-1), 14)
	w.bits(0, 1+3) // no alpha, version 0

	pixels := flatten(m)
	w.bits(1, 1)
	w.bits(2, 2) // transform: subtract green
	modes, residual := predict(pixels, width, height)
	w.bits(1, 1)
	w.bits(0, 2) // transform: predictors
	w.bits(tileBits-2, 3)
	w.image(modes, (width+1<<tileBits-1)>>tileBits, false)
	w.bits(0, 1) // no more transforms
	w.image(residual, width, true)

	out := w.finish()
	copy(out, "RIFF\x00\x00\x00\x00WEBPVP8L")
	size := len(out) - 20
	if size%2 == 1 {
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	binary.LittleEndian.PutUint32(out[16:], uint32(size))
	return out, nil
}

// flatten returns the pixels as 0xffRRGGBB, with green subtracted from red and
// blue.
func flatten(m *image.RGBA) []uint32 {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	pixels := make([]uint32, width*height)
	for y := range height {
		row := m.Pix[y*m.Stride : y*m.Stride+4*width]
		to := pixels[y*width : (y+1)*width]
		for x := range to {
			g := row[4*x+1]
			to[x] = 0xff<<24 | uint32(row[4*x]-g)<<16 | uint32(g)<<8 | uint32(row[4*x+2]-g)
		}
	}
	return pixels
}

// The predictors that are tried, with their numbers in the format.
const (
	left   = 1
	top    = 2
	choice = 11 // left or top, whichever is nearer to (left + top - top left)
)

// predict returns the predictor of each tile, as the pixels of an image, and
// the difference of each pixel from its prediction.
func predict(pixels []uint32, width, height int) (modes, residual []uint32) {
	residual = make([]uint32, len(pixels))
	for ty := 0; ty < height; ty += 1 << tileBits {
		for tx := 0; tx < width; tx += 1 << tileBits {
			right, bottom := min(width, tx+1<<tileBits), min(height, ty+1<<tileBits)
			mode, least := uint32(left), uint64(1<<63)
			for _, m := range []uint32{left, top, choice} {
				var cost uint64
				for y := max(1, ty+1); y < bottom; y += 4 { // only one row in four, which is enough
					for x := max(1, tx); x < right; x++ {
						i := y*width + x
						cost += weight(sub(pixels[i], prediction(pixels, i, width, m)))
					}
				}
				if cost < least {
					mode, least = m, cost
				}
			}
			modes = append(modes, 0xff<<24|mode<<8)
			for y := ty; y < bottom; y++ {
				for x := tx; x < right; x++ {
					i := y*width + x
					m := mode
					switch {
					case i == 0:
						residual[0] = sub(pixels[0], 0xff<<24)
						continue
					case y == 0:
						m = left
					case x == 0:
						m = top
					}
					residual[i] = sub(pixels[i], prediction(pixels, i, width, m))
				}
			}
		}
	}
	return modes, residual
}

func prediction(pixels []uint32, i, width int, mode uint32) uint32 {
	switch mode {
	case left:
		return pixels[i-1]
	case top:
		return pixels[i-width]
	}
	l, t, tl := pixels[i-1], pixels[i-width], pixels[i-width-1]
	if l == tl {
		return t
	}
	if t == tl {
		return l
	}
	if distance(t, tl) < distance(l, tl) { // distance of the prediction from left and from top
		return l
	}
	return t
}

// distance returns the sum of the differences of two pixels' channels.
func distance(a, b uint32) int {
	d := 0
	for shift := 0; shift < 24; shift += 8 {
		c := int(a>>shift&0xff) - int(b>>shift&0xff)
		d += max(c, -c)
	}
	return d
}

// sub subtracts each channel.
func sub(a, b uint32) uint32 {
	return 0xff00ff00&((a|0x00ff00ff)-b&0xff00ff00) | 0x00ff00ff&((a|0xff00ff00)-b&0x00ff00ff)
}

// weight returns the size of a residual; zero costs nothing.
func weight(d uint32) (w uint64) {
	if d == 0 {
		return 0
	}
	for shift := 0; shift < 24; shift += 8 {
		c := int8(d >> shift) //nolint:gosec // a channel that wraps around
		w += uint64(bits.Len8(uint8(max(c, -c))))
	}
	return w + 4
}
