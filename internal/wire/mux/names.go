package mux

// More names of streams, and who answers them.
const (
	PTY   = "pty"   // docs/reference/pty.md over a WebSocket; pod-daemon joins it to exec-daemon
	Token = "token" // HTTP/1.1, POST /v1/tokens/oidc; the control plane answers
)

// Telemetry is OTLP: gRPC over HTTP/2. The control plane answers.
const Telemetry = "telemetry"
