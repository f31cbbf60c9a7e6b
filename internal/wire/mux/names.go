package mux

// More stream names, and the programs that serve them.
const (
	PTY   = "pty"   // docs/reference/pty.md over a WebSocket; pod-daemon forwards it to exec-daemon
	Token = "token" // HTTP/1.1, POST /v1/tokens/oidc; served by the control plane
)

// Telemetry is OTLP: gRPC over HTTP/2, served by the control plane.
const Telemetry = "telemetry"

// Embeddings is HTTP/1.1, POST /v1/embeddings as OpenAI has it, served by the
// control plane.
const Embeddings = "embeddings"

// Registry is HTTP/1.1: the pull requests of the machine's Docker for images in
// registries, served by the control plane.
const Registry = "registry"
