package screen

import (
	"bytes"
	"image"
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"

	"golang.org/x/image/webp"
)

func TestFit(t *testing.T) {
	for display, want := range map[Point]Point{
		{1920, 1200}: {1280, 800}, {1280, 800}: {1280, 800}, {1024, 768}: {1024, 768}, {1920, 1080}: {1280, 720}, {800, 1600}: {400, 800},
		{2560, 1600}: {1280, 800}, {1366, 768}: {1280, 720}, {32000, 1}: {1280, 1}, {1, 32000}: {1, 800},
	} {
		if s := Fit(display.X, display.Y); (Point{s.Width, s.Height}) != want {
			t.Errorf("the picture of %v has %d×%d pixels, want %v", display, s.Width, s.Height, want)
		}
	}
}

// TestScaler converts coordinates to the display's coordinates and back, each
// time to the nearest pixel.
func TestScaler(t *testing.T) {
	err := quick.Check(func(a, b, c, d uint16) bool {
		width, height := int(a)%8000+1, int(b)%8000+1
		s := Fit(width, height)
		p := Point{int(c) % s.Width, int(d) % s.Height}
		on := s.ToDisplay(p)
		inside := on.X >= 0 && on.Y >= 0 && on.X < width && on.Y < height
		exact := math.Abs(float64(on.X)-float64(p.X)*float64(width)/float64(s.Width)) <= 0.5+1e-9
		q := Point{int(c) % width, int(d) % height}
		back := s.ToPicture(q)
		near := math.Abs(float64(back.X)-float64(q.X)*float64(s.Width)/float64(width)) <= 1
		return s.Check(p) == nil && s.Check(back) == nil && inside && exact && near && s.ToPicture(on) == p
	}, &quick.Config{MaxCount: 20_000})
	if err != nil {
		t.Error(err)
	}
	s := Fit(1920, 1200)
	for x := range 1280 { // the definition is round(1.5 x) and round(x / 1.5)
		if got := s.ToDisplay(Point{x, 0}).X; got != int(math.Round(float64(x)*1.5)) {
			t.Errorf("%d is at %d", x, got)
		}
	}
	for x := range 1920 {
		if got := s.ToPicture(Point{x, 0}).X; got != int(math.Round(float64(x)/1.5)) {
			t.Errorf("%d is shown at %d", x, got)
		}
	}
	for _, p := range []Point{{-1, 0}, {0, -1}, {1280, 0}, {0, 800}} {
		if s.Check(p) == nil {
			t.Errorf("%v is taken", p)
		}
	}
}

// TestScaleByHalves checks that the fast path for the ratio 3:2 has the same
// result as the general path.
func TestScaleByHalves(t *testing.T) {
	m := noise(60, 42)
	fast, slow := scale(m, 40, 28), image.NewRGBA(image.Rect(0, 0, 40, 28))
	for y := range 28 {
		for x := range 40 {
			for c := range 3 {
				sum := 0
				for j := range 3 { // in thirds of an original pixel
					for i := range 3 {
						px, py := (3*x+i)/2, (3*y+j)/2
						sum += int(m.Pix[m.PixOffset(px, py)+c])
					}
				}
				slow.Pix[slow.PixOffset(x, y)+c] = byte((sum*2 + 9) / 18)
			}
			slow.Pix[slow.PixOffset(x, y)+3] = 0xff
		}
	}
	if !bytes.Equal(fast.Pix, slow.Pix) {
		t.Error("they differ")
	}
	// The mean of equal pixels equals them, at any ratio.
	flat := image.NewRGBA(image.Rect(0, 0, 137, 91))
	for i := range flat.Pix {
		flat.Pix[i] = []byte{7, 200, 255, 255}[i%4]
	}
	for _, p := range []Point{{136, 90}, {100, 91}, {1, 1}, {40, 17}, {137, 91}} {
		small := scale(flat, p.X, p.Y)
		if small.Rect.Size() != (image.Point(p)) || !bytes.Equal(small.Pix, flat.Pix[:4*p.X*p.Y]) {
			t.Errorf("at %v it is %v", p, small.Pix[:4])
		}
	}
}

func noise(width, height int) *image.RGBA {
	random := rand.New(rand.NewPCG(1, 1))
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range m.Pix {
		m.Pix[i] = uint8(random.Uint32())
		if i%4 == 3 {
			m.Pix[i] = 0xff
		}
	}
	return m
}

// TestFewerColours checks that an image that would be too large is reduced to
// fewer colors.
func TestFewerColours(t *testing.T) {
	m := image.NewRGBA(image.Rect(0, 0, 1280, 800))
	random := rand.New(rand.NewPCG(1, 1))
	for y := range 800 {
		for x := range 1280 {
			i := m.PixOffset(x, y)
			for c := range 3 {
				m.Pix[i+c] = uint8(128 + 60*math.Sin(float64(x+40*c)/97)*math.Cos(float64(y)/113) + 1.5*random.NormFloat64())
			}
			m.Pix[i+3] = 0xff
		}
	}
	before := bytes.Clone(m.Pix)
	data, err := encode(m)
	if err != nil || len(data) > longShot {
		t.Fatalf("it has %d bytes: %v", len(data), err)
	}
	got, err := webp.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(before); i += 4 * 101 {
		r, _, _, _ := got.At(i/4%1280, i/4/1280).RGBA()
		if d := int(r>>8) - int(before[i]); d < -16 || d > 16 {
			t.Fatalf("the pixel %d has %d, and had %d", i/4, r>>8, before[i])
		}
	}
}
