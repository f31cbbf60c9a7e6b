package tool

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"

	"aloft/internal/guest/screen"
	"aloft/internal/wire/agentv1"
)

// TestActionsOf checks how a call's actions are converted. Package screen tests
// their effects.
func TestActionsOf(t *testing.T) {
	at := func(x, y int) *screen.Point { return &screen.Point{X: x, Y: y} }
	for input, want := range map[string]screen.Action{
		`{"mouse_move":{"coordinate":{"x":640,"y":400}}}`:                                       {Kind: screen.MouseMove, At: at(640, 400)},
		`{"mouseMove":{"coordinate":{}}}`:                                                       {Kind: screen.MouseMove, At: at(0, 0)},
		`{"mouse_move":{}}`:                                                                     {Kind: screen.MouseMove},
		`{"click":{"coordinate":{"x":-1,"y":2147483647}}}`:                                      {Kind: screen.Click, At: at(-1, 2147483647), Button: screen.Left}, // refused later, by package screen
		`{"click":{"button":"MOUSE_BUTTON_UNSPECIFIED"}}`:                                       {Kind: screen.Click, Button: screen.Left},
		`{"click":{"button":"MOUSE_BUTTON_LEFT"}}`:                                              {Kind: screen.Click, Button: screen.Left},
		`{"click":{"button":"MOUSE_BUTTON_MIDDLE"}}`:                                            {Kind: screen.Click, Button: screen.Middle},
		`{"mouse_down":{"coordinate":{"x":1,"y":2},"button":"MOUSE_BUTTON_RIGHT"}}`:             {Kind: screen.MouseDown, At: at(1, 2), Button: screen.Right},
		`{"mouse_up":{"button":"MOUSE_BUTTON_BACK"}}`:                                           {Kind: screen.MouseUp, Button: screen.Back},
		`{"drag":{"start":{"x":1,"y":2},"end":{"x":3,"y":4},"button":"MOUSE_BUTTON_FORWARD"}}`:  {Kind: screen.Drag, At: at(1, 2), To: at(3, 4), Button: screen.Forward},
		`{"drag":{"end":{"x":3,"y":4}}}`:                                                        {Kind: screen.Drag, To: at(3, 4), Button: screen.Left},
		`{"scroll":{"amount":3}}`:                                                               {Kind: screen.Scroll, Amount: 3},
		`{"scroll":{"coordinate":{"x":1,"y":2},"direction":"SCROLL_DIRECTION_UP","amount":-1}}`: {Kind: screen.Scroll, At: at(1, 2), Direction: screen.ScrollUp, Amount: -1},
		`{"scroll":{"direction":"SCROLL_DIRECTION_DOWN"}}`:                                      {Kind: screen.Scroll, Direction: screen.ScrollDown},
		`{"scroll":{"direction":"SCROLL_DIRECTION_LEFT"}}`:                                      {Kind: screen.Scroll, Direction: screen.ScrollLeft},
		`{"scroll":{"direction":"SCROLL_DIRECTION_RIGHT"}}`:                                     {Kind: screen.Scroll, Direction: screen.ScrollRight},
		`{"scroll":{"direction":257}}`:                                                          {Kind: screen.Scroll, Direction: 0xff}, // must not become 1, which is up
		`{"scroll":{"direction":-1}}`:                                                           {Kind: screen.Scroll, Direction: 0xff},
		`{"click":{"button":8}}`:                                                                {Kind: screen.Click, Button: 0xff}, // the message's numbers are not X's numbers
		`{"click":{"button":-255}}`:                                                             {Kind: screen.Click, Button: 0xff}, // must not become 1, which is the left button
		`{"type":{"text":"a\nß"}}`:                                                              {Kind: screen.Type, Text: "a\nß"},
		`{"key":{"key":"ctrl+s"}}`:                                                              {Kind: screen.Key, Text: "ctrl+s"},
		`{"wait":{"duration_ms":1500}}`:                                                         {Kind: screen.Wait, Wait: 1500 * time.Millisecond},
		`{"screenshot":{}}`:                                                                     {Kind: screen.Screenshot},
		`{"cursor_position":{}}`:                                                                {Kind: screen.CursorPosition},
		`{}`:                                                                                    {Kind: "no action"},
	} {
		args := &agentv1.ComputerUseArgs{}
		if err := protojson.Unmarshal([]byte(`{"actions":[{"screenshot":{}},`+input+`]}`), args); err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if diff := cmp.Diff([]screen.Action{{Kind: screen.Screenshot}, want}, actionsOf(args)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", input, diff)
		}
	}
}

// TestEveryActionIsKnown checks that each action and button in the messages has
// a counterpart of the same name in package screen.
func TestEveryActionIsKnown(t *testing.T) {
	fields := (&agentv1.ComputerUseAction{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		one := &agentv1.ComputerUseAction{}
		one.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(one.ProtoReflect().NewField(fields.Get(i)).Message()))
		if got := actionOf(one).Kind; string(got) != string(fields.Get(i).Name()) {
			t.Errorf("%s is %q", fields.Get(i).Name(), got)
		}
	}
	for number, name := range agentv1.MouseButton_name {
		if _, ok := buttons[agentv1.MouseButton(number)]; !ok {
			t.Errorf("%s is no button", name)
		}
	}
	for number, name := range agentv1.ScrollDirection_name {
		if screen.Direction(number) > screen.ScrollRight {
			t.Errorf("%s is no direction", name)
		}
	}
}

// TestComputerUseWithoutADesktop checks that the tool is not offered without a
// desktop, and that a call then returns an error that gives the reason.
func TestComputerUseWithoutADesktop(t *testing.T) {
	hand := ComputerUse(screen.NewHand(""))
	if err := hand.Lacks(); err == nil || !strings.Contains(err.Error(), "desktop") {
		t.Errorf("it lacks %v", err)
	}
	for name, c := range map[string]struct {
		call *agentv1.ComputerUseToolCall
		want string
	}{
		"NoArguments": {&agentv1.ComputerUseToolCall{}, errNoArguments.Error()},
		"NoDisplay":   {&agentv1.ComputerUseToolCall{Args: &agentv1.ComputerUseArgs{Actions: []*agentv1.ComputerUseAction{{}}}}, "desktop"},
	} {
		t.Run(name, func(t *testing.T) {
			out := hand.Run(t.Context(), &agentv1.ToolCall{Tool: &agentv1.ToolCall_ComputerUseToolCall{ComputerUseToolCall: c.call}}, nil)
			told := out.Call.GetComputerUseToolCall().GetResult().GetError().GetMessage()
			if !out.Error || out.Text != told || !strings.Contains(told, c.want) || len(out.Pictures) > 0 {
				t.Errorf("%+v", out)
			}
		})
	}
}
