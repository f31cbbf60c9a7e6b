package loop

import (
	"context"

	"aloft/internal/agent"
	"aloft/internal/control/loop/transcript"
	"aloft/internal/hook"
)

// transcribe adds to a hook call the part of the transcript that the machine
// lacks. If the part is too long for one message, transcribe sends its
// beginning before the call.
func (t *thread) transcribe(ctx context.Context, s *agent.State, call *hook.Call) error {
	lines := transcript.Of(s.Messages)
	for {
		call.Transcript, call.TranscriptAt = t.progress.Next(lines)
		if call.TranscriptAt+int64(len(call.Transcript)) == int64(len(lines)) {
			return nil
		}
		out, err := t.machine.Hooks(ctx, s, hook.Call{Transcript: call.Transcript, TranscriptAt: call.TranscriptAt})
		if err != nil {
			return err
		}
		if out.Transcript != call.TranscriptAt+int64(len(call.Transcript)) {
			call.Transcript = nil // the machine cannot store it
			return nil
		}
	}
}
