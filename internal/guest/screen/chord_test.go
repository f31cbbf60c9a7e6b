package screen

import (
	"slices"
	"strings"
	"testing"
)

func TestParseChord(t *testing.T) {
	for chord, want := range map[string][]Keysym{
		"Return": {0xff0d}, "return": {0xff0d}, "ENTER": {0xff0d}, "a": {'a'}, "A": {'A'}, "ctrl+c": {0xffe3, 'c'}, "ctrl + shift + T": {0xffe3, 0xffe1, 'T'},
		"alt+F4": {0xffe9, 0xffc1}, "super": {0xffeb}, "Page_Down": {0xff56}, "PageDown": {0xff56}, "+": {'+'}, "ctrl++": {0xffe3, '+'}, "ctrl+plus": {0xffe3, '+'},
		"é": {0xe9}, "€": {0x20ac}, "я": {0x0100044f}, "U20AC": {0x20ac}, "U1F600": {0x0101f600}, "u": {'u'}, "space": {' '}, "Adiaeresis": {0xc4}, "adiaeresis": {0xe4},
		"XF86AudioMute": {0x1008ff12}, "-": {'-'}, "ctrl+-": {0xffe3, '-'},
	} {
		if got, err := ParseChord(chord); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %x (%v), want %x", chord, got, err, want)
		}
	}
	for chord, want := range map[string]string{
		"": "key is empty", "  ": "key is empty", "ctrl+": "ends in a plus sign", "ctrl+c+ctrl": "twice", "ctrl+control": "twice",
		"+a": `there is no key ""`, "foo": `there is no key "foo"`, "a b": "there is no key", "\x00": "there is no key", "\xff": "there is no key", "ADIAERESIS": "there is no key",
		"1+2+3+4+5+6+7+8+9": "at most 8", "U110000": "there is no key", "U1B": "there is no key", "Ufffffffff": "there is no key",
	} {
		if got, err := ParseChord(chord); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %x (%v), want %s", chord, got, err, want)
		}
	}
}

// FuzzParseChord checks that the names of a parsed chord's keys parse to the
// same chord.
func FuzzParseChord(f *testing.F) {
	for _, s := range []string{"ctrl+c", "ctrl++", "+", "alt+F4", "U20AC", "\xff+a", "я", " Return ", "++", "shift+adiaeresis"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, chord string) {
		keys, err := ParseChord(chord)
		if err != nil {
			if keys != nil {
				t.Errorf("%q is %x, and %v", chord, keys, err)
			}
			return
		}
		if len(keys) == 0 || len(keys) > maxChord {
			t.Fatalf("%q has %d keys", chord, len(keys))
		}
		var names []string
		for _, k := range keys {
			names = append(names, nameOf(k))
		}
		if again, err := ParseChord(strings.Join(names, "+")); err != nil || !slices.Equal(again, keys) {
			t.Errorf("%q is %x, of which the names %q are %x (%v)", chord, keys, names, again, err)
		}
	})
}
