package screen

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Kind is the kind of an action.
type Kind string

// The kinds of actions.
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

// Button is a mouse button, with X's number; 0 means the left button.
type Button byte

// The mouse buttons. Numbers 4 to 7 are the wheel.
const (
	Left    Button = 1
	Middle  Button = 2
	Right   Button = 3
	Back    Button = 8
	Forward Button = 9
)

// Direction is a direction of the mouse wheel; 0 is down.
type Direction byte

// The directions of the mouse wheel.
const (
	ScrollUp Direction = iota + 1
	ScrollDown
	ScrollLeft
	ScrollRight
)

// button returns X's button for a direction.
func (d Direction) button() byte {
	if d == 0 {
		d = ScrollDown
	}
	return byte(d) + 3
}

// An Action is one input or output action on a display.
type Action struct {
	Kind      Kind
	At        *Point // in pixels of the screenshot; nil is the pointer's position. A drag starts here
	To        *Point // end of a Drag
	Button    Button
	Direction Direction // for Scroll
	Amount    int       // for Scroll: number of wheel steps
	Text      string    // for Type; for Key: a chord in the format of [ParseChord]
	Wait      time.Duration
}

// check validates all actions before the first one runs.
func check(actions []Action, s Scaler) error {
	switch {
	case len(actions) == 0:
		return errors.New("actions is empty: give at least one, such as a screenshot")
	case len(actions) > MaxActions:
		return fmt.Errorf("there are %d actions, and one call may have at most %d: split them", len(actions), MaxActions)
	}
	shots := 0
	for n, a := range actions {
		if a.Kind == Screenshot {
			shots++
		}
		if err := a.check(s); err != nil {
			return fmt.Errorf("action %d of %d, %s: %w; no action was performed", n+1, len(actions), a.Kind, err)
		}
	}
	if shots > MaxShots {
		return fmt.Errorf("there are %d screenshots, and one call may have at most %d; no action was performed", shots, MaxShots)
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
			return fmt.Errorf("amount is %d: give a number of wheel steps from 1 to %d", a.Amount, MaxScroll)
		}
	case Type:
		return checkText(a.Text)
	case Key:
		_, err := ParseChord(a.Text)
		return err
	case Wait:
		if a.Wait < 0 || a.Wait > MaxWait {
			return fmt.Errorf("duration_ms is %d: give 0 to %d", a.Wait.Milliseconds(), MaxWait.Milliseconds())
		}
	case Click, MouseDown, MouseUp, Screenshot, CursorPosition:
	default:
		return errors.New("unknown action")
	}
	switch a.Button {
	case 0, Left, Middle, Right, Back, Forward:
	default:
		return fmt.Errorf("unknown button %d", a.Button)
	}
	if a.Direction > ScrollRight {
		return fmt.Errorf("unknown direction %d", a.Direction)
	}
	return nil
}

func checkText(text string) error {
	if text == "" {
		return errors.New("text is empty")
	}
	if n := utf8.RuneCountInString(text); n > MaxText {
		return fmt.Errorf("text has %d characters, and at most %d can be typed at once: split it", n, MaxText)
	}
	for _, r := range text {
		if _, ok := keysymOf(r); !ok {
			return fmt.Errorf("text contains %U, which no key can type", r)
		}
	}
	return nil
}
