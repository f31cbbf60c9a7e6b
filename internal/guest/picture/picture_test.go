package picture

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math/rand/v2"
	"testing"
)

func pixels(width, height int, noise bool) image.Image {
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	source := rand.New(rand.NewPCG(1, 2))
	for i := range p.Pix {
		p.Pix[i] = byte(i)
		if noise {
			p.Pix[i] = byte(source.Uint32())
		}
	}
	return p
}

func encoded(t testing.TB, kind string, p image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch kind {
	case "image/png":
		err = png.Encode(&b, p)
	case "image/jpeg":
		err = jpeg.Encode(&b, p, nil)
	case "image/gif":
		q := image.NewPaletted(p.Bounds(), color.Palette{color.Black, color.White})
		err = gif.Encode(&b, q, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFit(t *testing.T) {
	for name, c := range map[string]struct {
		kind          string
		width, height int
		noise         bool
		wantKind      string
		wantWidth     int
	}{
		"Small":     {"image/png", 100, 50, false, "image/png", 100},
		"AtTheEdge": {"image/jpeg", 1568, 20, false, "image/jpeg", 1568},
		"Wide":      {"image/png", 3136, 100, false, "image/png", 1568},
		"Tall":      {"image/jpeg", 100, 3136, false, "image/jpeg", 50},
		"Thin":      {"image/png", 20000, 1, false, "image/png", 1568},
		"Moving":    {"image/gif", 2000, 10, false, "image/png", 1568},
		"Noise":     {"image/png", 1250, 1150, true, "image/jpeg", 1250},
	} {
		t.Run(name, func(t *testing.T) {
			data := encoded(t, c.kind, pixels(c.width, c.height, c.noise))
			got, err := Fit(data, c.kind)
			if err != nil {
				t.Fatal(err)
			}
			conf, format, err := image.DecodeConfig(bytes.NewReader(got.Data))
			if err != nil || "image/"+format != c.wantKind || got.MediaType != c.wantKind || conf.Width != c.wantWidth || len(got.Data) > MaxBytes {
				t.Errorf("%s of %d×%d, %d bytes, %v", format, conf.Width, conf.Height, len(got.Data), err)
			}
			if got.Width != c.width || got.Height != c.height || got.Scaled != (c.wantWidth != c.width) {
				t.Errorf("%+v", got)
			}
			if !got.Scaled && !c.noise && !bytes.Equal(got.Data, data) {
				t.Error("it was changed though it fits")
			}
		})
	}
}

func TestFitRefusesBombs(t *testing.T) {
	data := encoded(t, "image/png", pixels(2, 2, false))
	copy(data[16:], []byte{0, 1, 0, 0, 0, 1, 0, 0}) // 65536 pixels each way
	// The header's checksum is now wrong, so the image is returned unchanged.
	if got, err := Fit(data, "image/png"); err != nil || got.Scaled {
		t.Errorf("%+v, %v", got.Scaled, err)
	}
	header := []byte("GIF89a\x00\xff\x00\xff\x00\x00\x00")
	if _, err := Fit(header, "image/gif"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("65280 pixels each way: %v", err)
	}
	if _, err := Fit(make([]byte, MaxBytes+1), "image/webp"); !errors.Is(err, ErrTooLarge) {
		t.Errorf("long: %v", err)
	}
}

func FuzzFit(f *testing.F) {
	f.Add(encoded(f, "image/png", pixels(1600, 2, false)), "image/png")
	f.Add(encoded(f, "image/jpeg", pixels(3, 1600, false)), "image/jpeg")
	f.Add(encoded(f, "image/gif", pixels(1600, 1, false)), "image/gif")
	f.Fuzz(func(t *testing.T, data []byte, kind string) {
		if conf, _, err := image.DecodeConfig(bytes.NewReader(data)); err == nil && conf.Width*conf.Height > 1<<20 {
			return // slow, but not an error
		}
		got, err := Fit(data, kind)
		if err == nil && len(got.Data) > MaxBytes {
			t.Errorf("%d bytes", len(got.Data))
		}
	})
}
