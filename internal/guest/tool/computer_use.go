package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"aloft/internal/fault"
	"aloft/internal/guest/desktop"
	"aloft/internal/guest/screen"
	"aloft/internal/wire/agentv1"
)

// ComputerUse controls the desktop's mouse and keyboard and takes screenshots.
func ComputerUse(hand *screen.Hand) Tool {
	lacks := func() error {
		if hand.Display == "" {
			return desktop.Missing()
		}
		return nil
	}
	return Tool{Name: "ComputerUse", Bounded: true, Lacks: lacks, Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		began := time.Now()
		args := call.GetComputerUseToolCall().GetArgs()
		done, err := screen.Done{}, errNoArguments
		if args != nil {
			if err = wake(ctx, hand.Display); err == nil {
				done, err = hand.Do(ctx, actionsOf(args))
			}
		}
		out := Outcome{Text: describeActions(done), Error: err != nil}
		for _, shot := range done.Shots {
			out.Pictures = append(out.Pictures, &agentv1.Picture{MediaType: "image/webp", Data: shot.Data})
		}
		result := &agentv1.ComputerUseResult{}
		if err != nil {
			out.Text = valid(err.Error())
			result.Result = &agentv1.ComputerUseResult_Error{Error: &agentv1.ToolError{Message: out.Text}}
		} else {
			success := &agentv1.ComputerUseSuccess{ActionsDone: int32(done.Actions), Cursor: coordinate(done.Pointer), DurationMs: int32(time.Since(began).Milliseconds())}
			if n := len(done.Shots); n > 0 {
				success.ScreenshotPath = done.Shots[n-1].Path
			}
			result.Result = &agentv1.ComputerUseResult_Success{Success: success}
		}
		out.Call = &agentv1.ToolCall{Tool: &agentv1.ToolCall_ComputerUseToolCall{ComputerUseToolCall: &agentv1.ComputerUseToolCall{Result: result}}}
		return out
	}}
}

// wakeTime is how long a desktop may take to start.
const wakeTime = 30 * time.Second

// wake starts the desktop. If the machine has none, the error says what to do.
func wake(ctx context.Context, display string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wakeTime, fmt.Errorf("the desktop did not start within %s", wakeTime))
	defer cancel()
	err := desktop.Wake(ctx, display)
	if advice := fault.Of(err).Advice; err != nil && advice != "" {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}

// describeActions describes the actions that were done, as text for the model.
func describeActions(done screen.Done) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Did %s. The pointer is at %d,%d.", plural(done.Actions, "action"), done.Pointer.X, done.Pointer.Y)
	for _, shot := range done.Shots {
		fmt.Fprintf(&b, "\n[screenshot, %d×%d pixels, %s]", done.Width, done.Height, shot.Path)
	}
	return b.String()
}

func coordinate(p screen.Point) *agentv1.Coordinate {
	return &agentv1.Coordinate{X: int32(p.X), Y: int32(p.Y)}
}

func point(c *agentv1.Coordinate) *screen.Point {
	if c == nil {
		return nil
	}
	return &screen.Point{X: int(c.GetX()), Y: int(c.GetY())}
}

// buttons maps the protocol's mouse buttons to X's. An unknown button maps to 0, which X
// does not know either.
var buttons = map[agentv1.MouseButton]screen.Button{
	agentv1.MouseButton_MOUSE_BUTTON_UNSPECIFIED: screen.Left, agentv1.MouseButton_MOUSE_BUTTON_LEFT: screen.Left,
	agentv1.MouseButton_MOUSE_BUTTON_MIDDLE: screen.Middle, agentv1.MouseButton_MOUSE_BUTTON_RIGHT: screen.Right,
	agentv1.MouseButton_MOUSE_BUTTON_BACK: screen.Back, agentv1.MouseButton_MOUSE_BUTTON_FORWARD: screen.Forward,
}

func button(b agentv1.MouseButton) screen.Button {
	if known, ok := buttons[b]; ok {
		return known
	}
	return 0xff
}

// actionsOf converts the actions of a call. An empty action gets a kind that is
// refused later.
func actionsOf(args *agentv1.ComputerUseArgs) []screen.Action {
	actions := make([]screen.Action, len(args.GetActions()))
	for i, a := range args.GetActions() {
		actions[i] = actionOf(a)
	}
	return actions
}

func actionOf(a *agentv1.ComputerUseAction) screen.Action {
	switch a := a.GetAction().(type) {
	case *agentv1.ComputerUseAction_MouseMove:
		return screen.Action{Kind: screen.MouseMove, At: point(a.MouseMove.GetCoordinate())}
	case *agentv1.ComputerUseAction_Click:
		return screen.Action{Kind: screen.Click, At: point(a.Click.GetCoordinate()), Button: button(a.Click.GetButton())}
	case *agentv1.ComputerUseAction_MouseDown:
		return screen.Action{Kind: screen.MouseDown, At: point(a.MouseDown.GetCoordinate()), Button: button(a.MouseDown.GetButton())}
	case *agentv1.ComputerUseAction_MouseUp:
		return screen.Action{Kind: screen.MouseUp, At: point(a.MouseUp.GetCoordinate()), Button: button(a.MouseUp.GetButton())}
	case *agentv1.ComputerUseAction_Drag:
		return screen.Action{Kind: screen.Drag, At: point(a.Drag.GetStart()), To: point(a.Drag.GetEnd()), Button: button(a.Drag.GetButton())}
	case *agentv1.ComputerUseAction_Scroll:
		// Directions have the same numbers in the protocol and in screen. A
		// value out of range stays out of range, and is refused later.
		return screen.Action{
			Kind: screen.Scroll, At: point(a.Scroll.GetCoordinate()), Amount: int(a.Scroll.GetAmount()),
			Direction: screen.Direction(min(0xff, uint32(a.Scroll.GetDirection()))),
		}
	case *agentv1.ComputerUseAction_Type:
		return screen.Action{Kind: screen.Type, Text: a.Type.GetText()}
	case *agentv1.ComputerUseAction_Key:
		return screen.Action{Kind: screen.Key, Text: a.Key.GetKey()}
	case *agentv1.ComputerUseAction_Wait:
		return screen.Action{Kind: screen.Wait, Wait: time.Duration(a.Wait.GetDurationMs()) * time.Millisecond}
	case *agentv1.ComputerUseAction_Screenshot:
		return screen.Action{Kind: screen.Screenshot}
	case *agentv1.ComputerUseAction_CursorPosition:
		return screen.Action{Kind: screen.CursorPosition}
	}
	return screen.Action{Kind: "no action"}
}
