package execd

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/protobuf/proto"

	"aloft/internal/need"
	"aloft/internal/wire/conformancev1"
	"aloft/internal/wire/conformancev1/conformancev1connect"
)

// conformanceVariable makes this test binary act as the server that the runner
// tests.
const conformanceVariable = "ALOFT_TEST_CONFORMANCE_SERVER"

// fullVariable selects all cases. `make conformance` sets it.
const fullVariable = "ALOFT_TEST_CONFORMANCE_ALL"

func TestMain(m *testing.M) {
	if dir := os.Getenv(conformanceVariable); dir != "" {
		if err := serveConformance(dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// conformanceConfig describes exec-daemon's HTTP stack: both versions of HTTP
// without TLS, every protocol and codec, no compression.
const conformanceConfig = `
features:
  versions: [HTTP_VERSION_1, HTTP_VERSION_2]
  protocols: [PROTOCOL_CONNECT, PROTOCOL_GRPC, PROTOCOL_GRPC_WEB]
  codecs: [CODEC_PROTO, CODEC_JSON]
  compressions: [COMPRESSION_IDENTITY]
  stream_types: [STREAM_TYPE_UNARY, STREAM_TYPE_CLIENT_STREAM, STREAM_TYPE_SERVER_STREAM, STREAM_TYPE_HALF_DUPLEX_BIDI_STREAM, STREAM_TYPE_FULL_DUPLEX_BIDI_STREAM]
  supports_h2c: true
  supports_tls: false
  supports_trailers: true
  supports_half_duplex_bidi_over_http1: false
  supports_connect_get: true
  supports_message_receive_limit: true
`

// short lists the groups of cases that `make test` runs; `make conformance`
// runs all.
var short = []string{"Basic/**", "Errors/**", "Server Message Size/**"}

// TestConformance runs the public suite against the stack that exec-daemon's
// own services use: its listener, HTTP server, token and options.
func TestConformance(t *testing.T) {
	runner, err := filepath.Abs("../../../.bin/connectconformance")
	if err != nil {
		t.Fatal(err)
	}
	need.File(t, "connectconformance", runner)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(t.TempDir(), "features.yaml")
	if err := os.WriteFile(conf, []byte(conformanceConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--mode", "server", "--conf", conf, "--max-servers", "2"}
	least := 500
	if os.Getenv(fullVariable) == "" {
		least = 80
		for _, group := range short {
			args = append(args, "--run", group)
		}
	}
	cmd := exec.CommandContext(t.Context(), runner, append(args, "--", self)...)
	cmd.Env = append(os.Environ(), conformanceVariable+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, text[max(0, len(text)-8000):])
	}
	m := regexp.MustCompile(`(\d+) passed, (\d+) failed`).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("the runner said\n%s", text)
	}
	passed, err := strconv.Atoi(m[1])
	if err != nil || passed < least || m[2] != "0" {
		t.Errorf("%s, and at least %d cases are to run", m[0], least)
	}
	t.Log(m[0])
}

// serveConformance is the process under test: it reads the suite's request,
// prints its address, and serves until it is told to stop.
func serveConformance(dir string, in io.Reader, out io.Writer) error {
	var size uint32
	if err := binary.Read(in, binary.BigEndian, &size); err != nil {
		return err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(in, data); err != nil {
		return err
	}
	var asked conformancev1.ServerCompatRequest
	if err := proto.Unmarshal(data, &asked); err != nil {
		return err
	}
	state, err := os.MkdirTemp(dir, "state-")
	if err != nil {
		return err
	}
	token := strings.Repeat("0123456789abcdef", 4)
	s, err := New(Config{Token: token, StateDir: state, Workspace: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	limit := maxMessage
	if n := asked.GetMessageReceiveLimit(); n > 0 {
		limit = int(n)
	}
	mux := http.NewServeMux()
	mux.Handle(conformancev1connect.NewConformanceServiceHandler(conformance{}, s.options(limit)...))
	guarded := s.authenticated(mux)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token) // the suite's client knows of none
		guarded.ServeHTTP(w, r)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	port := l.Addr().(*net.TCPAddr).Port
	reply, err := proto.Marshal(&conformancev1.ServerCompatResponse{Host: "127.0.0.1", Port: uint32(port)})
	if err != nil {
		return err
	}
	if _, err := out.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reply))), reply...)); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return s.serve(ctx, l, handler)
}
