package usage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Children returns the child processes of each process.
func Children() (map[int][]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, fmt.Errorf("/proc shows no processes: is it mounted?")
	}
	children := make(map[int][]int)
	for _, name := range stats {
		line, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, parent, state, ok := parseStat(line)
		if ok && state != 'Z' && state != 'X' {
			children[parent] = append(children[parent], pid)
		}
	}
	return children, nil
}

// parseStat reads the first fields of /proc/PID/stat: "pid (name) state ppid
// …". The process can choose its name, which may contain parentheses and
// spaces.
func parseStat(line []byte) (pid, parent int, state byte, ok bool) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return 0, 0, 0, false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:open])))
	if err != nil {
		return 0, 0, 0, false
	}
	fields := bytes.Fields(line[end+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0, 0, 0, false
	}
	return pid, parent, fields[0][0], true
}
