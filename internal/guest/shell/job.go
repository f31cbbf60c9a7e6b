package shell

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxJobs bounds the background commands that are remembered; of more, those
// that ended first are forgotten.
const maxJobs = 200

// Job is how a background command stands.
type Job struct {
	PID         int
	Command     string
	Dir         string // the session's when it was started; only from Start
	OutputFile  string // both outputs; its last line tells the exit code, once there is one
	OutputBytes int64  // in it
	Running     bool
	ExitCode    int  // 128+n for signal n
	Known       bool // the exit code is known; it is not if what waited for it was killed, too
}

// job is a background command. Its fields but those under mu do not change.
type job struct {
	mark, command         string
	dir                   string // folder of its files
	pid, keeper           int
	pidStart, keeperStart uint64 // in ticks; 0 if it ended at once

	mu    sync.Mutex
	input *os.File // writes to its input; nil once that is closed
	seen  int64    // of its output, what Await has shown
	told  bool     // that it has ended
	last  *Job     // how it ended, once that was told
}

func (j *job) output() string { return outputPath(j.dir, j.mark) }
func (j *job) exit() string   { return filepath.Join(j.dir, j.mark+".exit") }
func (j *job) record() string { return filepath.Join(j.dir, j.mark+".job") }

// runs reports whether the command's end is still to come. It has ended when
// its keeper has said so, or is gone together with it.
func (j *job) runs() bool {
	if _, ok := j.code(); ok {
		return false
	}
	return lives(j.pid, j.pidStart) || lives(j.keeper, j.keeperStart)
}

// code is what the keeper wrote down of the end.
func (j *job) code() (int, bool) {
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	if last != nil {
		return last.ExitCode, last.Known
	}
	text, err := os.ReadFile(j.exit())
	if err != nil || len(text) > 3 {
		return 0, false
	}
	code, err := strconv.Atoi(string(text))
	return code, err == nil
}

func (j *job) state() Job {
	j.mu.Lock()
	last := j.last
	j.mu.Unlock()
	if last != nil {
		return *last
	}
	running := j.runs()
	code, known := j.code() // after runs: what ended between is not said to run without its code
	state := Job{PID: j.pid, Command: j.command, OutputFile: j.output(), Running: running && !known, ExitCode: code, Known: known}
	if st, err := os.Stat(state.OutputFile); err == nil {
		state.OutputBytes = st.Size()
	}
	return state
}

// tell remembers that the end was told, and how it was; nothing but the output
// is kept on disk then.
func (j *job) tell(state Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if state.Running || j.told {
		return
	}
	j.told, j.last = true, &state
	if j.input != nil {
		_ = j.input.Close()
		j.input = nil
	}
	_ = os.Remove(j.exit())
	_ = os.Remove(j.record())
}

// adopt takes up a job that this session has started, or found.
func (s *Session) adopt(j *job) {
	s.jobsMu.Lock()
	defer s.jobsMu.Unlock()
	s.jobs = append(s.jobs, j)
	if len(s.jobs) > maxJobs {
		if i := slices.IndexFunc(s.jobs, func(j *job) bool { return !j.runs() }); i >= 0 {
			s.jobs[i].tell(s.jobs[i].state())
			s.jobs = slices.Delete(s.jobs, i, i+1)
		}
	}
	j.keep()
	s.left.Go(func() { s.watch(j) })
}

// Jobs returns the background commands that run and, once each, those that
// have ended, in the order in which they were started. It is safe to call while
// a command runs.
func (s *Session) Jobs() []Job {
	s.jobsMu.Lock()
	jobs := slices.Clone(s.jobs)
	s.jobsMu.Unlock()
	var news []Job
	for _, j := range jobs {
		j.mu.Lock()
		told := j.told
		j.mu.Unlock()
		if told {
			continue
		}
		state := j.state()
		j.tell(state)
		news = append(news, state)
	}
	return news
}

// job returns the background command of that process id.
func (s *Session) job(pid int) (*job, error) {
	s.jobsMu.Lock()
	defer s.jobsMu.Unlock()
	var running []string
	for _, j := range slices.Backward(s.jobs) { // an id may come again
		if j.pid == pid {
			return j, nil
		}
		if j.runs() {
			running = append(running, strconv.Itoa(j.pid))
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no background command has the process id %d, and none runs: start one with Shell and is_background", pid)
	}
	return nil, fmt.Errorf("no background command has the process id %d; there run %s", pid, strings.Join(running, ", "))
}

// jobRecord is what is kept of a job for the next exec-daemon.
type jobRecord struct {
	Command     string `json:"command"`
	PID         int    `json:"pid"`
	PIDStart    uint64 `json:"pidStart"`
	Keeper      int    `json:"keeper"`
	KeeperStart uint64 `json:"keeperStart"`
	Owner       int    `json:"owner"`
	OwnerStart  uint64 `json:"ownerStart"`
}

const maxRecord = 1 << 20 // bytes

// keep writes the job down. Without that a new exec-daemon does not know of it.
func (j *job) keep() {
	owner := os.Getpid()
	text, err := json.Marshal(jobRecord{
		Command: j.command, PID: j.pid, PIDStart: j.pidStart, Keeper: j.keeper, KeeperStart: j.keeperStart,
		Owner: owner, OwnerStart: startOf(owner),
	})
	if err == nil && len(text) <= maxRecord {
		_ = os.WriteFile(j.record(), text, 0o600) // a full disk costs no more than this
	}
}

var markForm = regexp.MustCompile(`^[0-9a-f]{24}$`)

// findJobs takes up the background commands of sessions whose process died.
func (s *Session) findJobs() {
	files, _ := filepath.Glob(filepath.Join(s.cfg.OutputDir, "*.job")) // the pattern is sound
	for _, file := range files {
		j, ok := readJob(file)
		if ok && len(s.jobs) < maxJobs {
			s.adopt(j)
		}
	}
}

// readJob reads what keep wrote, of a session that is gone. Commands could have
// written there, too: nothing but process ids and words is believed.
func readJob(file string) (*job, bool) {
	mark := strings.TrimSuffix(filepath.Base(file), ".job")
	if st, err := os.Lstat(file); err != nil || !st.Mode().IsRegular() || st.Size() > maxRecord || !markForm.MatchString(mark) {
		return nil, false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	var r jobRecord
	if json.Unmarshal(text, &r) != nil || r.PID <= 1 || r.Keeper <= 1 || startOf(r.Owner) == r.OwnerStart {
		return nil, false
	}
	return &job{
		mark: mark, command: strings.ToValidUTF8(r.Command, "\uFFFD"), dir: filepath.Dir(file),
		pid: r.PID, pidStart: r.PIDStart, keeper: r.Keeper, keeperStart: r.KeeperStart,
	}, true
}
