package screen

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb/xproto"
)

// A keyboard is what its keys mean now.
type keyboard struct {
	first xproto.Keycode
	per   int // keysyms of a key
	syms  []xproto.Keysym
	group int // the layout that is in use, 0 or 1
}

// A stroke is how a key is pressed that means a keysym.
type stroke struct {
	code          xproto.Keycode
	shift, level3 bool
}

// keyboard asks what the keys mean.
func (d *display) keyboard() (*keyboard, error) {
	setup := xproto.Setup(d.conn)
	count := setup.MaxKeycode - setup.MinKeycode + 1
	m, err := xproto.GetKeyboardMapping(d.conn, setup.MinKeycode, byte(count)).Reply()
	if err != nil {
		return nil, fmt.Errorf("the keyboard: %w", err)
	}
	_, _, mask, err := d.pointer()
	if err != nil {
		return nil, err
	}
	// Bits 13 and 14 of the mask are the group; the core protocol shows two.
	return &keyboard{first: setup.MinKeycode, per: int(m.KeysymsPerKeycode), syms: m.Keysyms, group: min(1, int(mask>>13&3))}, nil
}

// keys calls of with each key and what it means: by group and level, unshifted
// and shifted of the first group, those of the second, and levels three and four.
func (k *keyboard) keys(of func(code xproto.Keycode, syms []xproto.Keysym) bool) {
	for i := 0; (i+1)*k.per <= len(k.syms); i++ {
		if !of(k.first+xproto.Keycode(i), k.syms[i*k.per:(i+1)*k.per]) {
			return
		}
	}
}

// find returns how a key is pressed for a keysym, with as few others as may be.
func (k *keyboard) find(sym Keysym) (stroke, bool) {
	for _, at := range []struct {
		column        int
		shift, level3 bool
	}{{2 * k.group, false, false}, {2*k.group + 1, true, false}, {4, false, true}, {5, true, true}} {
		if at.level3 && (k.group != 0 || sym == keysyms["ISO_Level3_Shift"]) {
			break
		}
		var found stroke
		k.keys(func(code xproto.Keycode, syms []xproto.Keysym) bool {
			if at.column < len(syms) && Keysym(syms[at.column]) == sym {
				found = stroke{code, at.shift, at.level3}
			}
			return found.code == 0
		})
		if found.code == 0 {
			continue
		}
		if at.level3 {
			if _, ok := k.find(keysyms["ISO_Level3_Shift"]); !ok {
				continue
			}
		}
		return found, true
	}
	return stroke{}, false
}

// spare are the keys that mean nothing, and then those that an earlier call gave a
// meaning: the same character whatever is pressed with it, as no layout has it.
func (k *keyboard) spare() (free, used []xproto.Keycode) {
	k.keys(func(code xproto.Keycode, syms []xproto.Keysym) bool {
		switch first := Keysym(syms[0]); {
		case !slices.ContainsFunc(syms, func(s xproto.Keysym) bool { return s != 0 }):
			free = append(free, code)
		case len(syms) > 1 && syms[1] == syms[0] && (first < 0xfe00 || first >= unicodeKeysyms) &&
			!slices.ContainsFunc(syms, func(s xproto.Keysym) bool { return s != 0 && s != syms[0] }):
			used = append(used, code)
		}
		return true
	})
	return free, used
}

// forget is how long programs get to see what was typed by a key, before it means
// something else: they ask for the meanings when they come to it.
const forget = 300 * time.Millisecond

// teach gives keys to those keysyms that have none, and returns how many of the
// first have one then: there are not many keys to spare. It leaves them as they are
// afterwards, so that no program sees a key whose meaning has gone.
func (d *display) teach(ctx context.Context, syms []Keysym) (k *keyboard, taught int, err error) {
	if k, err = d.keyboard(); err != nil {
		return nil, 0, err
	}
	free, used := k.spare()
	var missing []Keysym
	for _, sym := range syms {
		room := len(free) + len(used) - len(missing)
		if s, found := k.find(sym); found {
			if n := slices.Index(used, s.code); n >= 0 {
				if room == 0 {
					break
				}
				used = slices.Delete(used, n, n+1) // it keeps its meaning
			}
		} else if sym.isModifier() {
			return nil, 0, fmt.Errorf("the keyboard has no key that is %s", nameOf(sym))
		} else if !slices.Contains(missing, sym) {
			if room == 0 {
				break
			}
			missing = append(missing, sym)
		}
		taught++
	}
	if taught == 0 {
		return nil, 0, fmt.Errorf("the keyboard has no key to spare for %s", nameOf(syms[0]))
	}
	if len(missing) == 0 {
		return k, taught, nil
	}
	if len(missing) > len(free) {
		if err := d.pause(ctx); err != nil {
			return nil, 0, err
		}
	}
	for i, code := range append(free, used...)[:len(missing)] {
		meaning := slices.Repeat([]xproto.Keysym{xproto.Keysym(missing[i])}, max(4, k.per))
		if err := xproto.ChangeKeyboardMappingChecked(d.conn, 1, code, byte(len(meaning)), meaning).Check(); err != nil {
			return nil, 0, fmt.Errorf("give a key to %s: %w", nameOf(missing[i]), err)
		}
	}
	k, err = d.keyboard()
	return k, taught, err
}

// nameOf is a keysym in words.
func nameOf(sym Keysym) string {
	for name, s := range keysyms {
		if s == sym {
			return name
		}
	}
	if sym < 0x7f {
		return string(rune(sym))
	}
	return fmt.Sprintf("U%04X", uint32(sym&^unicodeKeysyms))
}

func (d *display) pressKey(code xproto.Keycode) {
	d.keys = append(d.keys, code)
	d.fake(xproto.KeyPress, byte(code), 0, 0)
}

// releaseKeys releases the keys that are held but for the first n, the last pressed first.
func (d *display) releaseKeys(n int) {
	for i := len(d.keys) - 1; i >= n; i-- {
		d.fake(xproto.KeyRelease, byte(d.keys[i]), 0, 0)
	}
	d.keys = d.keys[:min(n, len(d.keys))]
}

// hold presses what a stroke needs, and its key. It skips what is held already.
func (d *display) hold(k *keyboard, s stroke) {
	for _, with := range []struct {
		needed bool
		sym    Keysym
	}{{s.shift, keysyms["Shift_L"]}, {s.level3, keysyms["ISO_Level3_Shift"]}} {
		if m, ok := k.find(with.sym); with.needed && ok && !slices.Contains(d.keys, m.code) {
			d.pressKey(m.code)
		}
	}
	d.pressKey(s.code)
}

// chord presses keys together, and releases them.
func (d *display) chord(ctx context.Context, chord string) error {
	syms, err := ParseChord(chord)
	if err != nil {
		return err
	}
	k, taught, err := d.teach(ctx, syms)
	if err != nil {
		return err
	}
	if taught < len(syms) {
		return fmt.Errorf("the keyboard has no key to spare for %s", nameOf(syms[taught]))
	}
	for _, sym := range syms {
		if s, ok := k.find(sym); ok {
			if sym.isModifier() {
				s.shift, s.level3 = false, false
			}
			d.hold(k, s)
		}
	}
	d.releaseKeys(0)
	return d.sync()
}

// write types text, whatever the layout is.
func (d *display) write(ctx context.Context, text string, delay time.Duration) error {
	runes := []rune(strings.ReplaceAll(text, "\r\n", "\n"))
	for typed := 0; typed < len(runes); {
		batch := runes[typed:min(len(runes), typed+typingBatch)]
		syms := make([]Keysym, len(batch))
		for i, r := range batch {
			syms[i], _ = keysymOf(r) // checked before
		}
		k, taught, err := d.teach(ctx, syms)
		if err != nil {
			return fmt.Errorf("after %d of %d characters: %w", typed, len(runes), err)
		}
		for _, sym := range syms[:taught] {
			s, ok := k.find(sym)
			if !ok {
				return fmt.Errorf("after %d of %d characters: the keyboard takes no key for %s", typed, len(runes), nameOf(sym))
			}
			d.hold(k, s)
			d.releaseKeys(0)
			typed++
			if err := sleep(ctx, delay); err != nil {
				return fmt.Errorf("after %d of %d characters: %w", typed, len(runes), err)
			}
		}
		if err := d.sync(); err != nil {
			return err
		}
	}
	return nil
}
