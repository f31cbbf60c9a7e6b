package screen

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb/xproto"
)

// A keyboard is the current mapping of keys to keysyms.
type keyboard struct {
	first xproto.Keycode
	per   int // keysyms per key
	syms  []xproto.Keysym
	group int // current layout, 0 or 1
}

// A stroke says how to press the key for a keysym: the key and its modifiers.
type stroke struct {
	code          xproto.Keycode
	shift, level3 bool
}

// keyboard reads the current mapping.
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
	// Bits 13 and 14 of the mask are the number of the group. The core protocol
	// has two groups.
	return &keyboard{first: setup.MinKeycode, per: int(m.KeysymsPerKeycode), syms: m.Keysyms, group: min(1, int(mask>>13&3))}, nil
}

// keys calls of for each key with its keysyms, ordered by group and level: first the
// first group, unshifted and shifted, then the second group, then levels three and four.
func (k *keyboard) keys(of func(code xproto.Keycode, syms []xproto.Keysym) bool) {
	for i := 0; (i+1)*k.per <= len(k.syms); i++ {
		if !of(k.first+xproto.Keycode(i), k.syms[i*k.per:(i+1)*k.per]) {
			return
		}
	}
}

// find returns the stroke for a keysym that needs the fewest modifiers.
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

// spare returns keys that teach may use: first the keys without a keysym, then those to
// which an earlier call assigned one. It recognizes the latter by having the same keysym
// at all levels, which no key of a layout has.
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

// forget is how long a key keeps its temporary keysym. Programs look the keysym
// up only when they process the event.
const forget = 300 * time.Millisecond

// teach assigns spare keys to keysyms that have none. Spare keys are few, so it returns
// how many of the first keysyms have a key now. It does not undo the assignments, so
// that no program processes a key after its keysym was removed.
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
				used = slices.Delete(used, n, n+1) // the key keeps its keysym
			}
		} else if sym.isModifier() {
			return nil, 0, fmt.Errorf("the keyboard has no key for %s", nameOf(sym))
		} else if !slices.Contains(missing, sym) {
			if room == 0 {
				break
			}
			missing = append(missing, sym)
		}
		taught++
	}
	if taught == 0 {
		return nil, 0, fmt.Errorf("the keyboard has no spare key for %s", nameOf(syms[0]))
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
			return nil, 0, fmt.Errorf("assign a key to %s: %w", nameOf(missing[i]), err)
		}
	}
	k, err = d.keyboard()
	return k, taught, err
}

// nameOf returns a readable name of a keysym.
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
	d.sendInput(xproto.KeyPress, byte(code), 0, 0)
}

// releaseKeys releases all held keys except the first n, the last pressed
// first.
func (d *display) releaseKeys(n int) {
	for i := len(d.keys) - 1; i >= n; i-- {
		d.sendInput(xproto.KeyRelease, byte(d.keys[i]), 0, 0)
	}
	d.keys = d.keys[:min(n, len(d.keys))]
}

// holdModifiers presses a stroke's modifiers and its key. It skips keys that
// are pressed already.
func (d *display) holdModifiers(k *keyboard, s stroke) {
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

// chord presses keys together and releases them.
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
		return fmt.Errorf("the keyboard has no spare key for %s", nameOf(syms[taught]))
	}
	for _, sym := range syms {
		if s, ok := k.find(sym); ok {
			if sym.isModifier() {
				s.shift, s.level3 = false, false
			}
			d.holdModifiers(k, s)
		}
	}
	d.releaseKeys(0)
	return d.sync()
}

// write types text, whatever the keyboard layout.
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
				return fmt.Errorf("after %d of %d characters: the keyboard accepts no key for %s", typed, len(runes), nameOf(sym))
			}
			d.holdModifiers(k, s)
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
