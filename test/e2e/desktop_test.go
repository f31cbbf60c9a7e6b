package e2e

import (
	"strings"
	"testing"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// desktopScript records the desktop while a subagent moves the pointer.
const desktopScript = `
scripts:
  - match: point at the left
    turns:
      - calls: [{tool: ComputerUse, args: {actions: [{mouseMove: {coordinate: {x: 100, y: 200}}}, {cursorPosition: {}}, {screenshot: {}}]}}]
      - text: "Left: {{result 1}}"
  - match: point at the right
    turns:
      - calls: [{tool: ComputerUse, args: {actions: [{mouseMove: {coordinate: {x: 300, y: 400}}}, {cursorPosition: {}}, {screenshot: {}}]}}]
      - text: "Right: {{result 1}}"
  - match: 'Show (\S+) at the (\S+)'
    turns:
      - calls: [{tool: RecordScreen, args: {mode: START_RECORDING}}]
      - calls: [{tool: Task, args: {description: Point, prompt: "point at the {{match 2}}", subagent_type: computerUse}}]
      - calls: [{tool: RecordScreen, args: {mode: SAVE_RECORDING, save_as_filename: "{{match 1}}"}}]
      - text: Recorded.
`

// TestDesktopSleeps records the desktop and uses it before and after the machine
// has slept. A machine of runc sleeps on its disk, so its desktop starts again;
// one of gVisor sleeps with its processes, so its windows stay.
func TestDesktopSleeps(t *testing.T) {
	t.Parallel()
	need.Command(t, "Xtigervnc")
	need.Command(t, "ffmpeg")
	for name, c := range map[string]struct{ config, slept string }{
		"runc":  {"", "hibernated on its disk"},
		"runsc": {"  class: strong\n  strong: " + runsc(t) + "\n", "hibernated with its processes"},
	} {
		t.Run(name, func(t *testing.T) {
			git := gittest.New(t)
			url := git.Repo("desktop", map[string]string{"README.md": "desktop\n"})
			a := start(t, scripted(t, desktopScript)+"\nmachine:\n  idle_minutes: 0.05\n"+c.config) // 3 s
			r := a.finish(a.create(url, "Show before at the left", nil))
			in := func(command string) string {
				t.Helper()
				return a.output("agent", "exec", r.AgentID, "--", "sh", "-c", command)
			}
			shown := func(name, position string) {
				t.Helper()
				events := a.events(r.AgentID)
				for _, want := range []string{position, "/opt/cursor/artifacts/" + name + ".mp4"} {
					if !strings.Contains(events, want) {
						t.Errorf("no event has %q:\n%s", want, events)
					}
				}
				if got := in("ffprobe -v error -show_entries stream=codec_name,width -of csv=p=0 /opt/cursor/artifacts/" + name + ".mp4"); !strings.HasPrefix(got, "h264,") {
					t.Errorf("the recording %s is %q", name, got)
				}
			}
			shown("before", "The pointer is at 100,200.")
			server := in("pgrep -o Xtigervnc")
			a.machineIs(r.AgentID, c.slept)
			a.finish(a.followUp(r, "Show after at the right"))
			shown("after", "The pointer is at 300,400.")
			if name == "runsc" && in("pgrep -o Xtigervnc") != server {
				t.Error("the desktop did not sleep with the machine")
			}
		})
	}
}
