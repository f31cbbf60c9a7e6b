package tool

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"aloft/internal/guest/video"
	"aloft/internal/wire/agentv1"
)

// RecordScreen records the desktop, one recording at a time.
func RecordScreen(recorder *video.Recorder) Tool {
	return Tool{Name: "RecordScreen", Lacks: recorder.Lacks, Run: func(ctx context.Context, call *agentv1.ToolCall, _ Emit) Outcome {
		args := call.GetRecordScreenToolCall().GetArgs()
		success, text, err := recordScreen(ctx, recorder, args)
		result := &agentv1.RecordScreenResult{Result: &agentv1.RecordScreenResult_Success{Success: success}}
		if err != nil {
			text = valid(err.Error())
			result.Result = &agentv1.RecordScreenResult_Error{Error: &agentv1.ToolError{Message: text}}
		}
		done := &agentv1.RecordScreenToolCall{Result: result}
		return outcomeOf(&agentv1.ToolCall{Tool: &agentv1.ToolCall_RecordScreenToolCall{RecordScreenToolCall: done}}, text, err)
	}}
}

func recordScreen(ctx context.Context, recorder *video.Recorder, args *agentv1.RecordScreenArgs) (*agentv1.RecordScreenSuccess, string, error) {
	if args == nil {
		return nil, "", errNoArguments
	}
	success := &agentv1.RecordScreenSuccess{Mode: args.GetMode()}
	if args.GetSaveAsFilename() != "" && args.GetMode() != agentv1.RecordingMode_SAVE_RECORDING {
		return nil, "", fmt.Errorf("save_as_filename is for SAVE_RECORDING only")
	}
	var rec video.Recording
	var err error
	text := ""
	switch args.GetMode() {
	case agentv1.RecordingMode_START_RECORDING:
		if err := recorder.Start(ctx); err != nil {
			return nil, "", err
		}
		return success, "[recording the desktop; end it with SAVE_RECORDING or DISCARD_RECORDING]", nil
	case agentv1.RecordingMode_SAVE_RECORDING:
		rec, err = recorder.Save(ctx, args.GetSaveAsFilename())
		success.FilePath = valid(rec.Path)
		text = fmt.Sprintf("[saved as %s: %s, %d bytes]", rec.Path, seconds(rec.Length), rec.Size)
	case agentv1.RecordingMode_DISCARD_RECORDING:
		rec, err = recorder.Discard()
		text = "[recording discarded]"
	case agentv1.RecordingMode_RECORDING_MODE_UNSPECIFIED:
		return success, "[recording stopped]", recorder.End("the run ended")
	default:
		return nil, "", fmt.Errorf("unknown mode %d: use START_RECORDING, SAVE_RECORDING or DISCARD_RECORDING", args.GetMode())
	}
	if err != nil {
		return nil, "", err
	}
	if rec.Ended != "" {
		text += fmt.Sprintf("\n[the recording had ended early: %s]", rec.Ended)
	}
	success.DurationMs, success.SizeBytes, success.Ended = clampInt32(int(rec.Length.Milliseconds())), float64(rec.Size), valid(rec.Ended)
	return success, valid(text), nil
}

// seconds formats a time in a video for the model.
func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
}
