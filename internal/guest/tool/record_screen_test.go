package tool_test

import (
	"path/filepath"
	"strings"
	"testing"

	guest "aloft/internal/guest/tool"
	"aloft/internal/guest/tool/tooltest"
	"aloft/internal/guest/video"
	"aloft/internal/wire/agentv1"
)

// TestRecordScreen checks the messages that a model gets if recording is
// impossible. Package video tests the recording.
func TestRecordScreen(t *testing.T) {
	tooltest.Run(t, func(t *testing.T, ws guest.Workspace) guest.Tool {
		return guest.RecordScreen(video.New(video.Config{Dir: filepath.Join(ws.Dir, "recording"), Artifacts: ws.Dir}))
	}, "testdata/record_screen")
}

func TestRecordScreenLacksADesktop(t *testing.T) {
	hand := guest.RecordScreen(video.New(video.Config{Dir: t.TempDir()}))
	if err := hand.Lacks(); err == nil || !strings.Contains(err.Error(), "DISPLAY") {
		t.Errorf("%v", err)
	}
	call := &agentv1.ToolCall{Tool: &agentv1.ToolCall_RecordScreenToolCall{RecordScreenToolCall: &agentv1.RecordScreenToolCall{Args: &agentv1.RecordScreenArgs{}}}}
	if out := hand.Run(t.Context(), call, nil); out.Error { // the run has ended without a recording
		t.Errorf("%+v", out)
	}
}
