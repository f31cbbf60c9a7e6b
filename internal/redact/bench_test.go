package redact

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkStream measures text without secrets in pieces of 32 KiB: source
// code, base64, and a worst case in which every position almost begins a
// secret.
func BenchmarkStream(b *testing.B) {
	noise := make([]byte, 192<<10)
	_, _ = rand.Read(noise) // never fails: crypto/rand crashes the process instead
	code := strings.Repeat("func (s *Stream) Next(piece []byte) []byte {\n\tif s.empty { return piece } // nothing to look for\n", 3000)
	b.Run("OneByIndex", func(b *testing.B) { // the baseline is a search for one value
		b.SetBytes(int64(len(code)))
		in, value := []byte(code), []byte("ghp_"+rand.Text())
		for b.Loop() {
			if bytes.Contains(in, value) {
				b.Fatal("it is there")
			}
		}
	})
	for _, n := range []int{1, 10, 200} {
		secrets := map[string]string{}
		for i := range n {
			secrets[fmt.Sprint(i)] = "ghp_" + rand.Text() + rand.Text()[:10]
		}
		secrets["0"] = "pa55word" // short secrets are expensive
		r := New(secrets)
		for _, text := range []struct{ name, text string }{
			{"Code", code}, {"Base64", base64.StdEncoding.EncodeToString(noise)}, {"Hostile", strings.Repeat("pa55wor", 30000)},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, text.name), func(b *testing.B) {
				b.SetBytes(int64(len(text.text)))
				in := []byte(text.text)
				s := r.Stream()
				for b.Loop() {
					for rest := in; len(rest) > 0; {
						piece := rest[:min(len(rest), 32<<10)]
						rest = rest[len(piece):]
						s.Next(piece)
					}
				}
			})
		}
	}
}

func BenchmarkNew(b *testing.B) {
	secrets := map[string]string{}
	for i := range 200 {
		secrets[fmt.Sprint(i)] = "ghp_" + rand.Text() + rand.Text()[:10]
	}
	b.ReportAllocs()
	for b.Loop() {
		New(secrets)
	}
}
