package screen

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Keysym is the meaning of a key, as a number of X's.
type Keysym uint32

// maxChord is the maximum number of keys in a chord.
const maxChord = 8

// keysyms are the named keys: X's names, which xdotool also accepts.
var keysyms = parseKeysyms(`
	BackSpace ff08 Tab ff09 Linefeed ff0a Clear ff0b Return ff0d Pause ff13 Scroll_Lock ff14 Sys_Req ff15 Escape ff1b Multi_key ff20 Delete ffff
	Home ff50 Left ff51 Up ff52 Right ff53 Down ff54 Prior ff55 Page_Up ff55 Next ff56 Page_Down ff56 End ff57 Begin ff58
	Select ff60 Print ff61 Execute ff62 Insert ff63 Undo ff65 Redo ff66 Menu ff67 Find ff68 Cancel ff69 Help ff6a Break ff6b Mode_switch ff7e Num_Lock ff7f
	KP_Space ff80 KP_Tab ff89 KP_Enter ff8d KP_Home ff95 KP_Left ff96 KP_Up ff97 KP_Right ff98 KP_Down ff99 KP_Prior ff9a KP_Page_Up ff9a KP_Next ff9b
	KP_Page_Down ff9b KP_End ff9c KP_Begin ff9d KP_Insert ff9e KP_Delete ff9f KP_Multiply ffaa KP_Add ffab KP_Separator ffac KP_Subtract ffad
	KP_Decimal ffae KP_Divide ffaf KP_0 ffb0 KP_1 ffb1 KP_2 ffb2 KP_3 ffb3 KP_4 ffb4 KP_5 ffb5 KP_6 ffb6 KP_7 ffb7 KP_8 ffb8 KP_9 ffb9 KP_Equal ffbd
	F1 ffbe F2 ffbf F3 ffc0 F4 ffc1 F5 ffc2 F6 ffc3 F7 ffc4 F8 ffc5 F9 ffc6 F10 ffc7 F11 ffc8 F12 ffc9
	F13 ffca F14 ffcb F15 ffcc F16 ffcd F17 ffce F18 ffcf F19 ffd0 F20 ffd1 F21 ffd2 F22 ffd3 F23 ffd4 F24 ffd5
	Shift_L ffe1 Shift_R ffe2 Control_L ffe3 Control_R ffe4 Caps_Lock ffe5 Shift_Lock ffe6 Meta_L ffe7 Meta_R ffe8 Alt_L ffe9 Alt_R ffea
	Super_L ffeb Super_R ffec Hyper_L ffed Hyper_R ffee ISO_Level3_Shift fe03 ISO_Next_Group fe08 ISO_Left_Tab fe20
	dead_grave fe50 dead_acute fe51 dead_circumflex fe52 dead_tilde fe53 dead_diaeresis fe57
	space 20 exclam 21 quotedbl 22 numbersign 23 dollar 24 percent 25 ampersand 26 apostrophe 27 quoteright 27 parenleft 28 parenright 29 asterisk 2a
	plus 2b comma 2c minus 2d period 2e slash 2f colon 3a semicolon 3b less 3c equal 3d greater 3e question 3f at 40 bracketleft 5b backslash 5c
	bracketright 5d asciicircum 5e underscore 5f grave 60 quoteleft 60 braceleft 7b bar 7c braceright 7d asciitilde 7e
	nobreakspace a0 exclamdown a1 cent a2 sterling a3 currency a4 yen a5 section a7 copyright a9 degree b0 mu b5 questiondown bf multiply d7 division f7
	Adiaeresis c4 Odiaeresis d6 Udiaeresis dc ssharp df adiaeresis e4 odiaeresis f6 udiaeresis fc eacute e9 egrave e8 agrave e0 ccedilla e7 ntilde f1 EuroSign 20ac
	XF86AudioLowerVolume 1008ff11 XF86AudioMute 1008ff12 XF86AudioRaiseVolume 1008ff13 XF86AudioPlay 1008ff14 XF86AudioStop 1008ff15
	XF86AudioPrev 1008ff16 XF86AudioNext 1008ff17 XF86HomePage 1008ff18 XF86Back 1008ff26 XF86Forward 1008ff27 XF86Refresh 1008ff29
	XF86Reload 1008ff73 XF86Search 1008ff1b XF86Copy 1008ff57 XF86Cut 1008ff58 XF86Paste 1008ff6d`)

// aliases are other names in common use (xdotool has some of them), in lower
// case.
var aliases = map[string]string{
	"ctrl": "Control_L", "control": "Control_L", "alt": "Alt_L", "shift": "Shift_L", "super": "Super_L", "meta": "Meta_L", "hyper": "Hyper_L",
	"win": "Super_L", "windows": "Super_L", "cmd": "Super_L", "command": "Super_L", "option": "Alt_L", "altgr": "ISO_Level3_Shift",
	"enter": "Return", "esc": "Escape", "del": "Delete", "ins": "Insert", "pageup": "Page_Up", "pgup": "Page_Up", "pagedown": "Page_Down", "pgdn": "Page_Down",
	"pgdown": "Page_Down", "arrowup": "Up", "arrowdown": "Down", "arrowleft": "Left", "arrowright": "Right", "spacebar": "space", "capslock": "Caps_Lock",
	"numlock": "Num_Lock", "printscreen": "Print", "hyphen": "minus", "dash": "minus", "backtick": "grave",
}

// folded maps lower-case names to keys, if they are unambiguous.
var folded = func() map[string]Keysym {
	all := map[string]Keysym{}
	for name, sym := range keysyms {
		lower := strings.ToLower(name)
		if was, twice := all[lower]; twice && was != sym {
			sym = 0 // ambiguous, like adiaeresis and Adiaeresis
		}
		all[lower] = sym
	}
	return all
}()

// parseKeysyms parses pairs of a name and a hexadecimal number.
func parseKeysyms(table string) map[string]Keysym {
	fields := strings.Fields(table)
	all := make(map[string]Keysym, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		var sym Keysym
		if _, err := fmt.Sscanf(fields[i+1], "%x", &sym); err != nil {
			panic("screen: " + fields[i]) // a mistake in this file
		}
		all[fields[i]] = sym
	}
	return all
}

// ParseChord parses keys that are pressed together, such as "ctrl+shift+t", "Return" or
// "alt+F4". Each key is a character, an X key name or a common alias. The last key may
// be a plus sign: "ctrl++". The result is in the order in which the keys are pressed.
func ParseChord(chord string) ([]Keysym, error) {
	rest := strings.TrimSpace(chord)
	if rest == "" {
		return nil, errors.New("key is empty: give a key or a chord, such as Return or ctrl+c")
	}
	var names []string
	if head, found := strings.CutSuffix(rest, "+"); found {
		if head != "" && !strings.HasSuffix(head, "+") {
			return nil, fmt.Errorf("the chord %.80q ends in a plus sign: add a key after it; the plus key is %q", chord, "plus")
		}
		rest, names = strings.TrimSuffix(head, "+"), []string{"plus"}
	}
	if rest != "" {
		names = append(strings.Split(rest, "+"), names...)
	}
	if len(names) > maxChord {
		return nil, fmt.Errorf("the chord has %d keys; at most %d are supported", len(names), maxChord)
	}
	keys := make([]Keysym, 0, len(names))
	for _, name := range names {
		sym, ok := lookup(strings.TrimSpace(name))
		if !ok {
			return nil, fmt.Errorf("there is no key %.40q in %.80q: keys are characters, and names such as Return, Escape, Tab, BackSpace, Page_Up, F5, Left, ctrl, alt, shift, super, joined by +", name, chord)
		}
		for _, k := range keys {
			if k == sym {
				return nil, fmt.Errorf("the chord %.80q has the key %.40q twice", chord, name)
			}
		}
		keys = append(keys, sym)
	}
	return keys, nil
}

// lookup finds a key by its name, an alias, the character that it types, or a
// code point such as U20AC.
func lookup(name string) (Keysym, bool) {
	if sym, ok := keysyms[name]; ok {
		return sym, true
	}
	if r, size := utf8.DecodeRuneInString(name); size == len(name) && size > 0 && r != utf8.RuneError {
		return keysymOf(r)
	}
	lower := strings.ToLower(name)
	if own, ok := aliases[lower]; ok {
		return keysyms[own], true
	}
	if sym := folded[lower]; sym != 0 {
		return sym, true
	}
	var r rune
	if n, err := fmt.Sscanf(name, "U%x", &r); err == nil && n == 1 && strings.EqualFold(fmt.Sprintf("U%04X", r), name) {
		return keysymOf(r)
	}
	return 0, false
}

// keysymOf returns the key for a character; a line break is Return. Invisible characters
// other than blanks have no key.
func keysymOf(r rune) (Keysym, bool) {
	switch {
	case r == '\n' || r == '\r':
		return keysyms["Return"], true
	case r == '\t':
		return keysyms["Tab"], true
	case r == utf8.RuneError || unicode.IsControl(r) || !utf8.ValidRune(r) || r < 0:
		return 0, false
	case r < 0x100:
		return Keysym(r), true
	case r == '€':
		return keysyms["EuroSign"], true // keyboard layouts use that name
	}
	return unicodeKeysyms + Keysym(r), true
}

// unicodeKeysyms is the offset of keysyms for characters outside Latin-1.
const unicodeKeysyms = 0x01000000

// isModifier reports whether a key modifies others.
func (k Keysym) isModifier() bool {
	return k >= 0xffe1 && k <= 0xffee || k == keysyms["ISO_Level3_Shift"] || k == keysyms["Mode_switch"] || k == keysyms["Num_Lock"]
}
