package execclient

import "aloft/internal/redact"

// outputs redacts the two output streams of one call.
type outputs struct{ stdout, stderr *redact.Stream }

func newOutputs(secrets *redact.Redactor) outputs {
	return outputs{secrets.Stream(), secrets.Stream()}
}

// next returns the redacted delta. It returns false if the delta is empty or
// delayed completely.
func (o outputs) next(d Delta) (Delta, bool) {
	d.Stdout = string(o.stdout.Next([]byte(d.Stdout)))
	d.Stderr = string(o.stderr.Next([]byte(d.Stderr)))
	return d, d.Stdout != "" || d.Stderr != ""
}

// holds reports whether redaction still delays some output.
func (o outputs) holds() bool { return o.stdout.Holds() || o.stderr.Holds() }

// idle returns the delayed output, to show it when no more output arrives.
func (o outputs) idle(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Idle()), Stderr: string(o.stderr.Idle()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}

// rest returns, when the call ends, the output that is still held back.
func (o outputs) rest(last uint64) (Delta, bool) {
	d := Delta{Stdout: string(o.stdout.Flush()), Stderr: string(o.stderr.Flush()), Seq: last}
	return d, d.Stdout != "" || d.Stderr != ""
}
