// Command hostile runs as root in a machine and impersonates its pod-daemon and
// exec-daemon. It replaces pod-daemon's socket, and sends the reply that its
// argument names to every request of the server.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"

	"aloft/internal/wire/mux"
	"aloft/internal/wire/podv1"
)

const socket = "/run/aloft/pod.sock"

func main() {
	if len(os.Args) != 2 || replies[os.Args[1]] == nil {
		log.Fatal("usage: hostile REPLY")
	}
	if err := os.Remove(socket); err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.Chmod(socket, 0o777); err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening")
	for {
		raw, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(raw, replies[os.Args[1]])
	}
}

func serve(raw net.Conn, reply http.HandlerFunc) {
	c, err := mux.Server(raw)
	if err != nil {
		return
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	protocols.SetHTTP1(true)
	streams := mux.NewListener()
	server := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a hostile server needs no limits
		log.Print(r.Method, " ", r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/Status") {
			honest(w)
			return
		}
		reply(w, r)
	})}
	go func() { _ = server.Serve(streams) }()
	_ = c.Serve(func(name string, s net.Conn) {
		if !streams.Hand(s) {
			_ = s.Close()
		}
	})
}

// honest replies as a pod-daemon whose machine is ready.
func honest(w http.ResponseWriter) {
	body, err := proto.Marshal(&podv1.StatusResponse{BootId: "hostile", Booted: true, ExecDaemonRunning: true})
	if err != nil {
		log.Fatal(err)
	}
	w.Header().Set("Content-Type", "application/proto")
	_, _ = w.Write(body)
}

// replies are the replies to all requests except Status, by name.
var replies = map[string]http.HandlerFunc{
	// Each message of two bytes takes about a hundred bytes in memory.
	"parts": func(w http.ResponseWriter, r *http.Request) {
		field := byte(1)
		if strings.HasSuffix(r.URL.Path, "/RunHooks") {
			field = 10
		}
		size := 15 << 20
		switch {
		case strings.HasSuffix(r.URL.Path, "/ListArtifacts"):
			size = 7 << 20
		case strings.HasSuffix(r.URL.Path, "/RunHooks"), strings.HasSuffix(r.URL.Path, "/ReadRules"):
			size = 4<<20 - 2
		}
		body := []byte(strings.Repeat(string([]byte{field<<3 | 2, 0}), size/2))
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(body)
	},
	// An error whose details are empty objects.
	"details": func(w http.ResponseWriter, r *http.Request) {
		words := `{"code":"internal","details":[` + strings.Repeat("{},", 5<<20) + `{}]}`
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/connect+") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(words))
			return
		}
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		words = `{"error":` + words + `}`
		_, _ = w.Write(binary.BigEndian.AppendUint32([]byte{2}, uint32(len(words))))
		_, _ = w.Write([]byte(words))
	},
}
