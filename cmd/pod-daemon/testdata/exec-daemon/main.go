// Command exec-daemon stands in for the real one where a test is of
// pod-daemon: it listens on the port that it is given and runs each line that
// it reads as a shell command, answering with the quoted output.
package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
)

func main() {
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
