package main

import (
	"strings"
	"syscall"
	"testing"

	"aloft/internal/control/execclient"
	"aloft/internal/telemetry"
	"aloft/internal/telemetry/telemetrytest"
)

func TestTrace(t *testing.T) {
	r := telemetrytest.Start(t, "t0ken")
	d := start(t, func(d *daemon) {
		d.more = []string{"--trace-endpoint", r.URL, "--trace-insecure", "--ghost-mode", "false", "--secret-redaction-enabled"}
		d.env = []string{variable("trace-auth-token") + "=t0ken", "CLOUD_AGENT_INJECTED_SECRET_NAMES=DEPLOY_KEY", "DEPLOY_KEY=a-secret-value"}
	})
	run := telemetry.Run("run-1", "")
	e := d.client(execclient.Trace(telemetry.Format(run)))
	res, _, err := e.Call(within(t), bashCall("c1", "echo PRIVATE; echo $DEPLOY_KEY; exit 3"), nil)
	if err != nil || !strings.Contains(res.Text, "PRIVATE\n[REDACTED]") {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	_ = d.signal(syscall.SIGTERM) // exports the pending data
	r.Await(t, "the spans of the call and of its stream, a log and a count", func() bool {
		return r.Spans()["exec Shell"] != nil && r.Spans()["agent.v1.ExecService/ExecStream"] != nil && len(r.Logs()) > 0 && r.Metric("exec_daemon_tool_calls") != nil
	})
	if n := r.Metric("exec_daemon_tool_calls").GetSum().GetDataPoints(); len(n) != 1 || n[0].GetAsInt() != 1 {
		t.Errorf("calls: %v", n)
	}
	traceID, call, of := run.TraceID(), telemetry.Span(run, "call c1").SpanID(), run.SpanID()
	for name, parent := range map[string]string{"exec Shell": string(call[:]), "agent.v1.ExecService/ExecStream": string(of[:])} {
		s := r.Spans()[name]
		if string(s.GetTraceId()) != string(traceID[:]) || string(s.GetParentSpanId()) != parent {
			t.Errorf("%s is not where it belongs: %v", name, s)
		}
	}
	for _, not := range []string{"PRIVATE", "a-secret-value", "t0ken", token} {
		if strings.Contains(r.Text(), not) {
			t.Errorf("%q was sent", not)
		}
	}
}

func TestGhostModeSendsNothing(t *testing.T) {
	r := telemetrytest.Start(t, "")
	d := start(t, func(d *daemon) { d.more = []string{"--trace-endpoint", r.URL, "--trace-insecure"} })
	e := d.client(execclient.Trace(telemetry.Format(telemetry.Run("run-1", ""))))
	if res, _, err := e.Call(within(t), bashCall("c1", "true"), nil); err != nil || res.Error {
		t.Fatalf("%+v, %v", res, err)
	}
	_ = d.signal(syscall.SIGTERM) // would export pending data
	if n := r.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
