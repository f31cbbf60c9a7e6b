package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"aloft/internal/agent"
	"aloft/internal/control/store"
)

// appendTo is the environment variable that makes the test binary act as the
// server to be killed.
const appendTo = "ALOFT_TEST_APPEND_TO"

// batchOf is how many events that server appends at a time.
const batchOf = 3

func TestMain(m *testing.M) {
	if dir := os.Getenv(appendTo); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim appends to several agents concurrently until it is killed. For each
// acknowledged append it prints the agent's id and the number of the last
// event.
func victim(dir string) error {
	s, err := Open(context.Background(), filepath.Join(dir, "aloft.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range cap(errs) {
		wg.Go(func() {
			id, run := agent.NewID(), agent.NewRunID()
			var head int64
			events := []agent.Event{{Body: &agent.Created{}}, {RunID: run, Body: &agent.RunCreated{}}, {RunID: run, Body: &agent.RunStarted{}}}
			for {
				written, err := s.Append(context.Background(), store.Append{AgentID: id, IfHead: &head, Events: events})
				if err != nil {
					errs <- err
					return
				}
				head = written[len(written)-1].Seq
				mu.Lock()
				fmt.Println(id, head)
				mu.Unlock()
				e := agent.Event{RunID: run, Body: delta}
				events = []agent.Event{e, e, e}
			}
		})
	}
	wg.Wait()
	return <-errs
}

func TestKill(t *testing.T) {
	dir := t.TempDir()
	acknowledged := map[string]int64{}
	for range 8 {
		killAmidst(t, dir, 1+rand.IntN(400), acknowledged)
		s := openTest(t, dir)
		for id, head := range acknowledged {
			events, err := s.Read(t.Context(), id, 0, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			n := int64(len(events))
			if err := contiguous(events); err != nil || n < head || n%batchOf != 0 {
				t.Errorf("the journal has %d events, %v; %d were acknowledged, in batches of %d", n, err, head, batchOf)
			}
			checkWhole(t, s, id, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAmidst kills a victim after the given number of acknowledged appends, and
// records all of the victim's output.
func killAmidst(t *testing.T, dir string, appends int, acknowledged map[string]int64) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), appendTo+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == appends {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		id, last, _ := strings.Cut(lines.Text(), " ")
		if head, err := strconv.ParseInt(last, 10, 64); err == nil && agent.ValidID(id) {
			acknowledged[id] = head
		}
	}
	_ = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the victim ended by itself: %v", cmd.ProcessState)
	}
}
