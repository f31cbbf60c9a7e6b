// Command exec-daemon replaces the real one in tests of pod-daemon: it listens
// on the given port and runs each line that it reads as a shell command,
// answering with the quoted output.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// agentPrefix is the prefix of the variables in which pod-daemon passes the
// agent's environment.
const agentPrefix = "ALOFT_AGENT_ENV_"

func main() {
	for _, variable := range os.Environ() { // the agent's, which the real one gives to commands only
		if name, value, ok := strings.Cut(strings.TrimPrefix(variable, agentPrefix), "="); ok && strings.HasPrefix(variable, agentPrefix) {
			_ = os.Setenv(name, value)
		}
	}
	if times := os.Getenv("STAND_IN_KILLED"); times != "" { // a file with a letter for each time that it is still to be killed
		left, err := os.ReadFile(times)
		if err != nil {
			panic(err)
		}
		if len(left) > 0 {
			if err := os.Truncate(times, int64(len(left)-1)); err != nil {
				panic(err)
			}
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
	}
	if os.Getenv("STAND_IN_FAILS") != "" {
		fmt.Fprintln(os.Stderr, "cannot start with", os.Getenv("EXEC_DAEMON_AUTH_TOKEN"))
		os.Exit(3)
	}
	var port string
	for i, arg := range os.Args[:len(os.Args)-1] {
		if arg == "--port" {
			port = os.Args[i+1]
		}
	}
	go note()
	l, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go serve(conn)
	}
}

// note records received signals in a file of the workspace, and ends the
// process on SIGTERM.
func note() {
	got := make(chan os.Signal, 8)
	signal.Notify(got, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	for sig := range got {
		f, err := os.OpenFile("signals", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintf(f, "exec-daemon: %s\n", sig)
			_ = f.Close()
		}
		if sig == syscall.SIGTERM {
			os.Exit(0)
		}
	}
}

func serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		out, err := exec.Command("sh", "-c", lines.Text()).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		fmt.Fprintf(conn, "%q\n", strings.TrimSpace(string(out)))
	}
}
