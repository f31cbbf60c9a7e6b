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

// maxJobs limits the number of remembered background commands; beyond it, those
// that ended first are forgotten.
const maxJobs = 200

// Job is the status of a background command.
type Job struct {
	PID         int
	Command     string
	Dir         string // the session's folder when it was started; only set by Start
	OutputFile  string // stdout and stderr; its last line has the exit code, once there is one
	OutputBytes int64  // its size
	Running     bool
	ExitCode    int  // 128+n for signal n
	Known       bool // whether the exit code is known; it is unknown if the keeper was killed too
}

// job is a background command. Its fields are immutable, except for those under
// mu.
type job struct {
	mark, command         string
	dir                   string // folder of its files
	pid, keeper           int
	pidStart, keeperStart uint64 // in clock ticks; 0 if it ended at once

	mu          sync.Mutex
	input       *os.File // write end of its input; nil once closed
	returned    int64    // how much of its output Await has returned
	endReported bool     // its end has been reported
	last        *Job     // final status, once the end has been reported
}

func (j *job) output() string { return outputPath(j.dir, j.mark) }
func (j *job) exit() string   { return filepath.Join(j.dir, j.mark+".exit") }
func (j *job) record() string { return filepath.Join(j.dir, j.mark+".job") }

// runs reports whether the command is still running. The command has ended once its
// keeper has saved the exit code, or once both the command and its keeper are gone.
func (j *job) runs() bool {
	if _, ok := j.code(); ok {
		return false
	}
	return isRunning(j.pid, j.pidStart) || isRunning(j.keeper, j.keeperStart)
}

// code returns the exit code that the keeper saved.
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
	code, known := j.code() // read after runs, so that a command that ends in between is not reported as running without its code
	state := Job{PID: j.pid, Command: j.command, OutputFile: j.output(), Running: running && !known, ExitCode: code, Known: known}
	if st, err := os.Stat(state.OutputFile); err == nil {
		state.OutputBytes = st.Size()
	}
	return state
}

// tell records that the end of the command was reported, with its final status.
// Afterwards only the output is kept on disk.
func (j *job) tell(state Job) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if state.Running || j.endReported {
		return
	}
	j.endReported, j.last = true, &state
	if j.input != nil {
		_ = j.input.Close()
		j.input = nil
	}
	_ = os.Remove(j.exit())
	_ = os.Remove(j.record())
}

// adopt adds a job that this session has started or found.
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

// Jobs returns the running background commands, and those that have ended since the last
// call, in the order in which they started. It can be called while a command runs.
func (s *Session) Jobs() []Job {
	s.jobsMu.Lock()
	jobs := slices.Clone(s.jobs)
	s.jobsMu.Unlock()
	var news []Job
	for _, j := range jobs {
		j.mu.Lock()
		reported := j.endReported
		j.mu.Unlock()
		if reported {
			continue
		}
		state := j.state()
		j.tell(state)
		news = append(news, state)
	}
	return news
}

// job returns the background command with that process id.
func (s *Session) job(pid int) (*job, error) {
	s.jobsMu.Lock()
	defer s.jobsMu.Unlock()
	var running []string
	for _, j := range slices.Backward(s.jobs) { // a process id may have been reused, so take the newest
		if j.pid == pid {
			return j, nil
		}
		if j.runs() {
			running = append(running, strconv.Itoa(j.pid))
		}
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("no background command has the process id %d, and none is running: start one with Shell and is_background", pid)
	}
	return nil, fmt.Errorf("no background command has the process id %d; these are running: %s", pid, strings.Join(running, ", "))
}

// jobRecord is the stored form of a job, for the next exec-daemon process.
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

// keep saves the job, so that a restarted exec-daemon knows about it.
func (j *job) keep() {
	owner := os.Getpid()
	text, err := json.Marshal(jobRecord{
		Command: j.command, PID: j.pid, PIDStart: j.pidStart, Keeper: j.keeper, KeeperStart: j.keeperStart,
		Owner: owner, OwnerStart: startOf(owner),
	})
	if err == nil && len(text) <= maxRecord {
		_ = os.WriteFile(j.record(), text, 0o600) // if the disk is full, only this record is lost
	}
}

var markForm = regexp.MustCompile(`^[0-9a-f]{24}$`)

// findJobs adopts the background commands of sessions whose process has died.
func (s *Session) findJobs() {
	files, _ := filepath.Glob(filepath.Join(s.cfg.OutputDir, "*.job")) // the pattern is valid
	for _, file := range files {
		j, ok := readJob(file)
		if ok && len(s.jobs) < maxJobs {
			s.adopt(j)
		}
	}
}

// readJob reads what keep saved for a session that is gone. Commands could have written
// to the file too, so readJob uses only process ids and text from it.
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
