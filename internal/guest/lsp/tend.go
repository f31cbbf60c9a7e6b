package lsp

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// tend watches the servers while there are any: it stops idle ones and kills
// those that use too much memory. The caller holds p.mu.
func (p *Pool) tend() {
	if p.tending || p.closed {
		return
	}
	p.tending = true
	p.wg.Go(func() {
		tick := time.NewTicker(min(tendEvery, max(p.cfg.Idle/4, 10*time.Millisecond)))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-p.quit:
				return
			}
			idle, greedy, over := p.look()
			for _, s := range idle {
				p.cfg.Log.Info("stopped an idle language server", "server", s.linter.name, "root", s.root)
				s.stop()
			}
			for s, bytes := range greedy {
				p.cfg.Log.Warn("killed a language server that used too much memory", "server", s.linter.name, "root", s.root, "bytes", bytes)
				s.conn.end(fmt.Errorf("it was killed because it used %d MB of memory; the limit is %d MB", bytes>>20, p.cfg.Memory>>20))
			}
			if over {
				return
			}
		}
	})
}

// look returns the servers to stop or kill. over says that there are no servers
// left.
func (p *Pool) look() (idle []*server, greedy map[*server]int64, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resident := residentByGroup()
	greedy = make(map[*server]int64)
	for key, s := range p.servers {
		switch {
		case !s.alive():
			delete(p.servers, key)
		case time.Since(s.lastUse()) > p.cfg.Patience+p.cfg.Idle, time.Since(s.lastUse()) > p.cfg.Idle && p.resting():
			delete(p.servers, key)
			idle = append(idle, s)
		case resident[s.cmd.Process.Pid] > p.cfg.Memory:
			greedy[s] = resident[s.cmd.Process.Pid]
		}
	}
	over = len(p.servers) == 0
	p.tending = !over
	return idle, greedy, over
}

// resting reports whether no report is being made.
func (p *Pool) resting() bool { return len(p.turn) > 0 }

// residentByGroup returns the resident memory of each process group, in bytes.
func residentByGroup() map[int]int64 {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	page := int64(os.Getpagesize())
	sum := make(map[int]int64)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has exited
		}
		if group, pages, ok := readStat(stat); ok {
			sum[group] += pages * page
		}
	}
	return sum
}

// readStat reads the process group and the resident pages from /proc/PID/stat,
// where the name in parentheses may contain anything.
func readStat(stat []byte) (group int, pages int64, ok bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[end+1:]) // the fields from the third on
	if len(fields) < 22 {
		return 0, 0, false
	}
	group, err := strconv.Atoi(string(fields[2]))
	if err != nil {
		return 0, 0, false
	}
	pages, err = strconv.ParseInt(string(fields[21]), 10, 64)
	return group, pages, err == nil
}
