package journal

import "time"

// WatchClock calls the function up once, when the run reaches its time limit.
// Time does not count while the agent is paused.
func (r *Recorder) WatchClock(up func()) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var alarm *time.Timer
	alarm = time.AfterFunc(time.Hour, func() {
		r.mu.Lock()
		left, runs := r.timeLeft()
		if runs && left > 0 {
			alarm.Reset(left)
		}
		r.mu.Unlock()
		if runs && left <= 0 {
			up()
		}
	})
	r.moved = func() {
		if left, runs := r.timeLeft(); runs {
			alarm.Reset(max(left, 0))
		} else {
			alarm.Stop()
		}
	}
	r.moved()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.moved = nil
		alarm.Stop()
	}
}

// timeLeft returns how long the run may still work, and whether its clock is
// running.
func (r *Recorder) timeLeft() (time.Duration, bool) {
	run := r.state.Run
	return time.Duration(run.Limit.Seconds)*time.Second - run.Clock.Time(time.Now()), !run.Clock.Since.IsZero()
}
