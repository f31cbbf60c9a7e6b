package webp_test

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"math/rand/v2"
	"testing"

	decoder "golang.org/x/image/webp"

	"aloft/internal/guest/webp"
)

// draw returns an image whose pixels are the results of at.
func draw(width, height int, at func(x, y int) color.RGBA) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetRGBA(x, y, at(x, y))
		}
	}
	return m
}

// check fails unless another decoder reads the encoded image as the same
// pixels.
func check(t *testing.T, m *image.RGBA) []byte {
	t.Helper()
	data, err := webp.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := decoder.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatalf("a picture of %v: %v", m.Rect, err)
	}
	if got.Bounds().Size() != m.Rect.Size() {
		t.Fatalf("a picture of %v is read as %v", m.Rect.Size(), got.Bounds())
	}
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			want := m.RGBAAt(m.Rect.Min.X+x, m.Rect.Min.Y+y)
			want.A = 0xff
			if c := color.RGBAModel.Convert(got.At(x, y)); c != want {
				t.Fatalf("a picture of %v: the pixel at %d,%d is read as %v, want %v", m.Rect.Size(), x, y, c, want)
			}
		}
	}
	return data
}

func TestEncode(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func() uint8 { return uint8(random.Uint32()) }
	falling := func() (v uint8) { // each value occurs half as often as the previous one, so codes would exceed the format's maximum length
		for random.Uint32()&1 == 0 && v < 60 {
			v++
		}
		return v
	}
	for name, m := range map[string]*image.RGBA{
		"OnePixel":   draw(1, 1, func(int, int) color.RGBA { return color.RGBA{1, 2, 3, 255} }),
		"OneColumn":  draw(1, 77, func(_, y int) color.RGBA { return color.RGBA{uint8(y), 2, 3, 255} }),
		"OneRow":     draw(200, 1, func(x, _ int) color.RGBA { return color.RGBA{uint8(x), 2, 3, 255} }),
		"Flat":       draw(640, 400, func(int, int) color.RGBA { return color.RGBA{0x33, 0x66, 0x99, 255} }),
		"TwoColours": draw(64, 64, func(x, y int) color.RGBA { return color.RGBA{uint8((x ^ y) & 1 * 255), 0, 0, 255} }),
		"Noise":      draw(333, 222, func(int, int) color.RGBA { return color.RGBA{noise(), noise(), noise(), 255} }),
		"Skewed":     draw(1280, 800, func(int, int) color.RGBA { return color.RGBA{falling(), falling(), falling(), 255} }),
		"Waves": draw(400, 300, func(x, y int) color.RGBA {
			return color.RGBA{uint8(128 + 100*math.Sin(float64(x)/17)), uint8(128 + 100*math.Cos(float64(y)/23)), uint8(x + y), 255}
		}),
		"Transparent": draw(40, 30, func(x, _ int) color.RGBA { return color.RGBA{0, 0, 0, uint8(x)} }),
		"PartOfOther": draw(100, 100, func(x, y int) color.RGBA { return color.RGBA{uint8(x), uint8(y), 7, 255} }).SubImage(image.Rect(11, 13, 58, 91)).(*image.RGBA),
	} {
		t.Run(name, func(t *testing.T) { check(t, m) })
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, r := range []image.Rectangle{image.Rect(0, 0, 0, 5), image.Rect(0, 0, webp.MaxSide+1, 1)} {
		if data, err := webp.Encode(image.NewRGBA(r)); err == nil {
			t.Errorf("a picture of %v is %d bytes", r, len(data))
		}
	}
}

// FuzzEncode encodes images with few colors and many repetitions, which
// exercise the encoder's matches.
func FuzzEncode(f *testing.F) {
	f.Add(uint8(9), []byte("abcabcabcabcabc"))
	f.Add(uint8(1), []byte{0})
	f.Add(uint8(33), bytes.Repeat([]byte{1, 1, 1, 2, 9, 200}, 400))
	f.Fuzz(func(t *testing.T, width uint8, data []byte) {
		if width == 0 || len(data) < int(width) || len(data) > 1<<14 {
			return
		}
		check(t, draw(int(width), len(data)/int(width), func(x, y int) color.RGBA {
			v := data[y*int(width)+x]
			return color.RGBA{v & 0xf0, v << 4, v, 255}
		}))
	})
}
