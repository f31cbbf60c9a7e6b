package screen

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Kind is what an action does.
type Kind string

// The actions.
const (
	MouseMove      Kind = "mouse_move"
	Click          Kind = "click"
	MouseDown      Kind = "mouse_down"
	MouseUp        Kind = "mouse_up"
	Drag           Kind = "drag"
	Scroll         Kind = "scroll"
	Type           Kind = "type"
	Key            Kind = "key"
	Wait           Kind = "wait"
	Screenshot     Kind = "screenshot"
	CursorPosition Kind = "cursor_position"
)

// Button is a button of the mouse, by X's number; 0 is the left one.
type Button byte

// The buttons. The wheel has 4 to 7.
const (
	Left    Button = 1
	Middle  Button = 2
	Right   Button = 3
	Back    Button = 8
	Forward Button = 9
)

// Direction is where a wheel is turned to; 0 is down.
type Direction byte

// The directions.
const (
	ScrollUp Direction = iota + 1
	ScrollDown
	ScrollLeft
	ScrollRight
)

// button is the one that X has for it.
func (d Direction) button() byte {
	if d == 0 {
		d = ScrollDown
	}
	return byte(d) + 3
}

// An Action is one thing that a person does at a display.
type Action struct {
	Kind      Kind
	At        *Point // in pixels of the picture; nil is where the pointer is. A drag begins there
	To        *Point // of Drag: where it ends
	Button    Button
	Direction Direction // of Scroll
	Amount    int       // of Scroll: notches of the wheel
	Text      string    // of Type, and of Key: a chord, as [ParseChord] takes it
	Wait      time.Duration
}

// check says what is wrong with actions, before any of them is done.
func check(actions []Action, s Scaler) error {
	switch {
	case len(actions) == 0:
		return errors.New("there are no actions: give at least one, such as a screenshot")
	case len(actions) > MaxActions:
		return fmt.Errorf("there are %d actions, more than the %d that one call may have: split them", len(actions), MaxActions)
	}
	shots := 0
	for n, a := range actions {
		if a.Kind == Screenshot {
			shots++
		}
		if err := a.check(s); err != nil {
			return fmt.Errorf("action %d of %d, %s: %w; nothing was done", n+1, len(actions), a.Kind, err)
		}
	}
	if shots > MaxShots {
		return fmt.Errorf("there are %d screenshots, more than the %d that one call may have; nothing was done", shots, MaxShots)
	}
	return nil
}

func (a Action) check(s Scaler) error {
	for _, p := range []*Point{a.At, a.To} {
		if p == nil {
			continue
		}
		if err := s.Check(*p); err != nil {
			return err
		}
	}
	switch a.Kind {
	case MouseMove:
		if a.At == nil {
			return errors.New("coordinate is missing")
		}
	case Drag:
		if a.At == nil || a.To == nil {
			return errors.New("start and end are both needed")
		}
	case Scroll:
		if a.Amount < 1 || a.Amount > MaxScroll {
			return fmt.Errorf("amount is %d: it is a number of notches, 1 to %d", a.Amount, MaxScroll)
		}
	case Type:
		return checkText(a.Text)
	case Key:
		_, err := ParseChord(a.Text)
		return err
	case Wait:
		if a.Wait < 0 || a.Wait > MaxWait {
			return fmt.Errorf("duration_ms is %d: it is 0 to %d", a.Wait.Milliseconds(), MaxWait.Milliseconds())
		}
	case Click, MouseDown, MouseUp, Screenshot, CursorPosition:
	default:
		return errors.New("there is no such action")
	}
	switch a.Button {
	case 0, Left, Middle, Right, Back, Forward:
	default:
		return fmt.Errorf("there is no button %d", a.Button)
	}
	if a.Direction > ScrollRight {
		return fmt.Errorf("there is no direction %d", a.Direction)
	}
	return nil
}

func checkText(text string) error {
	if text == "" {
		return errors.New("text is empty")
	}
	if n := utf8.RuneCountInString(text); n > MaxText {
		return fmt.Errorf("text has %d characters, more than the %d that can be typed at once: split it", n, MaxText)
	}
	for _, r := range text {
		if _, ok := keysymOf(r); !ok {
			return fmt.Errorf("text holds %U, which no key types", r)
		}
	}
	return nil
}
