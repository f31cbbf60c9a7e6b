package screen

import (
	"fmt"
	"image"
)

// The largest picture that a model sees.
const (
	pictureWidth  = 1280
	pictureHeight = 800
)

// Point is a place, in pixels from the left and the top.
type Point struct{ X, Y int }

// A Scaler goes between the pixels of a display and those of its picture.
type Scaler struct {
	Width, Height               int // of the picture
	displayWidth, displayHeight int
}

// Fit returns the scaler for a display: its picture has the same shape, and is as
// large as 1280×800 lets it, but no larger than the display.
func Fit(width, height int) Scaler {
	s := Scaler{Width: width, Height: height, displayWidth: width, displayHeight: height}
	switch {
	case width <= pictureWidth && height <= pictureHeight:
	case width*pictureHeight >= height*pictureWidth:
		s.Width, s.Height = pictureWidth, max(1, rounded(height*pictureWidth, width))
	default:
		s.Width, s.Height = max(1, rounded(width*pictureHeight, height)), pictureHeight
	}
	return s
}

// rounded is a/b, halves rounded up, as both are positive.
func rounded(a, b int) int { return (2*a + b) / (2 * b) }

// Check says what is wrong with a place in the picture.
func (s Scaler) Check(p Point) error {
	if p.X < 0 || p.Y < 0 || p.X >= s.Width || p.Y >= s.Height {
		return fmt.Errorf("the coordinate %d,%d is outside of the screen, which goes from 0,0 to %d,%d", p.X, p.Y, s.Width-1, s.Height-1)
	}
	return nil
}

// ToDisplay is the place on the display of one in the picture.
func (s Scaler) ToDisplay(p Point) Point {
	return Point{min(s.displayWidth-1, rounded(p.X*s.displayWidth, s.Width)), min(s.displayHeight-1, rounded(p.Y*s.displayHeight, s.Height))}
}

// ToPicture is the place in the picture of one on the display.
func (s Scaler) ToPicture(p Point) Point {
	return Point{min(s.Width-1, rounded(p.X*s.Width, s.displayWidth)), min(s.Height-1, rounded(p.Y*s.Height, s.displayHeight))}
}

// scale makes a picture smaller: each pixel is the mean of those that it covers,
// each by how much of it is covered.
func scale(from *image.RGBA, width, height int) *image.RGBA {
	if from.Rect.Dx() == width && from.Rect.Dy() == height {
		return from
	}
	if from.Rect.Dx()*2 == width*3 && from.Rect.Dy()*2 == height*3 {
		return scaleByHalves(from, width, height)
	}
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	columns, rows := covered(from.Rect.Dx(), width), covered(from.Rect.Dy(), height)
	for y, down := range rows {
		out := to.Pix[y*to.Stride:]
		for x, across := range columns {
			var r, g, b, all int
			for j, wy := range down.weights {
				row := from.Pix[(down.first+j)*from.Stride+4*across.first:]
				for i, wx := range across.weights {
					w := wx * wy
					r += w * int(row[4*i])
					g += w * int(row[4*i+1])
					b += w * int(row[4*i+2])
					all += w
				}
			}
			out[4*x], out[4*x+1], out[4*x+2], out[4*x+3] = byte(rounded(r, all)), byte(rounded(g, all)), byte(rounded(b, all)), 0xff
		}
	}
	return to
}

// A span is the pixels that one of a smaller picture covers.
type span struct {
	first   int
	weights []int
}

// covered are the spans of n pixels made of from, in units of 1/n of a pixel.
func covered(from, n int) []span {
	spans := make([]span, n)
	for i := range spans {
		begin, end := i*from, (i+1)*from
		spans[i].first = begin / n
		for at := begin / n; at*n < end; at++ {
			spans[i].weights = append(spans[i].weights, min(end, (at+1)*n)-max(begin, at*n))
		}
	}
	return spans
}

// scaleByHalves is scale for 3:2, which 1920×1200 is to 1280×800: of three by three
// pixels it makes two by two.
func scaleByHalves(from *image.RGBA, width, height int) *image.RGBA {
	to := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := 0; y < height; y += 2 {
		top := from.Pix[y/2*3*from.Stride:]
		middle, bottom := top[from.Stride:], top[2*from.Stride:]
		upper, lower := to.Pix[y*to.Stride:(y+1)*to.Stride], to.Pix[(y+1)*to.Stride:(y+2)*to.Stride]
		for x := 0; x < 4*width; x += 8 {
			t, m, b := top[x/2*3:][:12], middle[x/2*3:][:12], bottom[x/2*3:][:12]
			u, l := upper[x:][:8], lower[x:][:8]
			for c := range 3 {
				m0, m1, m2 := uint32(m[c]), uint32(m[4+c]), uint32(m[8+c])
				t0, t1, t2 := 2*uint32(t[c])+m0, 2*uint32(t[4+c])+m1, 2*uint32(t[8+c])+m2
				b0, b1, b2 := 2*uint32(b[c])+m0, 2*uint32(b[4+c])+m1, 2*uint32(b[8+c])+m2
				u[c], u[4+c] = byte((2*t0+t1+4)/9), byte((t1+2*t2+4)/9)
				l[c], l[4+c] = byte((2*b0+b1+4)/9), byte((b1+2*b2+4)/9)
			}
			u[3], u[7], l[3], l[7] = 0xff, 0xff, 0xff, 0xff
		}
	}
	return to
}
