package screen

import (
	"fmt"
	"image"
)

// The maximum size of a screenshot.
const (
	pictureWidth  = 1280
	pictureHeight = 800
)

// Point is a position, in pixels from the upper left.
type Point struct{ X, Y int }

// A Scaler converts between pixels of a display and of its screenshot.
type Scaler struct {
	Width, Height               int // of the screenshot
	displayWidth, displayHeight int
}

// Fit returns the scaler for a display. The screenshot has the display's aspect
// ratio, and is as large as possible within 1280×800 and the display's size.
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

// rounded returns a/b, rounded half up; both are positive.
func rounded(a, b int) int { return (2*a + b) / (2 * b) }

// Check returns an error if a point is outside the screenshot.
func (s Scaler) Check(p Point) error {
	if p.X < 0 || p.Y < 0 || p.X >= s.Width || p.Y >= s.Height {
		return fmt.Errorf("the coordinate %d,%d is outside the screen, which extends from 0,0 to %d,%d", p.X, p.Y, s.Width-1, s.Height-1)
	}
	return nil
}

// ToDisplay converts a point in the screenshot to one on the display.
func (s Scaler) ToDisplay(p Point) Point {
	return Point{min(s.displayWidth-1, rounded(p.X*s.displayWidth, s.Width)), min(s.displayHeight-1, rounded(p.Y*s.displayHeight, s.Height))}
}

// ToPicture converts a point on the display to one in the screenshot.
func (s Scaler) ToPicture(p Point) Point {
	return Point{min(s.Width-1, rounded(p.X*s.Width, s.displayWidth)), min(s.Height-1, rounded(p.Y*s.Height, s.displayHeight))}
}

// scale shrinks an image: each pixel is the mean of those that it covers,
// weighted by the covered area.
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

// A span is the range of pixels that one pixel of the smaller image covers.
type span struct {
	first   int
	weights []int
}

// covered returns the spans for shrinking from pixels to n, in units of 1/n of
// a pixel.
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

// scaleByHalves is a faster scale for the ratio 3:2, as from 1920×1200 to
// 1280×800: it turns three by three pixels into two by two.
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
